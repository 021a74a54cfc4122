"""Clips come from three corpora whose loaders return different number types; the step casts inside.

After https://github.com/tensorflow/tensorflow/issues/48229: int32 and int64 inputs each have their own trace, and the
reporter was surprised by how many traces came together.
"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(17)
rng = np.random.default_rng(17)

MEL_TYPES = {"ljspeech": np.float32, "vctk": np.float64, "own": np.float16}
LENGTH_TYPES = {"ljspeech": np.int32, "vctk": np.int64, "own": np.int64}


def load(corpus):
    mels = rng.normal(size=(12, 64, 80)).astype(MEL_TYPES[corpus])
    lengths = rng.integers(40, 65, size=12).astype(LENGTH_TYPES[corpus])
    pitch = rng.random((12, 64)).astype(rng.choice([np.float32, np.float64]))
    return mels, lengths, pitch


model = tf.keras.Sequential(
    [
        tf.keras.Input((64, 81)),
        tf.keras.layers.Conv1D(128, 5, padding="same", activation="relu"),
        tf.keras.layers.Conv1D(128, 5, padding="same", activation="relu"),
        tf.keras.layers.Dense(80),
    ]
)
optimizer = tf.keras.optimizers.Adam(1e-3)
optimizer.build(model.trainable_variables)


@tf.function
def train_step(mels, lengths, pitch):
    mels = tf.cast(mels, tf.float32)
    mask = tf.sequence_mask(tf.cast(lengths, tf.int32), 64, dtype=tf.float32)[:, :, None]
    features = tf.concat([mels, tf.cast(pitch, tf.float32)[:, :, None]], axis=-1)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(mask * tf.square(model(features, training=True) - mels))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


corpora = ["ljspeech"] * 30 + ["vctk"] * 30 + ["own"] * 30
for step, corpus in enumerate(corpora):
    mels, lengths, pitch = load(corpus)
    loss = train_step(tf.constant(mels), tf.constant(lengths), tf.constant(pitch))
    if step % 30 == 29:
        print(corpus, float(loss))
