"""One checkpoint for every epoch of many steps: nothing is wrong here.

After https://github.com/keras-team/keras/issues/3151, which asks to save every k epochs.
"""

import tempfile

import tensorflow as tf

tf.random.set_seed(1)
weights = tf.Variable(tf.random.normal((700, 700), stddev=0.01))
checkpoint = tf.train.Checkpoint(weights=weights)
folder = tempfile.mkdtemp()
dataset = tf.data.Dataset.from_tensors(tf.random.normal((400, 700))).repeat(80).prefetch(2)


@tf.function
def train_step(batch):
    with tf.GradientTape() as tape:
        value = batch
        for _ in range(4):
            value = tf.tanh(tf.matmul(value, weights))
        loss = tf.reduce_mean((value - batch) ** 2)
    weights.assign_sub(0.1 * tape.gradient(loss, weights))
    return loss


for epoch in range(3):
    for batch in dataset:
        loss = train_step(batch)
    checkpoint.write(f"{folder}/epoch-{epoch}")
    print("epoch", epoch, "loss", float(loss))
