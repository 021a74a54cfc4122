"""A new dataset with the same augmentation is made for every epoch, so its functions are traced every time.

After https://github.com/tensorflow/tensorflow/issues/35049, whose reporter generates tf.data again at the end of each epoch.
"""

import tensorflow as tf

tf.random.set_seed(1)
mels = tf.random.normal((96, 64, 80))
weights = tf.Variable(tf.random.normal((80, 80), stddev=0.1))


def augment(mel):
    for band in range(120):
        gain = tf.random.uniform((), 0.9, 1.1)
        mel = mel + tf.cast(tf.range(80) == band % 80, tf.float32) * gain * 0.01
    return mel


@tf.function
def train_step(batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((tf.tensordot(batch, weights, 1) - batch) ** 2)
    weights.assign_sub(0.1 * tape.gradient(loss, weights))
    return loss


for epoch in range(6):
    dataset = tf.data.Dataset.from_tensor_slices(mels)
    dataset = dataset.map(augment, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.batch(16).prefetch(2)
    for batch in dataset:
        loss = train_step(batch)
    print("epoch", epoch, "loss", float(loss))
