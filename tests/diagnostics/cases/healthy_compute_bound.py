"""A heavy step on data that is already there; the metric is read every 20 steps. Only a faster device would help.

After https://github.com/TensorSpeech/TensorFlowTTS/issues/369: the reporter's Tacotron steps take seconds on a V100 and
the answers look for the reason in the model, not in the loader.
"""

import tensorflow as tf

tf.keras.utils.set_random_seed(5)

pool = [tf.random.stateless_normal((16, 96, 80), seed=(5, index)) for index in range(8)]

inputs = tf.keras.Input((96, 80))
hidden = tf.keras.layers.Conv1D(192, 5, padding="same", activation="relu")(inputs)
for _ in range(2):
    hidden = hidden + tf.keras.layers.Conv1D(192, 5, padding="same", activation="relu")(hidden)
model = tf.keras.Model(inputs, tf.keras.layers.Dense(80)(hidden))
optimizer = tf.keras.optimizers.Adam(3e-4)
optimizer.build(model.trainable_variables)
mean_loss = tf.keras.metrics.Mean()


@tf.function
def train_step(mels):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.abs(model(mels, training=True) - mels))
    gradients = tape.gradient(loss, model.trainable_variables)
    gradients, _ = tf.clip_by_global_norm(gradients, 1.0)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    mean_loss.update_state(loss)


for step in range(1, 121):
    train_step(pool[step % len(pool)])
    if step % 20 == 0:
        print(f"step {step} loss {mean_loss.result().numpy():.4f}")
        mean_loss.reset_state()
