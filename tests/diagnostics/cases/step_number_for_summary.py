"""The number of the step goes into the compiled step as a Python int, for tf.summary.scalar: one trace for every step.

After https://github.com/tensorflow/tensorflow/issues/34481, where the documentation's own example did this.
"""

import tempfile

import tensorflow as tf

tf.keras.utils.set_random_seed(34481)
writer = tf.summary.create_file_writer(tempfile.mkdtemp())
weights = tf.Variable(tf.random.normal((256, 256), stddev=0.05))
images = tf.random.normal((64, 256))


@tf.function
def training_step(batch, step):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.matmul(batch, weights) - batch))
    weights.assign_sub(0.01 * tape.gradient(loss, weights))
    with writer.as_default():
        tf.summary.scalar("loss", loss, step=step)
    return loss


for step in range(60):
    loss = training_step(images, step)
writer.flush()
print("loss", float(loss))
