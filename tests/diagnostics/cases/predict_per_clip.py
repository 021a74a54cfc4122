"""After every step the quality of one clip is checked with Model.predict, which prepares a dataset for each call.

After https://github.com/tensorflow/tensorflow/issues/40261, whose reporter called predict in a loop: almost all of a call on one
sample is its own preparation.
"""

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(1)
mels = np.random.default_rng(1).normal(size=(16, 64, 80)).astype("float32")
model = keras.Sequential([keras.Input((64, 80)), keras.layers.Conv1D(128, 5, padding="same"), keras.layers.Dense(80)])
optimizer = keras.optimizers.Adam(1e-3)
optimizer.build(model.trainable_variables)


@tf.function
def train_step(batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(batch, training=True) - batch) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


batch = tf.constant(mels)
for step in range(60):
    loss = train_step(batch)
    checked = model.predict(mels[:1], verbose=0)
print("loss", float(loss), "checked", float(np.abs(checked).mean()))
