"""The whole data is one batch, and fit runs hundreds of epochs: the work around an epoch takes longer than its one step.

After https://github.com/NNPDF/nnpdf/pull/1802, which made one epoch of many batches out of many epochs of one.
"""

import keras
import numpy as np

keras.utils.set_random_seed(1802)
points = np.linspace(0, 1, 200, dtype="float32")[:, None]
model = keras.Sequential(
    [keras.Input((1,)), keras.layers.Dense(25, "tanh"), keras.layers.Dense(20, "tanh"), keras.layers.Dense(8)]
)
model.compile(optimizer="nadam", loss="mse")
model.fit(points, np.repeat(points, 8, axis=1), batch_size=200, epochs=150, verbose=0)
