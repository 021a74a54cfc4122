"""XLA with one fixed shape: compiled once, then steady. jit_compile alone is no issue.

After https://github.com/tensorflow/tensorflow/issues/62198, whose reporter found XLA fast as long as every batch had
the same shape, and endless compilation as soon as the real, variable data came.
"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(7)

mels = np.random.default_rng(7).normal(size=(320, 128, 80)).astype(np.float32)
dataset = tf.data.Dataset.from_tensor_slices(mels).shuffle(320, seed=7).repeat()
dataset = dataset.batch(16, drop_remainder=True).prefetch(2)

projection = tf.Variable(tf.random.stateless_normal((80, 384), seed=(7, 1)) * 0.1)
back = tf.Variable(tf.random.stateless_normal((384, 80), seed=(7, 2)) * 0.05)


@tf.function(jit_compile=True, input_signature=[tf.TensorSpec((16, 128, 80), tf.float32)])
def train_step(batch):
    with tf.GradientTape() as tape:
        hidden = tf.nn.gelu(tf.einsum("btm,mh->bth", batch, projection))
        loss = tf.reduce_mean(tf.square(tf.einsum("bth,hm->btm", hidden, back) - batch))
    for variable, gradient in zip((projection, back), tape.gradient(loss, (projection, back))):
        variable.assign_sub(0.5 * gradient)
    return loss


for step, batch in enumerate(dataset.take(150)):
    loss = train_step(batch)
    if step % 50 == 49:
        print(step + 1, float(loss))
