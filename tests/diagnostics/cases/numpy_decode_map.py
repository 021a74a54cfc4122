"""Each clip is turned into a mel by NumPy code inside tf.numpy_function.

After https://github.com/TensorSpeech/TensorFlowASR/issues/100: the preprocessing of the dataset is one numpy_function,
which is slow and cannot leave the Python process, and the project later wrote it again in TensorFlow.
"""

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(29)

waves = np.random.default_rng(29).normal(scale=0.1, size=(160, 8192)).astype(np.float32)
window = np.hanning(512).astype(np.float32)


def decode(index):
    wave = waves[index]
    mel = np.zeros((120, 80), np.float32)
    for frame in range(120):
        piece = wave[frame * 64 : frame * 64 + 512]
        magnitude = np.abs(np.fft.rfft(piece * window))
        mel[frame] = np.log(magnitude[:240].reshape(80, 3).sum(axis=1) + 1e-5)
    return mel


def load(index):
    mel = tf.numpy_function(decode, [index], tf.float32)
    mel = tf.ensure_shape(mel, (120, 80))
    return mel, mel


dataset = tf.data.Dataset.range(160).shuffle(160, seed=29)
dataset = dataset.map(load, num_parallel_calls=tf.data.AUTOTUNE)
dataset = dataset.batch(16, drop_remainder=True).prefetch(tf.data.AUTOTUNE)

model = keras.Sequential(
    [
        keras.Input((120, 80)),
        keras.layers.Conv1D(64, 3, padding="same", activation="relu"),
        keras.layers.Dense(80),
    ]
)
model.compile(optimizer="adam", loss="mae")
model.fit(dataset, epochs=8, verbose=2)
