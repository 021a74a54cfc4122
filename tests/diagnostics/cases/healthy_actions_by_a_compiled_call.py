"""An agent asks its compiled network for an action in every step of a quick game, and learns from large batches.

After https://github.com/tensorflow/tensorflow/issues/46126: the way of acting that its reporter was advised to use.
"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(46126)
numbers = np.random.default_rng(46126)
network = tf.keras.Sequential(
    [tf.keras.Input((64,)), *(tf.keras.layers.Dense(640, "relu") for _ in range(3)), tf.keras.layers.Dense(4)]
)
optimizer = tf.keras.optimizers.Adam(1e-4)
optimizer.build(network.trainable_variables)


@tf.function
def act(state):
    return tf.argmax(network(state), axis=-1)[0]


@tf.function
def learn(states, targets):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(network(states, training=True) - targets))
    gradients = tape.gradient(loss, network.trainable_variables)
    optimizer.apply_gradients(zip(gradients, network.trainable_variables))
    return loss


memory = numbers.normal(size=(4096, 64)).astype("float32")
values = numbers.normal(size=(4096, 4)).astype("float32")
position, won = 0, 0
for turn in range(250):
    action = int(act(memory[position : position + 1]))
    position = (position * 4 + action + 1) % len(memory)
    won += action == 3
    rows = numbers.integers(0, len(memory), size=768)
    loss = learn(memory[rows], values[rows])
print("won", won, "loss", float(loss))
