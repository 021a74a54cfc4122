"""The loop keeps every loss as a number and prints it, so Python waits for each step.

After https://github.com/tensorflow/tensorflow/issues/35873, whose reporter saw the time shrink with every print removed.
"""

import tensorflow as tf

tf.keras.utils.set_random_seed(35873)
images = tf.random.normal((40 * 32, 28, 28, 1))
labels = tf.cast(tf.range(40 * 32) % 10, tf.int64)
dataset = tf.data.Dataset.from_tensor_slices((images, labels)).batch(32, drop_remainder=True).cache().prefetch(2)
model = tf.keras.Sequential(
    [
        tf.keras.Input((28, 28, 1)),
        tf.keras.layers.Conv2D(32, 3, activation="relu"),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(10),
    ]
)
objective = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = tf.keras.optimizers.Adam()
optimizer.build(model.trainable_variables)


@tf.function
def train_step(batch, wanted):
    with tf.GradientTape() as tape:
        loss = objective(wanted, model(batch, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


history = []
for epoch in range(4):
    for batch, wanted in dataset:
        loss = train_step(batch, wanted)
        history.append(loss)
        print("epoch", epoch, "loss", float(loss))
