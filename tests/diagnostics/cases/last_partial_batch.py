"""The number of clips is no multiple of the batch size, so the last batch of the epoch is smaller than the others.

After https://github.com/tensorflow/tensorflow/issues/49151: asked why a function is traced again, the answer names
variable lengths and the smaller last batch.
"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(12)

mels = np.random.default_rng(12).normal(size=(491, 64, 80)).astype(np.float32)
dataset = tf.data.Dataset.from_tensor_slices(mels).shuffle(491, seed=12)
dataset = dataset.batch(16)
dataset = dataset.prefetch(tf.data.AUTOTUNE)

inputs = tf.keras.Input((64, 80))
hidden = tf.keras.layers.Dense(96)(inputs)
for _ in range(8):
    branch = tf.keras.layers.LayerNormalization()(hidden)
    branch = tf.keras.layers.Dense(96, activation="gelu")(branch)
    hidden = tf.keras.layers.Add()([hidden, branch])
model = tf.keras.Model(inputs, tf.keras.layers.Dense(80)(hidden))
optimizer = tf.keras.optimizers.AdamW(1e-3)
optimizer.build(model.trainable_variables)


@tf.function
def train_step(batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.abs(model(batch, training=True) - batch))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for epoch in range(4):
    for batch in dataset:
        loss = train_step(batch)
    print("epoch", epoch, "loss", float(loss))
print("traces", train_step.experimental_get_tracing_count())
