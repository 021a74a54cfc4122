"""fit with a validation set of an eighth of the training data: it takes its share of the time and no more.

After https://github.com/keras-team/keras/issues/17328, whose reporter measured validation as a large slowdown of tiny epochs.
"""

import keras
import numpy as np

keras.utils.set_random_seed(17328)
rows = np.random.default_rng(15).normal(size=(64 * 64, 128)).astype("float32")
held_out = np.random.default_rng(16).normal(size=(64 * 8, 128)).astype("float32")
model = keras.Sequential(
    [keras.Input((128,)), keras.layers.Dense(1024, "relu"), keras.layers.Dense(1024, "relu"), keras.layers.Dense(128)]
)
model.compile(optimizer="adam", loss="mse")
model.fit(rows, rows, batch_size=64, epochs=4, verbose=2, validation_data=(held_out, held_out))
