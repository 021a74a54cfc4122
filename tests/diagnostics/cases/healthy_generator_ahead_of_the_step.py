"""A Python generator that costs little feeds a step that costs much: it is always ahead.

After https://github.com/keras-team/keras/issues/13549, whose title says that reading is not the cause.
"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(13549)
numbers = np.random.default_rng(13549)


def batches():
    for _ in range(80):
        rows = numbers.normal(size=(32, 256)).astype(np.float32)
        yield rows, rows


spec = (tf.TensorSpec((32, 256)), tf.TensorSpec((32, 256)))
dataset = tf.data.Dataset.from_generator(batches, output_signature=spec).prefetch(4)
layers = [tf.keras.layers.Dense(1024, "relu") for _ in range(5)]
model = tf.keras.Sequential([tf.keras.Input((256,)), *layers, tf.keras.layers.Dense(256)])
model.compile(optimizer="sgd", loss="mse")
model.fit(dataset, epochs=2, verbose=2)
