"""Documents are trained one at a time without padding, so nearly every batch has a length that was not seen before.

After https://github.com/tensorflow/tensorflow/issues/38002, whose reporter asks if retracing is inevitable for such inputs.
"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(38002)
chances = np.random.default_rng(38002)
documents = [chances.normal(size=(1, length, 24)).astype(np.float32) for length in chances.permutation(400)[:60] + 20]
tags = [(document[:, :, :3] > 0).astype(np.float32) for document in documents]

inputs = tf.keras.Input((None, 24))
hidden = tf.keras.layers.Conv1D(64, 5, padding="same", activation="relu")(inputs)
model = tf.keras.Model(inputs, tf.keras.layers.Conv1D(3, 5, padding="same", activation="sigmoid")(hidden))
optimizer = tf.keras.optimizers.Adam(1e-3)
optimizer.build(model.trainable_variables)


@tf.function
def train(document, tag):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(document, training=True) - tag))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for document, tag in zip(documents, tags):
    loss = train(document, tag)
print("loss", float(loss))
