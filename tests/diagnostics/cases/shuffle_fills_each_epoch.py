"""The shuffle buffer holds the whole corpus after a costly map, and fills before the first batch of every epoch.

After https://github.com/tensorflow/tensorflow/issues/47090, whose reporter saw the loading of the shuffle buffer in every epoch.
"""

import tensorflow as tf

tf.random.set_seed(1)
weights = tf.Variable(tf.random.normal((80, 80), stddev=0.1))


def mel_of(index):
    audio = tf.random.stateless_normal((48000,), tf.stack([index, index]))
    spectrum = tf.abs(tf.signal.stft(audio, 1024, 256))
    return tf.math.log(tf.tensordot(spectrum, tf.ones((513, 80)), 1) + 1e-5)


dataset = tf.data.Dataset.range(96).map(mel_of, num_parallel_calls=tf.data.AUTOTUNE)
dataset = dataset.shuffle(96)
dataset = dataset.batch(16).prefetch(2)


@tf.function
def train_step(batch):
    with tf.GradientTape() as tape:
        value = batch
        for _ in range(60):
            value = tf.tanh(tf.tensordot(value, weights, 1))
        loss = tf.reduce_mean(value**2)
    weights.assign_sub(0.1 * tape.gradient(loss, weights))
    return loss


for epoch in range(5):
    for batch in dataset:
        loss = train_step(batch)
    print("epoch", epoch, "loss", float(loss))
