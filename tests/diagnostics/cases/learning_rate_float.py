"""The learning rate is decayed in Python and handed to the traced step as a Python float.

After https://github.com/yerkojahve/Meta-Pseudo-label/issues/1: a trainer passes learning rate, temperature and a loss
coefficient to its traced step as Python numbers, and every new value builds a new graph.
"""

import tensorflow as tf

tf.keras.utils.set_random_seed(13)

model = tf.keras.Sequential(
    [
        tf.keras.Input((64, 80)),
        tf.keras.layers.Conv1D(128, 5, padding="same", activation="relu"),
        tf.keras.layers.Dense(80),
    ]
)
mels = tf.random.stateless_normal((16, 64, 80), seed=(13, 0))


@tf.function
def train_step(batch, learning_rate):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(batch, training=True) - batch))
    for variable, gradient in zip(model.trainable_variables, tape.gradient(loss, model.trainable_variables)):
        variable.assign_sub(learning_rate * gradient)
    return loss


learning_rate = 0.05
for step in range(80):
    if step % 2 == 0:
        learning_rate *= 0.98
    loss = train_step(mels, learning_rate)
    if step % 20 == 19:
        print(f"step {step + 1}: lr {learning_rate:.4f} loss {loss.numpy():.4f}")
