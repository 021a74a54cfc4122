"""A cheap function is mapped over single rows before batching: the cost is 512 calls for each batch, not the arithmetic.

After https://github.com/aianaconda/TensorFlow_Engineering_Implementation/issues/4: batch() should be called before map().
"""

import tensorflow as tf

tf.keras.utils.set_random_seed(4)
rows = tf.random.normal((512 * 60, 12))


def scale(row):
    centered = row - tf.reduce_mean(row)
    return tf.clip_by_value(centered / (tf.math.reduce_std(row) + 1e-3), -3.0, 3.0)


dataset = tf.data.Dataset.from_tensor_slices(rows)
dataset = dataset.map(scale, num_parallel_calls=tf.data.AUTOTUNE)
dataset = dataset.batch(512, drop_remainder=True)
dataset = dataset.prefetch(tf.data.AUTOTUNE)

weights = tf.Variable(tf.random.normal((12, 12), stddev=0.1))


@tf.function
def train_step(batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.matmul(batch, weights) - batch))
    weights.assign_sub(0.01 * tape.gradient(loss, weights))
    return loss


for batch in dataset:
    loss = train_step(batch)
print("loss", float(loss))
