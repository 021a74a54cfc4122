"""A callback predicts the whole training set after each epoch and counts hits in a Python loop, to get one F1 score.

After https://github.com/keras-team/keras/issues/5794, where this callback is the advice since F1 was removed from the metrics.
"""

import keras
import numpy as np

keras.utils.set_random_seed(5794)
rows = np.random.default_rng(11).normal(size=(4096, 64)).astype("float32")
labels = (rows[:, 0] > 0).astype("float32")


class Metrics(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        predicted = self.model.predict(rows, batch_size=16, verbose=0)
        hits = sum(1 for score, label in zip(predicted.tolist(), labels.tolist()) if score[0] > 0.5 and label > 0.5)
        print("recall", hits / labels.sum())


model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(256, "relu"), keras.layers.Dense(1, "sigmoid")])
model.compile(optimizer="adam", loss="binary_crossentropy")
model.fit(rows, labels, batch_size=64, epochs=6, verbose=2, callbacks=[Metrics()])
