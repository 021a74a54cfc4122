"""A replay buffer of fixed length fills in the first half of the training; the memory grows until then, and no further.

After https://github.com/tensorflow/tensorflow/issues/59587, whose reporter takes the filling buffer of an agent for a leak.
"""

from collections import deque

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(59587)
numbers = np.random.default_rng(59587)
screen = numbers.normal(size=(64, 4096)).astype(np.float32)
replay = deque(maxlen=160)
history = []
layers = [tf.keras.layers.Dense(1024, "relu") for _ in range(3)]
model = tf.keras.Sequential([tf.keras.Input((4096,)), *layers, tf.keras.layers.Dense(8)])
optimizer = tf.keras.optimizers.SGD(1e-3)
optimizer.build(model.trainable_variables)


@tf.function
def train_step(batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(batch, training=True)))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for step in range(400):
    replay.append(screen * np.float32(1 - step / 1000))
    loss = train_step(replay[(step * 7) % len(replay)])
    if step % 50 == 0:
        history.append(float(loss))
print("loss", history)
