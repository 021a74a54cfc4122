"""A part of the loss is computed in NumPy, by tf.numpy_function inside the compiled step: the device waits for Python.

After https://github.com/tensorflow/tensorflow/issues/37488, whose reporter measured a step that became several times slower.
"""

import numpy as np
import tensorflow as tf

tf.random.set_seed(1)
weights = tf.Variable(tf.random.normal((80, 80), stddev=0.1))


def dynamic_time_warping_cost(mel):
    cost = np.zeros((len(mel) + 1, 60))
    for row in range(1, len(mel) + 1):
        for column in range(1, 60):
            cost[row, column] = abs(mel[row - 1, 0]) + min(cost[row - 1, column], cost[row, column - 1])
    return np.float32(cost[-1, -1])


@tf.function
def train_step(batch):
    with tf.GradientTape() as tape:
        predicted = tf.tensordot(batch, weights, 1)
        loss = tf.reduce_mean((predicted - batch) ** 2)
    weights.assign_sub(0.1 * tape.gradient(loss, weights))
    return loss + 1e-6 * tf.numpy_function(dynamic_time_warping_cost, [predicted[0]], tf.float32)


batch = tf.random.normal((16, 64, 80))
for step in range(80):
    loss = train_step(batch)
print("loss", float(loss))
