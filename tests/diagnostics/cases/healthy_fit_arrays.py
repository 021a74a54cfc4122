"""Keras fit on NumPy arrays: nothing is wrong here.

After https://github.com/tensorflow/tensorflow/issues/41347, whose reporter saw the retracing warning for Keras' own
train function in an ordinary fit. Here all batches have one shape, so fit traces once and runs.
"""

import keras
import numpy as np

keras.utils.set_random_seed(1)

NUM_CLIPS = 1200
mels = np.random.default_rng(1).normal(size=(NUM_CLIPS, 64, 80)).astype("float32")
durations = np.abs(mels[:, :, :8]).sum(axis=(1, 2), keepdims=False).astype("float32")[:, None]

model = keras.Sequential(
    [
        keras.Input((64, 80)),
        keras.layers.Conv1D(192, 5, padding="same", activation="relu"),
        keras.layers.Conv1D(192, 5, padding="same", activation="relu"),
        keras.layers.GlobalAveragePooling1D(),
        keras.layers.Dense(1),
    ]
)
model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mse")
history = model.fit(mels, durations, batch_size=16, epochs=2, verbose=2)
print("final loss", history.history["loss"][-1])
