"""Model.predict once, on many clips, after the training: nothing is wrong here.

After https://github.com/tensorflow/tensorflow/issues/56674, where predict on a whole dataset is recommended over a loop.
"""

import keras
import numpy as np

keras.utils.set_random_seed(1)
mels = np.random.default_rng(1).normal(size=(960, 64, 80)).astype("float32")
model = keras.Sequential(
    [
        keras.Input((64, 80)),
        keras.layers.Conv1D(192, 5, padding="same", activation="relu"),
        keras.layers.Conv1D(80, 5, padding="same"),
    ]
)
model.compile(optimizer="adam", loss="mse")
model.fit(mels, mels, batch_size=16, epochs=2, verbose=2)
outputs = model.predict(mels, batch_size=64, verbose=0)
print("error", float(np.abs(outputs - mels).mean()))
