"""No tf.data at all: the loop draws its batches from a Python generator that computes them on the spot.

After https://github.com/keras-team/keras/issues/7168: the device is used in short spikes, and the reporter finds that
the batches are trained faster than they are generated.
"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(33)
rng = np.random.default_rng(33)
waves = rng.normal(scale=0.1, size=(64, 8192)).astype(np.float32)
window = np.hanning(512)


def batches(num_batches, size=12):
    for _ in range(num_batches):
        rows = []
        for wave in waves[rng.integers(0, len(waves), size)]:
            pieces = [wave[start : start + 512] * window for start in range(0, 7680, 60)]
            magnitudes = [np.abs(np.fft.rfft(piece))[:240].reshape(80, 3).sum(axis=1) for piece in pieces]
            rows.append(np.log(np.stack(magnitudes) + 1e-5))
        yield np.stack(rows).astype(np.float32)


model = tf.keras.Sequential(
    [
        tf.keras.Input((128, 80)),
        tf.keras.layers.Conv1D(96, 3, padding="same", activation="relu"),
        tf.keras.layers.Dense(80),
    ]
)
optimizer = tf.keras.optimizers.Adam(1e-3)
optimizer.build(model.trainable_variables)


@tf.function
def train_step(mels):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(mels, training=True) - mels))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for step, batch in enumerate(batches(120)):
    loss = train_step(tf.convert_to_tensor(batch))
    if step % 40 == 39:
        print(step + 1, float(loss))
