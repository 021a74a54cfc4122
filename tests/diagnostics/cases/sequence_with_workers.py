"""A keras PyDataset augments images one by one in Python; two workers are not enough to keep up.

After https://github.com/keras-team/keras/issues/11727, whose reporter trains from a Sequence of heavily augmented images.
"""

import keras
import numpy as np

keras.utils.set_random_seed(11727)


class ParallelImages(keras.utils.PyDataset):
    def __init__(self, images, batch_size, **options):
        super().__init__(**options)
        self.images, self.batch_size = images, batch_size

    def __len__(self):
        return len(self.images) // self.batch_size

    def __getitem__(self, index):
        batch = self.images[index * self.batch_size : (index + 1) * self.batch_size]
        return np.stack([distort(image) for image in batch]), batch


def distort(image):
    result = image.copy()
    for row in range(image.shape[0]):
        shift = int(round(2 * np.sin(row / 3)))
        for column in range(image.shape[1]):
            result[row, column] = image[row, (column + shift) % image.shape[1]] * 0.9
    return result


images = np.random.default_rng(7).normal(size=(480, 48, 48)).astype("float32")
model = keras.Sequential([keras.Input((48, 48)), keras.layers.Dense(64, "relu"), keras.layers.Dense(48)])
model.compile(optimizer="adam", loss="mse")
model.fit(ParallelImages(images, 16, workers=2, max_queue_size=4), epochs=2, verbose=2)
