"""run_eagerly=True was set to look into the model once, and then stayed.

After https://github.com/USGS-R/river-dl/pull/109: with run_eagerly=True the steps of the reporter were about three
times slower than without.
"""

import keras
import numpy as np

keras.utils.set_random_seed(40)

rng = np.random.default_rng(40)
mels = rng.normal(size=(320, 32, 80)).astype("float32")
speakers = rng.integers(0, 10, size=(320,))

inputs = keras.Input((32, 80))
hidden = keras.layers.Dense(64)(inputs)
for _ in range(2):
    branch = keras.layers.LayerNormalization()(hidden)
    branch = keras.layers.Conv1D(64, 3, padding="same", activation="relu")(branch)
    hidden = keras.layers.Add()([hidden, branch])
pooled = keras.layers.GlobalAveragePooling1D()(hidden)
model = keras.Model(inputs, keras.layers.Dense(10)(pooled))

model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
    run_eagerly=True,
)
model.fit(mels, speakers, batch_size=16, epochs=5, verbose=2)
