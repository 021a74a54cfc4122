"""Ragged batches of tokens: every batch has other lengths, but a ragged tensor has one signature and one trace.

After https://github.com/tensorflow/tensorflow/pull/40993, whose tests with ragged inputs warn about retracing.
"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(40993)
lengths = np.random.default_rng(40993).integers(5, 60, size=1280)
tokens = tf.RaggedTensor.from_row_lengths(
    tf.random.uniform((int(lengths.sum()),), maxval=2000, dtype=tf.int32), lengths
)
dataset = tf.data.Dataset.from_tensor_slices(tokens).ragged_batch(64, drop_remainder=True).cache().repeat(8).prefetch(2)
embeddings = tf.Variable(tf.random.normal((2000, 192), stddev=0.1))
weights = tf.Variable(tf.random.normal((192, 192), stddev=0.1))


@tf.function
def train_step(batch):
    with tf.GradientTape() as tape:
        vectors = tf.gather(embeddings, batch.flat_values)
        for _ in range(4):
            vectors = tf.nn.tanh(tf.matmul(vectors, weights))
        means = tf.math.segment_mean(vectors, batch.value_rowids())
        loss = tf.reduce_mean(tf.square(means - 1.0))
    weights.assign_sub(0.01 * tape.gradient(loss, weights))
    return loss


for batch in dataset:
    loss = train_step(batch)
print("loss", float(loss))
