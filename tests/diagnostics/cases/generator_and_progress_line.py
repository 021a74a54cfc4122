"""A slow from_generator, and a progress line that fetches the loss after each step.

After https://github.com/tensorflow/ranking/issues/147: from_generator with the building of each example in Python is
too slow, and parallel interleaving does not help.
"""

import sys

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(44)
waves = np.random.default_rng(44).normal(scale=0.1, size=(128, 6144)).astype(np.float32)


def examples():
    for wave in waves:
        frames = [np.abs(np.fft.rfft(wave[start : start + 512]))[:240] for start in range(0, 5632, 44)]
        yield {"mel": np.log([frame.reshape(80, 3).sum(axis=1) + 1e-5 for frame in frames]).astype(np.float32)}


signature = {"mel": tf.TensorSpec((128, 80), tf.float32)}
dataset = tf.data.Dataset.from_generator(examples, output_signature=signature)
dataset = dataset.repeat().batch(16).prefetch(2)

model = tf.keras.Sequential(
    [
        tf.keras.Input((128, 80)),
        tf.keras.layers.Conv1D(64, 3, padding="same", activation="relu"),
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


for step, batch in enumerate(dataset.take(100)):
    loss = train_step(batch["mel"])
    sys.stderr.write(f"\rstep {step} loss {float(loss):.3f}")
print()
