"""A Python int says which of four stages of the curriculum is trained: four traces, and not one more in 200 steps.

After https://github.com/tensorflow/tensorboard/issues/6219: a step that only takes four values should not matter.
"""

import tensorflow as tf

tf.keras.utils.set_random_seed(6219)
weights = tf.Variable(tf.random.normal((768, 768), stddev=0.03))
batch = tf.random.normal((768, 768))


@tf.function
def train_step(batch, stage):
    noise = 0.1 * stage
    with tf.GradientTape() as tape:
        hidden = tf.nn.relu(tf.matmul(batch + noise, weights))
        loss = tf.reduce_mean(tf.square(tf.matmul(hidden, weights, transpose_b=True) - batch))
    weights.assign_sub(0.01 * tape.gradient(loss, weights))
    return loss


for step in range(200):
    loss = train_step(batch, step // 50)
print("loss", float(loss))
