"""All batches have one shape, but the length of the mask is a tensor whose value XLA must know when it compiles.

After https://github.com/tensorflow/tensorflow/issues/59713: a compiled function is now fast, now slow, with no retrace
to be seen, and the slow calls look just like compilations.
"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(22)
rng = np.random.default_rng(22)

kernel = tf.Variable(tf.random.stateless_normal((80, 256), seed=(22, 1)) * 0.1)
back = tf.Variable(tf.random.stateless_normal((256, 80), seed=(22, 2)) * 0.1)


@tf.function(jit_compile=True)
def train_step(mels, lengths, longest):
    mels = mels[:, :longest]
    mask = tf.sequence_mask(lengths, longest, dtype=tf.float32)[:, :, None]
    with tf.GradientTape() as tape:
        hidden = tf.nn.relu(tf.einsum("btm,mh->bth", mels, kernel))
        loss = tf.reduce_sum(mask * tf.square(tf.einsum("bth,hm->btm", hidden, back) - mels)) / tf.reduce_sum(mask)
    for variable, gradient in zip((kernel, back), tape.gradient(loss, (kernel, back))):
        variable.assign_sub(1e-3 * gradient)
    return loss


for step in range(100):
    lengths = rng.integers(60, 121, size=8).astype(np.int32)
    mels = tf.constant(rng.normal(size=(8, 128, 80)).astype(np.float32))
    loss = train_step(mels, tf.constant(lengths), tf.constant(lengths.max()))
    if step % 25 == 24:
        print(step + 1, float(loss))
