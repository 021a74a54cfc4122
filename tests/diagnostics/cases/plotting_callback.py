"""A callback sorts and summarizes all weights in Python at the end of every epoch, which takes longer than the epoch.

After https://github.com/keras-team/keras/issues/608, whose reporter saw the warning that a callback is slow.
"""

import keras
import numpy as np

keras.utils.set_random_seed(1)
mels = np.random.default_rng(1).normal(size=(320, 64, 80)).astype("float32")


class Histograms(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        noise = np.random.default_rng(epoch).normal(size=2_000_000).tolist()
        self.median = sorted(noise)[1_000_000]


model = keras.Sequential([keras.Input((64, 80)), keras.layers.Conv1D(96, 5, padding="same"), keras.layers.Dense(80)])
model.compile(optimizer="adam", loss="mse")
model.fit(mels, mels, batch_size=16, epochs=5, verbose=2, callbacks=[Histograms()])
