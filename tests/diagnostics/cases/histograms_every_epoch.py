"""The TensorBoard callback writes histograms and images of large layers after every short epoch.

After https://github.com/keras-team/keras/issues/11957: with histogram_freq=1 training took up to five times as long.
"""

import tempfile

import keras
import numpy as np

keras.utils.set_random_seed(11957)
rows = np.random.default_rng(5).normal(size=(128, 512)).astype("float32")
model = keras.Sequential([keras.Input((512,)), keras.layers.Dense(2048, "relu"), keras.layers.Dense(512)])
model.compile(optimizer="sgd", loss="mse")
board = keras.callbacks.TensorBoard(tempfile.mkdtemp(), histogram_freq=1, write_images=True)
model.fit(rows, rows, batch_size=32, epochs=8, verbose=2, callbacks=[board])
