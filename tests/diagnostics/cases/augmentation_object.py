"""A fresh settings object for the augmentation is made for each step and passed into the traced function.

After https://github.com/tensorflow/tensorflow/issues/31175: a bound method among the arguments is a new Python object
at each access, so the whole epoch function was traced over and over and memory leaked.
"""

import random
from dataclasses import dataclass

import tensorflow as tf

tf.keras.utils.set_random_seed(15)


@dataclass(frozen=True)
class SpecAugment:
    time_mask: int = 10
    mel_mask: int = 8


model = tf.keras.Sequential(
    [
        tf.keras.Input((64, 80)),
        tf.keras.layers.Conv1D(128, 5, padding="same", activation="relu"),
        tf.keras.layers.Dense(80),
    ]
)
optimizer = tf.keras.optimizers.SGD(0.05)
optimizer.build(model.trainable_variables)
batches = [tf.random.stateless_normal((16, 64, 80), seed=(15, index)) for index in range(4)]


@tf.function
def train_step(mels, augment):
    start = tf.random.uniform((), 0, 64 - augment.time_mask, tf.int32)
    keep = tf.logical_or(tf.range(64) < start, tf.range(64) >= start + augment.time_mask)
    masked = mels * tf.cast(keep, tf.float32)[None, :, None]
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(masked, training=True) - mels))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for step in range(70):
    loss = train_step(random.choice(batches), SpecAugment())
    if step % 35 == 34:
        print(step + 1, loss.numpy())
