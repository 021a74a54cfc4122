"""An average of the weights is kept on the host: all weights are fetched and averaged in NumPy after each step.

After https://github.com/keras-team/keras/issues/16700: a callback reads and writes the weights at each iteration, takes
three times as long as the step itself, and Keras warns that the callback is slow.
"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(42)

mels = np.random.default_rng(42).normal(size=(160, 16, 80)).astype(np.float32)
dataset = tf.data.Dataset.from_tensor_slices(mels).cache().repeat()
dataset = dataset.batch(8, drop_remainder=True).prefetch(tf.data.AUTOTUNE)

model = tf.keras.Sequential(
    [
        tf.keras.Input((16, 80)),
        tf.keras.layers.Dense(512, activation="relu"),
        tf.keras.layers.Dense(1536, activation="relu"),
        tf.keras.layers.Dense(512, activation="relu"),
        tf.keras.layers.Dense(80),
    ]
)
optimizer = tf.keras.optimizers.SGD(0.01)
optimizer.build(model.trainable_variables)


@tf.function
def train_step(batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(batch, training=True) - batch))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


average = [weight.astype(np.float64) for weight in model.get_weights()]
for step, batch in enumerate(dataset.take(120)):
    loss = train_step(batch)
    fresh = model.get_weights()
    for old, new in zip(average, fresh):
        old *= 0.999
        old += 0.001 * new.astype(np.float64)
        old[~np.isfinite(old)] = 0.0
    if step % 40 == 39:
        print(step + 1, float(loss))
