"""fit with jit_compile=True on batches that are padded to their own longest clip.

After https://github.com/keras-team/keras-cv/pull/2406: with Keras 3 and XLA some layers were compiled forever, steps
became very long and memory ran out; with jit_compile=False all was well.
"""

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(20)

rng = np.random.default_rng(20)
lengths = rng.integers(30, 110, size=640)
starts = np.cumsum(lengths) - lengths
frames = tf.constant(rng.normal(size=(lengths.sum(), 80)).astype(np.float32))


def cut(start, length):
    mel = frames[start : start + length]
    return mel, mel


dataset = tf.data.Dataset.from_tensor_slices((starts, lengths))
dataset = dataset.map(cut, num_parallel_calls=tf.data.AUTOTUNE)
dataset = dataset.padded_batch(8, drop_remainder=True)
dataset = dataset.prefetch(tf.data.AUTOTUNE)

model = keras.Sequential(
    [
        keras.Input((None, 80)),
        keras.layers.Dense(384, activation="relu"),
        keras.layers.Dense(80),
    ]
)
model.compile(optimizer="sgd", loss="mse", jit_compile=True)
model.fit(dataset, epochs=2, verbose=2)
