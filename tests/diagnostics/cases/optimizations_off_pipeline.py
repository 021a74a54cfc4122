"""All of tf.data's rewrites are switched off and the map is sequential: one thread, and nobody works ahead.

After https://github.com/fsschneider/DeepOBS/issues/22: a fast device is badly used, and the reporter misses a prefetch
of batches and parallel preprocessing.
"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(35)

waves = np.random.default_rng(35).normal(scale=0.1, size=(256, 12288)).astype(np.float32)
mel_matrix = tf.signal.linear_to_mel_weight_matrix(80, 257, 16000)


def random_mel(wave):
    start = tf.random.uniform((), 0, 12288 - 8192, tf.int32)
    spectrogram = tf.abs(tf.signal.stft(wave[start : start + 8192], 512, 48))
    return tf.math.log(spectrogram[:128] @ mel_matrix + 1e-5)


options = tf.data.Options()
options.experimental_optimization.apply_default_optimizations = False

dataset = tf.data.Dataset.from_tensor_slices(waves).shuffle(256, seed=35).repeat()
dataset = dataset.map(random_mel)
dataset = dataset.batch(16)
dataset = dataset.with_options(options)

encoder = tf.keras.layers.Conv1D(96, 3, padding="causal", activation="relu")
head = tf.keras.layers.Dense(80)
encoder.build((None, 127, 80))
head.build((None, 127, 96))
weights = [weight.value for weight in encoder.weights + head.weights]


@tf.function
def train_step(mels):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.abs(head(encoder(mels[:, :-1])) - mels[:, 1:]))
    for weight, gradient in zip(weights, tape.gradient(loss, weights)):
        weight.assign_sub(0.01 * gradient)
    return loss


for step, mels in enumerate(dataset.take(100)):
    loss = train_step(mels)
    if step % 25 == 24:
        print(step + 1, float(loss))
