"""Everything is as the guide says (TensorFlow ops, parallel, prefetch), but the random augmentation is too dear.

After https://github.com/TensorSpeech/TensorFlowTTS/issues/34: richer data processing made training slower, and the
thread is about where that time goes.
"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(38)

waves = np.random.default_rng(38).normal(scale=0.1, size=(256, 8192)).astype(np.float32)


def reverberate(wave):
    decay = tf.random.uniform((), 2.0, 8.0)
    impulse = tf.random.normal((8192,)) * tf.exp(-decay * tf.linspace(0.0, 1.0, 8192))
    for _ in range(10):
        spectrum = tf.signal.rfft(wave, [16384]) * tf.signal.rfft(impulse, [16384])
        wave = tf.math.l2_normalize(tf.signal.irfft(spectrum)[:8192])
    return wave


def to_frames(wave):
    return tf.reshape(wave, (128, 64))


dataset = tf.data.Dataset.from_tensor_slices(waves).shuffle(256, seed=38).repeat()
dataset = dataset.map(reverberate, num_parallel_calls=tf.data.AUTOTUNE)
dataset = dataset.map(to_frames, num_parallel_calls=tf.data.AUTOTUNE)
dataset = dataset.batch(16, drop_remainder=True)
dataset = dataset.prefetch(tf.data.AUTOTUNE)

model = tf.keras.Sequential([tf.keras.Input((128, 64)), tf.keras.layers.Dense(96, "relu"), tf.keras.layers.Dense(64)])
optimizer = tf.keras.optimizers.SGD(0.1)
optimizer.build(model.trainable_variables)


@tf.function
def train_step(batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(batch, training=True) - batch))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for step, batch in enumerate(dataset.take(120)):
    loss = train_step(batch)
    if step % 40 == 39:
        print(step + 1, float(loss))
