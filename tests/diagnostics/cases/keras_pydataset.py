"""A Keras PyDataset that computes its features in __getitem__, in pure Python and NumPy.

After https://github.com/WeidiXie/VGG-Speaker-Recognition/issues/39: the devices are used to between 0 and 22 %, and
the author answers that loading with librosa is the bottleneck.
"""

import keras
import numpy as np

keras.utils.set_random_seed(32)


class Clips(keras.utils.PyDataset):
    def __init__(self, num_batches, batch_size):
        super().__init__(workers=1, use_multiprocessing=False)
        self.count = num_batches
        self.batch_size = batch_size
        self.waves = (
            np.random.default_rng(32).normal(scale=0.1, size=(num_batches * batch_size, 6144)).astype("float32")
        )

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        mels = np.zeros((self.batch_size, 80, 64), "float32")
        for row in range(self.batch_size):
            wave = self.waves[index * self.batch_size + row]
            for frame in range(80):
                spectrum = np.abs(np.fft.rfft(wave[frame * 64 : frame * 64 + 512] * np.hanning(512)))
                mels[row, frame] = np.log(spectrum[:256].reshape(64, 4).mean(axis=1) + 1e-5)
        return mels, mels


model = keras.Sequential(
    [
        keras.Input((80, 64)),
        keras.layers.Conv1D(128, 5, padding="same", activation="relu"),
        keras.layers.Dense(64),
    ]
)
model.compile(optimizer="adam", loss="mse")
model.fit(Clips(num_batches=40, batch_size=12), epochs=2, verbose=2)
