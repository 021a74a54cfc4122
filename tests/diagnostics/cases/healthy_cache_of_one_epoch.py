"""The memory grows in every step of the only epoch, because a cache fills that is as large as the data.

After https://github.com/tensorflow/tensorflow/issues/27128: a cache in memory takes the memory that the data needs.
"""

import tensorflow as tf

tf.keras.utils.set_random_seed(27128)


def make_rows(index):
    return tf.random.stateless_normal((256, 1024), (27128, tf.cast(index, tf.int32)))


dataset = tf.data.Dataset.range(200).map(make_rows, num_parallel_calls=tf.data.AUTOTUNE).cache().prefetch(2)
layers = [tf.keras.layers.Dense(1024, "relu") for _ in range(4)]
model = tf.keras.Sequential([tf.keras.Input((1024,)), *layers, tf.keras.layers.Dense(16)])
optimizer = tf.keras.optimizers.SGD(1e-3)
optimizer.build(model.trainable_variables)


@tf.function
def train_step(batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(batch, training=True)))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


losses = []
for batch in dataset:
    losses.append(train_step(batch))
print("loss", float(tf.reduce_mean(losses)))
