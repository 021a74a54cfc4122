"""A GradientTape loop without tf.function: each op of each step is started from Python.

After https://github.com/tensorflow/tensorflow/issues/30596: the hand-written loop is very much slower than fit, and
wrapping it in a tf.function brings most of the time back.
"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(39)

mels = np.random.default_rng(39).normal(size=(240, 32, 80)).astype(np.float32)
dataset = tf.data.Dataset.from_tensor_slices(mels).cache().shuffle(240, seed=39)
dataset = dataset.batch(8, drop_remainder=True).prefetch(tf.data.AUTOTUNE)

inputs = tf.keras.Input((32, 80))
hidden = tf.keras.layers.Dense(64)(inputs)
for _ in range(2):
    branch = tf.keras.layers.LayerNormalization()(hidden)
    branch = tf.keras.layers.Dense(64, activation="relu")(branch)
    hidden = tf.keras.layers.Add()([hidden, branch])
model = tf.keras.Model(inputs, tf.keras.layers.Dense(80)(hidden))
optimizer = tf.keras.optimizers.Adam(1e-3)


def train_step(batch):
    with tf.GradientTape() as tape:
        outputs = model(batch, training=True)
        loss = tf.reduce_mean(tf.square(outputs - batch))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for epoch in range(4):
    for batch in dataset:
        loss = train_step(batch)
    print(f"epoch {epoch}: loss {float(loss):.4f}")
