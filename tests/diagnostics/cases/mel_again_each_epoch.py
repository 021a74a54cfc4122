"""The same 192 clips become the same mels in every epoch; the map is parallel and prefetched, but not cached.

After https://github.com/NVIDIA/OpenSeq2Seq/pull/285: features computed on the fly kept the CPU busy above 90 % and the
device below 10 %; storing them made a small network train more than five times faster.
"""

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(37)

waves = np.random.default_rng(37).normal(scale=0.1, size=(192, 16384)).astype(np.float32)
mel_matrix = tf.signal.linear_to_mel_weight_matrix(80, 513, 16000)


def log_mel(wave):
    spectrogram = tf.abs(tf.signal.stft(wave, 1024, 48))
    mel = tf.math.log(spectrogram @ mel_matrix + 1e-5)[:256]
    mel = tf.reduce_mean(tf.reshape(mel, (64, 4, 80)), axis=1)
    return mel, mel


dataset = tf.data.Dataset.from_tensor_slices(waves)
dataset = dataset.map(log_mel, num_parallel_calls=tf.data.AUTOTUNE)
dataset = dataset.batch(16, drop_remainder=True)
dataset = dataset.prefetch(tf.data.AUTOTUNE)

model = keras.Sequential(
    [
        keras.Input((64, 80)),
        keras.layers.Conv1D(64, 3, padding="same", activation="relu"),
        keras.layers.Dense(80),
    ]
)
model.compile(optimizer="adam", loss="mae")
model.fit(dataset, epochs=8, verbose=2)
