"""fit is fed by a Python generator that builds every batch row by row from a table.

After https://github.com/tensorflow/tensorflow/issues/47633: one core is busy, the GPU is idle, and more workers change nothing.
"""

import keras
import numpy as np

keras.utils.set_random_seed(47633)
table = [{f"column_{column}": (row * column) % 17 / 17 for column in range(40)} for row in range(256)]


def generate_rows():
    while True:
        batch = []
        for row in table:
            values = sorted((name, value) for name, value in row.items())
            batch.append([value * 2 - 1 for name, value in values])
        batch = np.array(batch, np.float32)
        yield batch, batch


model = keras.Sequential([keras.Input((40,)), keras.layers.Dense(32, "relu"), keras.layers.Dense(40)])
model.compile(optimizer="adam", loss="mse")
model.fit(generate_rows(), steps_per_epoch=100, epochs=2, verbose=2)
