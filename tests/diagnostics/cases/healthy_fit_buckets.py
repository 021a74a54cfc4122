"""fit on length buckets without XLA: Keras relaxes the shapes after the second batch, and nothing is traced any more.

After https://github.com/tensorflow/tensorflow/issues/38561, where variable-length inputs made Keras retrace without end;
since Keras asks for reduced retracing the same script settles after two or three traces.
"""

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(6)

rng = np.random.default_rng(6)
lengths = rng.integers(20, 97, size=960)
starts = np.cumsum(lengths) - lengths
frames = tf.constant(rng.normal(size=(lengths.sum(), 80)).astype(np.float32))

dataset = tf.data.Dataset.from_tensor_slices((starts, lengths)).shuffle(960, seed=6)
dataset = dataset.map(lambda start, length: frames[start : start + length], num_parallel_calls=tf.data.AUTOTUNE)
dataset = dataset.bucket_by_sequence_length(
    element_length_func=lambda mel: tf.shape(mel)[0],
    bucket_boundaries=[41, 61, 81, 101],
    bucket_batch_sizes=[24, 16, 12, 10, 10],
    pad_to_bucket_boundary=True,
    drop_remainder=True,
)
dataset = dataset.map(lambda mel: (mel, tf.reduce_mean(mel, axis=-1, keepdims=True)))
dataset = dataset.repeat().prefetch(tf.data.AUTOTUNE)

model = keras.Sequential(
    [
        keras.Input((None, 80)),
        keras.layers.Conv1D(160, 5, padding="same", activation="relu"),
        keras.layers.Conv1D(160, 5, padding="same", activation="relu"),
        keras.layers.Dense(1),
    ]
)
model.compile(optimizer="adam", loss="mse", jit_compile=False)
model.fit(dataset, steps_per_epoch=60, epochs=2, verbose=2)
