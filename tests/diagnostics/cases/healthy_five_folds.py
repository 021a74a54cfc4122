"""Cross-validation: a new model for each of five folds, and each of them trains for a good while.

After https://github.com/keras-team/keras/issues/13872, whose reporter needs a fresh model in every fold.
"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(13872)
numbers = np.random.default_rng(13872)
inputs = numbers.normal(size=(2000, 128)).astype("float32")
targets = np.tanh(inputs[:, :3].sum(axis=1, keepdims=True))


def create_model():
    model = tf.keras.Sequential([tf.keras.Input((128,))])
    for _ in range(3):
        model.add(tf.keras.layers.Dense(768, "relu"))
    model.add(tf.keras.layers.Dense(1))
    model.compile("adam", "mse")
    return model


scores = []
for fold in np.array_split(numbers.permutation(len(inputs)), 5):
    rest = np.setdiff1d(np.arange(len(inputs)), fold)
    model = create_model()
    model.fit(inputs[rest], targets[rest], batch_size=64, epochs=16, verbose=0)
    scores.append(model.evaluate(inputs[fold], targets[fold], verbose=0))
    tf.keras.backend.clear_session()
print("scores", np.round(scores, 3))
