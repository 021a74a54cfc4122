"""Autotuning is switched off to save memory, and with it goes the prefetch that TensorFlow would have added.

After https://github.com/horovod/horovod/pull/4296: the autotuned prefetch held more batches than the memory could
bear, so an option came to switch it off; without any prefetch, loading and training take turns.
"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(34)

waves = np.random.default_rng(34).normal(scale=3000, size=(256, 16384)).astype(np.int16)
lengths = np.random.default_rng(35).integers(12000, 16385, size=256)


def spectrogram(wave, length):
    wave = tf.cast(wave[:length], tf.float32) / 32768.0 * tf.random.uniform((), 0.5, 1.0)
    return tf.math.log(tf.abs(tf.signal.stft(wave, 512, 64)) + 1e-5)


options = tf.data.Options()
options.autotune.enabled = False

dataset = tf.data.Dataset.from_tensor_slices((waves, lengths)).shuffle(256, seed=34).repeat()
dataset = dataset.map(spectrogram, num_parallel_calls=2)
dataset = dataset.padded_batch(16, padded_shapes=(256, 257), drop_remainder=True)
dataset = dataset.with_options(options)

encoder = tf.keras.layers.Dense(192, activation="relu")
decoder = tf.keras.layers.Dense(257)
encoder.build((None, 257))
decoder.build((None, 192))
weights = [weight.value for weight in encoder.weights + decoder.weights]


@tf.function
def train_step(batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(decoder(encoder(batch)) - batch))
    for weight, gradient in zip(weights, tape.gradient(loss, weights)):
        weight.assign_sub(0.01 * gradient)
    return loss


for step, batch in enumerate(dataset.take(120)):
    loss = train_step(batch)
    if step % 40 == 39:
        print(step + 1, float(loss))
