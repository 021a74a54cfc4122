"""Train the head, unfreeze the rest, compile again, train on: two traces that are needed.

After https://github.com/keras-team/keras/issues/16234, which describes compiling and fitting twice as the way to do it.
"""

import keras
import numpy as np

keras.utils.set_random_seed(16234)
images = np.random.default_rng(12).normal(size=(512, 32, 32, 3)).astype("float32")
labels = np.random.default_rng(13).integers(0, 5, size=512)
backbone = keras.Sequential(
    [
        keras.Input((32, 32, 3)),
        keras.layers.Conv2D(48, 3, activation="relu"),
        keras.layers.Conv2D(48, 3, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
    ]
)
backbone.trainable = False
model = keras.Sequential([backbone, keras.layers.Dense(5)])
objective = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(1e-3), objective)
model.fit(images, labels, batch_size=32, epochs=3, verbose=2)

backbone.trainable = True
model.compile(keras.optimizers.Adam(1e-5), objective)
model.fit(images, labels, batch_size=32, epochs=3, verbose=2)
