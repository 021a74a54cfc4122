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
dataset = dataset.batch(128, drop_remainder=True)
dataset = dataset.with_options(options)

encoder = tf.keras.layers.Dense(96, activation="relu")
decoder = tf.keras.layers.Dense(256)
encoder.build((None, 256))
decoder.build((None, 96))
weights = [weight.value for weight in encoder.weights + decoder.weights]


@tf.function
def train_step(batch):
    frames = tf.reshape(batch, (128, 128, 256))[:, ::8]
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(decoder(encoder(frames)) - frames))
    for weight, gradient in zip(weights, tape.gradient(loss, weights)):
        weight.assign_sub(0.1 * gradient)
    return loss


for step, batch in enumerate(dataset.take(150)):
    loss = train_step(batch)
    if step % 50 == 49:
        print(step + 1, float(loss))
