"""Volumes are read by tf.py_function, but only in the first epoch: after it they come from the cache.

After https://github.com/tensorflow/tensorflow/issues/37178, whose reporters put prefetch and cache after such a map.
"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(37178)


def read_volume(number):
    volume = np.random.default_rng(int(number)).normal(size=(24, 24, 24, 1)).astype("float32")
    filled = np.where(volume < -3.0, 0.0, volume)
    return (filled - filled.mean()).astype("float32")


def read(number):
    volume = tf.py_function(read_volume, [number], tf.float32)
    return tf.ensure_shape(volume, (24, 24, 24, 1)), tf.cast(number % 2, tf.float32)


dataset = tf.data.Dataset.range(48).map(read, num_parallel_calls=2).cache().shuffle(48).batch(12).prefetch(1)
model = tf.keras.Sequential(
    [
        tf.keras.Input((24, 24, 24, 1)),
        tf.keras.layers.Conv3D(12, 3, activation="relu"),
        tf.keras.layers.Conv3D(12, 3, activation="relu"),
        tf.keras.layers.GlobalAveragePooling3D(),
        tf.keras.layers.Dense(1),
    ]
)
model.compile("adam", tf.keras.losses.BinaryCrossentropy(from_logits=True))
history = model.fit(dataset, epochs=12, verbose=0)
print("loss", history.history["loss"][-1])
