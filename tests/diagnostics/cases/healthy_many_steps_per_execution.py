"""steps_per_execution=20: Python sees one call for twenty steps, and the progress bar jumps.

After https://github.com/keras-team/keras/issues/20861, about step numbers that look wrong with this setting.
"""

import keras
import numpy as np

keras.utils.set_random_seed(20861)
rows = np.random.default_rng(14).normal(size=(32 * 400, 128)).astype("float32")
model = keras.Sequential(
    [keras.Input((128,)), keras.layers.Dense(512, "relu"), keras.layers.Dense(512, "relu"), keras.layers.Dense(128)]
)
model.compile(optimizer="adam", loss="mse", steps_per_execution=20)
model.fit(rows, rows, batch_size=32, epochs=3, verbose=2)
