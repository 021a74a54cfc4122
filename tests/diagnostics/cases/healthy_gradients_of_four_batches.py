"""Gradients of four batches are added up and applied at every fourth: each fourth step is longer, on purpose.

After https://github.com/tensorflow/tensorflow/pull/32576, which proposed gradient accumulation.
"""

import tensorflow as tf

tf.keras.utils.set_random_seed(32576)
model = tf.keras.Sequential([tf.keras.Input((256,)), tf.keras.layers.Dense(1024, "relu"), tf.keras.layers.Dense(256)])
optimizer = tf.keras.optimizers.Adam(1e-3)
optimizer.build(model.trainable_variables)
sums = [tf.Variable(tf.zeros_like(weights)) for weights in model.trainable_variables]
rows = tf.random.normal((64 * 40, 256))
dataset = tf.data.Dataset.from_tensor_slices(rows).cache().repeat(5).batch(64, drop_remainder=True).prefetch(2)


@tf.function
def accumulate(batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(batch, training=True) - batch))
    for total, gradient in zip(sums, tape.gradient(loss, model.trainable_variables)):
        total.assign_add(gradient / 4.0)
    return loss


@tf.function
def apply():
    optimizer.apply_gradients([(total.value(), weights) for total, weights in zip(sums, model.trainable_variables)])
    for total in sums:
        total.assign(tf.zeros_like(total))


for step, batch in enumerate(dataset, start=1):
    loss = accumulate(batch)
    if step % 4 == 0:
        apply()
print("loss", float(loss))
