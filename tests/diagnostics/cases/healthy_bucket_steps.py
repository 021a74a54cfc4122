"""Six buckets, one tf.function for each, made by a factory before training: six traces, all wanted.

After https://github.com/tensorflow/tensorflow/issues/42441, whose reporter got the retracing warning although every
function was traced only once: TensorFlow counts the functions that one piece of code makes as one.
"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(3)

BUCKETS = (32, 48, 64, 80, 96, 112)
BATCH = 16

model = tf.keras.Sequential(
    [
        tf.keras.Input((None, 80)),
        tf.keras.layers.Conv1D(256, 5, padding="same", activation="relu"),
        tf.keras.layers.Conv1D(80, 5, padding="same"),
    ]
)
optimizer = tf.keras.optimizers.Adam(1e-3)
optimizer.build(model.trainable_variables)


def make_train_step(frames):
    @tf.function(input_signature=[tf.TensorSpec((BATCH, frames, 80), tf.float32)])
    def train_step(mels):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(mels, training=True) - mels))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    return train_step


train_steps = {frames: make_train_step(frames) for frames in BUCKETS}
for frames, train_step in train_steps.items():
    train_step(tf.zeros((BATCH, frames, 80)))

rng = np.random.default_rng(3)
batches = [tf.constant(rng.normal(size=(BATCH, frames, 80)).astype(np.float32)) for frames in BUCKETS * 4]
order = rng.integers(0, len(batches), size=200)
for step, index in enumerate(order):
    batch = batches[index]
    loss = train_steps[batch.shape[1]](batch)
    if step % 50 == 0:
        print(step, loss.numpy())
print("traces", sum(train_step.experimental_get_tracing_count() for train_step in train_steps.values()))
