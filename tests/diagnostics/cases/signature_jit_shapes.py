"""An input_signature with None lengths keeps the trace count at one, but XLA compiles for each new length.

After https://github.com/tensorflow/tensorflow/issues/81896: the reporter gives a None-shaped signature and
jit_compile=True and sees a compilation at each new size.
"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(21)
rng = np.random.default_rng(21)

encoder = tf.keras.layers.Dense(384, activation="relu")
decoder = tf.keras.layers.Dense(80)
encoder.build((None, None, 80))
decoder.build((None, None, 384))
weights = [weight.value for weight in encoder.weights + decoder.weights]


@tf.function(jit_compile=True, input_signature=[tf.TensorSpec((8, None, 80), tf.float32)])
def train_step(mels):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(decoder(encoder(mels)) - mels))
    for weight, gradient in zip(weights, tape.gradient(loss, weights)):
        weight.assign_sub(0.05 * gradient)
    return loss


for step in range(100):
    frames = int(rng.integers(60, 100))
    mels = tf.constant(rng.normal(size=(8, frames, 80)).astype(np.float32))
    loss = train_step(mels)
    if step % 25 == 0:
        print(step, loss.numpy())
print("traces", train_step.experimental_get_tracing_count())
