"""The shuffle stands behind the costly map, so at each epoch the buffer is filled again before the first step.

After https://github.com/tensorflow/tensorflow/issues/30646: before every epoch the reporter reads that the shuffle
buffer is being filled, and waits.
"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(28)

waves = np.random.default_rng(28).normal(scale=0.1, size=(256, 16384)).astype(np.float32)
mel_matrix = tf.signal.linear_to_mel_weight_matrix(80, 513, 16000)


def features(wave):
    spectrogram = tf.abs(tf.signal.stft(wave, 1024, 64))
    mel = tf.math.log(spectrogram @ mel_matrix + 1e-5)
    return mel[:64] * tf.random.uniform((), 0.9, 1.1)


dataset = tf.data.Dataset.from_tensor_slices(waves)
dataset = dataset.map(features, num_parallel_calls=tf.data.AUTOTUNE)
dataset = dataset.shuffle(256, seed=28)
dataset = dataset.batch(16, drop_remainder=True).prefetch(tf.data.AUTOTUNE)

model = tf.keras.Sequential(
    [
        tf.keras.Input((64, 80)),
        tf.keras.layers.Conv1D(160, 5, padding="same", activation="relu"),
        tf.keras.layers.Conv1D(160, 5, padding="same", activation="relu"),
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
    return loss


for epoch in range(7):
    for mels in dataset:
        loss = train_step(mels)
    print("epoch", epoch, float(loss))
