"""The augmentation draws random numbers, so TensorFlow leaves its map sequential, and one thread feeds the training.

After https://github.com/keras-team/keras/issues/15191: an augmentation map in Keras' own benchmark was called without
num_parallel_calls, and the missing parallelism slowed the program.
"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(36)

waves = np.random.default_rng(36).normal(scale=0.1, size=(256, 12288)).astype(np.float32)
mel_matrix = tf.signal.linear_to_mel_weight_matrix(80, 513, 16000)


def augment(wave):
    start = tf.random.uniform((), 0, 4096, tf.int32)
    wave = wave[start : start + 8192] + tf.random.normal((8192,), stddev=0.01)
    spectrogram = tf.abs(tf.signal.stft(wave, 1024, 32))
    return tf.math.log(spectrogram[:192:3] @ mel_matrix + 1e-5)


dataset = tf.data.Dataset.from_tensor_slices(waves).repeat()
dataset = dataset.map(augment)
dataset = dataset.shuffle(64, seed=36)
dataset = dataset.batch(16)
dataset = dataset.prefetch(tf.data.AUTOTUNE)

model = tf.keras.Sequential(
    [
        tf.keras.Input((64, 80)),
        tf.keras.layers.Conv1D(48, 3, padding="same", activation="relu"),
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


for step, mels in enumerate(dataset.take(100)):
    loss = train_step(mels)
    if step % 25 == 24:
        print(step + 1, float(loss))
