"""Time stretching runs in tf.py_function: eager TensorFlow ops called from Python for each clip.

After https://github.com/Welthungerhilfe/cgm-ml/pull/408: with a py_function in the pipeline the device of the reporter
was used to less than half.
"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(30)

mels = np.random.default_rng(30).normal(size=(192, 96, 80)).astype(np.float32)


def stretch(mel):
    rate = 0.8 + 0.4 * float(tf.random.uniform(()))
    frames = tf.shape(mel)[0]
    rows = []
    for position in np.arange(32) * rate:
        low = int(position)
        rows.append(mel[min(low, int(frames) - 1)] * (1.0 - (position - low)))
    return tf.stack(rows)


def augment(mel):
    return tf.ensure_shape(tf.py_function(stretch, [mel], tf.float32), (32, 80))


dataset = tf.data.Dataset.from_tensor_slices(mels).shuffle(192, seed=30).repeat()
dataset = dataset.map(augment, num_parallel_calls=2)
dataset = dataset.batch(8).prefetch(2)

model = tf.keras.Sequential(
    [
        tf.keras.Input((32, 80)),
        tf.keras.layers.Conv1D(256, 5, padding="same", activation="relu"),
        tf.keras.layers.Dense(80),
    ]
)
optimizer = tf.keras.optimizers.Adam(1e-3)
optimizer.build(model.trainable_variables)


@tf.function
def train_step(batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(batch, training=True) - batch))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for step, batch in enumerate(dataset.take(80)):
    loss = train_step(batch)
    if step % 40 == 39:
        print(step + 1, float(loss))
