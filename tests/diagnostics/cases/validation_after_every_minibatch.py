"""fit is called for one minibatch at a time, each time with the whole validation set, which takes most of the run.

After https://github.com/LabeliaLabs/distributed-learning-contributivity/issues/309: the last of those validations was used.
"""

import keras
import numpy as np

keras.utils.set_random_seed(309)
rows = np.random.default_rng(8).normal(size=(640, 24, 24, 1)).astype("float32")
held_out = np.random.default_rng(9).normal(size=(1536, 24, 24, 1)).astype("float32")
model = keras.Sequential(
    [
        keras.Input((24, 24, 1)),
        keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
        keras.layers.Conv2D(1, 3, padding="same"),
    ]
)
model.compile(optimizer="adam", loss="mse")
for minibatch in np.split(rows, 20):
    history = model.fit(minibatch, minibatch, batch_size=32, verbose=0, validation_data=(held_out, held_out))
print("validation loss", history.history["val_loss"][-1])
