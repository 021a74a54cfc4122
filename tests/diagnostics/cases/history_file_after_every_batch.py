"""A callback writes the history of all batches to a file after every batch; Keras warns that on_train_batch_end is slow.

After https://github.com/mwalmsley/zoobot/issues/56, whose author looks for the callback behind that warning.
"""

import json
import os
import tempfile

import keras
import numpy as np


class HistoryFile(keras.callbacks.Callback):
    def __init__(self, path):
        super().__init__()
        self.path = path
        self.rows = []

    def on_train_batch_end(self, batch, logs=None):
        self.rows.append({"batch": batch, **{name: float(value) for name, value in logs.items()}})
        with open(self.path, "w") as file:
            json.dump(self.rows, file, indent=2)


keras.utils.set_random_seed(56)
numbers = np.random.default_rng(56)
galaxies = numbers.normal(size=(2048, 64)).astype("float32")
votes = numbers.normal(size=(2048, 5)).astype("float32")
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(256, "relu"), keras.layers.Dense(5)])
model.compile("adam", "mse")
with tempfile.TemporaryDirectory() as folder:
    model.fit(
        galaxies,
        votes,
        batch_size=16,
        epochs=6,
        verbose=0,
        callbacks=[HistoryFile(os.path.join(folder, "history.json"))],
    )
print("loss", model.evaluate(galaxies, votes, verbose=0))
