"""Two reasons to retrace at once: lengths that change with each batch, and a loss weight that is a Python float.

After https://github.com/FlamTeam/flamedisx/pull/13: the traced functions depended on Python arguments and state and
were traced again for each batch, until these became tensors.
"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(43)
rng = np.random.default_rng(43)

encoder = tf.keras.layers.Conv1D(96, 5, padding="same", activation="relu")
decoder = tf.keras.layers.Dense(80)
encoder.build((None, None, 80))
decoder.build((None, None, 96))
weights = [weight.value for weight in encoder.weights + decoder.weights]


def batch_of(frames):
    return tf.constant(rng.normal(size=(8, frames, 80)).astype(np.float32))


@tf.function
def train_step(mels, guided_weight):
    with tf.GradientTape() as tape:
        outputs = decoder(encoder(mels))
        loss = tf.reduce_mean(tf.square(outputs - mels)) + guided_weight * tf.reduce_mean(tf.abs(outputs))
    for weight, gradient in zip(weights, tape.gradient(loss, weights)):
        weight.assign_sub(0.01 * gradient)
    return loss


guided_weight = 1.0
for step in range(100):
    frames = int(rng.choice([32, 40, 48, 56, 64, 72, 80, 88]))
    if step % 10 == 9:
        guided_weight *= 0.8
    loss = train_step(batch_of(frames), guided_weight)
    if step % 25 == 24:
        print(step + 1, loss.numpy())
