"""ModelCheckpoint with save_freq=1: the model is written to disk after every batch.

After https://github.com/tensorflow/tensorflow/issues/33163, where several people found that they had set this by mistake.
"""

import pathlib
import tempfile

import keras
import numpy as np

keras.utils.set_random_seed(33163)
rows = np.random.default_rng(6).normal(size=(1024, 256)).astype("float32")
model = keras.Sequential([keras.Input((256,)), keras.layers.Dense(512, "relu"), keras.layers.Dense(256)])
model.compile(optimizer="adam", loss="mse")
path = pathlib.Path(tempfile.mkdtemp()) / "newest.keras"
saver = keras.callbacks.ModelCheckpoint(path, save_freq=1)
model.fit(rows, rows, batch_size=32, epochs=2, verbose=2, callbacks=[saver])
