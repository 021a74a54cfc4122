"""Autotuning is switched off to save memory, and with it goes the prefetch that TensorFlow would have added.

After https://github.com/horovod/horovod/pull/4296: the autotuned prefetch held more batches than the memory could
bear, so an option came to switch it off; without any prefetch, loading and training take turns.
"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(34)

waves = np.random.default_rng(34).normal(scale=0.1, size=(400, 32768)).astype(np.float32)

options = tf.data.Options()
options.autotune.enabled = False

dataset = tf.data.Dataset.from_tensor_slices(waves).shuffle(400, seed=34).repeat()
dataset = dataset.batch(96, drop_remainder=True)
dataset = dataset.with_options(options)

downsample = tf.keras.layers.Conv1D(16, 64, strides=64, activation="relu")
upsample = tf.keras.layers.Dense(64)
downsample.build((None, 32768, 1))
upsample.build((None, 512, 16))
weights = [weight.value for weight in downsample.weights + upsample.weights]


@tf.function
def train_step(batch):
    with tf.GradientTape() as tape:
        restored = upsample(downsample(batch[:, :, None]))
        loss = tf.reduce_mean(tf.square(restored - tf.reshape(batch, (96, 512, 64))))
    for weight, gradient in zip(weights, tape.gradient(loss, weights)):
        weight.assign_sub(0.1 * gradient)
    return loss


for step, batch in enumerate(dataset.take(150)):
    loss = train_step(batch)
    if step % 50 == 49:
        print(step + 1, float(loss))
