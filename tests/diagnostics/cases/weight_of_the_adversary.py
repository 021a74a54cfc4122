"""The weight of the adversarial loss is a Python float that is adapted after every few batches: one trace for each value.

After https://github.com/NatLabRockies/sup3r/pull/109, which removed the retracing of a loss whose weights change in training.
"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(109)
generator = tf.keras.Sequential(
    [
        tf.keras.Input((32, 32, 2)),
        tf.keras.layers.Conv2D(24, 3, padding="same"),
        tf.keras.layers.Conv2D(2, 3, padding="same"),
    ]
)
optimizer = tf.keras.optimizers.Adam(1e-3)
optimizer.build(generator.trainable_variables)
fields = tf.random.normal((8, 32, 32, 2))


@tf.function
def calc_loss(low, high, weight_gen_advers):
    with tf.GradientTape() as tape:
        made = generator(low, training=True)
        loss = tf.reduce_mean(tf.square(made - high)) + weight_gen_advers * tf.reduce_mean(tf.abs(made))
    gradients = tape.gradient(loss, generator.trainable_variables)
    optimizer.apply_gradients(zip(gradients, generator.trainable_variables))
    return loss


weight = 1e-3
for step in range(90):
    loss = calc_loss(fields, fields, weight)
    if step % 3 == 2:
        weight = float(np.clip(weight * 1.05, 1e-4, 1.0))
print("loss", float(loss))
