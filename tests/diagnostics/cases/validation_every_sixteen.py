"""The whole validation set is run after every 16 steps of training; the training waits each time.

After https://github.com/tensorflow/models/issues/10803: training runs normally until, at certain steps, the device goes
idle, and nobody can say what happens then.
"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(27)
rng = np.random.default_rng(27)

train_mels = rng.normal(size=(320, 48, 80)).astype(np.float32)
valid_mels = rng.normal(size=(512, 48, 80)).astype(np.float32)
train_data = tf.data.Dataset.from_tensor_slices(train_mels).cache().shuffle(320, seed=27).repeat()
train_data = train_data.batch(16, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
valid_data = tf.data.Dataset.from_tensor_slices(valid_mels).batch(16).cache().prefetch(tf.data.AUTOTUNE)

model = tf.keras.Sequential(
    [
        tf.keras.Input((48, 80)),
        tf.keras.layers.Conv1D(192, 5, padding="same", activation="relu"),
        tf.keras.layers.Conv1D(192, 5, padding="same", activation="relu"),
        tf.keras.layers.Dense(80),
    ]
)
optimizer = tf.keras.optimizers.Adam(1e-3)
optimizer.build(model.trainable_variables)


@tf.function
def train_step(mels):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.abs(model(mels, training=True) - mels))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))


@tf.function
def validation_step(mels):
    return tf.reduce_mean(tf.abs(model(mels, training=False) - mels))


for step, batch in enumerate(train_data.take(128), start=1):
    train_step(batch)
    if step % 16 == 0:
        losses = [validation_step(mels) for mels in valid_data]
        print(f"step {step}: validation {tf.add_n(losses).numpy() / len(losses):.4f}")
