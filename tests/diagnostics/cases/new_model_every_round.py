"""Every round of federated training builds, compiles and fits a new model, and everything is traced again.

After https://github.com/tensorflow/tensorflow/issues/61791, whose reporter calls fit on new models in a loop and sees memory grow.
"""

import keras
import numpy as np

keras.utils.set_random_seed(61791)
images = np.random.default_rng(3).normal(size=(256, 16, 16, 3)).astype("float32")
labels = np.random.default_rng(4).integers(0, 10, size=256)


def build_model():
    return keras.Sequential(
        [
            keras.Input((16, 16, 3)),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(10),
        ]
    )


weights = build_model().get_weights()
for client in range(10):
    model = build_model()
    model.set_weights(weights)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(images, labels, batch_size=32, epochs=1, verbose=0)
    weights = model.get_weights()
print("norm", float(np.linalg.norm(weights[0])))
