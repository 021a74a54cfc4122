"""A training calls fit on each small file, again and again: two batches, and all of the preparation that fit needs.

After https://github.com/tensorflow/tensorflow/issues/60425, whose reporter reads an .npz, fits on it, and reads the next.
"""

import os
import tempfile

import keras
import numpy as np


def write_files(folder, count):
    numbers = np.random.default_rng(60425)
    for index in range(count):
        inputs = numbers.normal(size=(64, 40)).astype("float32")
        np.savez(os.path.join(folder, f"{index:03}.npz"), inputs=inputs, targets=inputs[:, :1] ** 2)


def train(model, folder, rounds):
    for _ in range(rounds):
        for name in sorted(os.listdir(folder)):
            data = np.load(os.path.join(folder, name))
            model.fit(data["inputs"], data["targets"], batch_size=32, epochs=1, verbose=0)


if __name__ == "__main__":
    keras.utils.set_random_seed(60425)
    network = keras.Sequential([keras.Input((40,)), keras.layers.Dense(64, "relu"), keras.layers.Dense(1)])
    network.compile("adam", "mse")
    with tempfile.TemporaryDirectory() as files:
        write_files(files, 26)
        train(network, files, 4)
    print("layers", len(network.layers))
