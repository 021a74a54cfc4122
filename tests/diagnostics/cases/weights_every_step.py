"""The checkpoint is written after every step.

After https://github.com/keras-team/keras/issues/5008, where people save the weights from a batch callback.
"""

import tempfile

import tensorflow as tf

tf.random.set_seed(1)
weights = tf.Variable(tf.random.normal((1500, 1500), stddev=0.01))
checkpoint = tf.train.Checkpoint(weights=weights)
folder = tempfile.mkdtemp()


@tf.function
def train_step(batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((tf.matmul(batch, weights) - batch) ** 2)
    weights.assign_sub(0.1 * tape.gradient(loss, weights))
    return loss


batch = tf.random.normal((64, 1500))
for step in range(60):
    loss = train_step(batch)
    checkpoint.write(f"{folder}/newest")
print("loss", float(loss))
