"""Batches padded to their own longest clip go straight into a plain tf.function.

After https://github.com/mozilla/TTS/issues/300: the maintainer gave up a TensorFlow 2 port of the project because the
changing sequence length kept the training step retracing.
"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(11)
rng = np.random.default_rng(11)


def load_batch(size=8):
    lengths = rng.integers(24, 96, size=size)
    batch = np.zeros((size, lengths.max(), 80), np.float32)
    for row, length in enumerate(lengths):
        batch[row, :length] = rng.normal(size=(length, 80))
    return batch


model = tf.keras.Sequential(
    [
        tf.keras.Input((None, 80)),
        tf.keras.layers.Conv1D(192, 5, padding="same", activation="relu"),
        tf.keras.layers.Dense(80),
    ]
)
optimizer = tf.keras.optimizers.SGD(0.01)
optimizer.build(model.trainable_variables)


@tf.function
def train_step(mels):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(mels, training=True) - mels))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for step in range(90):
    mels = load_batch()
    loss = train_step(tf.constant(mels))
    if step % 30 == 0:
        print(step, loss.numpy())
