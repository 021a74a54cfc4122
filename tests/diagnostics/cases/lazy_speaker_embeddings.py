"""A speaker's embedding is made when the speaker is met for the first time, so variables keep appearing.

After https://github.com/tensorflow/tensorflow/issues/27120: variables that are made after the first call broke the
traced function; the usual way out is to make them outside, but still when they are first needed.
"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(23)
rng = np.random.default_rng(23)

encoder = tf.keras.layers.Conv1D(256, 5, padding="same", activation="relu")
decoder = tf.keras.layers.Conv1D(80, 5, padding="same")
encoder.build((None, 64, 80))
decoder.build((None, 64, 256))
weights = [weight.value for weight in encoder.weights + decoder.weights]
embeddings = {}


def embedding_of(speaker):
    if speaker not in embeddings:
        embeddings[speaker] = tf.Variable(tf.random.normal((256,)), name=f"speaker_{speaker}")
    return embeddings[speaker]


@tf.function
def train_step(mels, embedding):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(decoder(encoder(mels) + embedding) - mels))
    for weight, gradient in zip([*weights, embedding], tape.gradient(loss, [*weights, embedding])):
        weight.assign_sub(0.01 * gradient)
    return loss


batches = [tf.constant(rng.normal(size=(12, 64, 80)).astype(np.float32)) for _ in range(5)]
for step in range(120):
    speaker = int(min(rng.integers(0, step + 2), 60))
    loss = train_step(batches[step % 5], embedding_of(speaker))
    if step % 40 == 39:
        print(f"step {step + 1}: {len(embeddings)} speakers, loss {float(loss):.4f}")
print("traces", train_step.experimental_get_tracing_count())
