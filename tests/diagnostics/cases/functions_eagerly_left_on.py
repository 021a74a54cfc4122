"""run_functions_eagerly(True) made an error go away, so it stayed at the top of the script.

After https://github.com/tensorflow/tensorflow/issues/34983: the most thanked answer to an error about variables is to
run all functions eagerly; another one notes that this is the same as having no tf.function at all.
"""

import tensorflow as tf

tf.config.run_functions_eagerly(True)
tf.keras.utils.set_random_seed(41)

inputs = tf.keras.Input((32, 80))
hidden = tf.keras.layers.Dense(64)(inputs)
for _ in range(2):
    branch = tf.keras.layers.LayerNormalization()(hidden)
    branch = tf.keras.layers.Dense(64, activation="gelu")(branch)
    hidden = tf.keras.layers.Add()([hidden, branch])
model = tf.keras.Model(inputs, tf.keras.layers.Dense(80)(hidden))
optimizer = tf.keras.optimizers.Adam(1e-3)
optimizer.build(model.trainable_variables)
batches = [tf.random.stateless_normal((8, 32, 80), seed=(41, index)) for index in range(6)]


@tf.function
def train_step(mels):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.abs(model(mels, training=True) - mels))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for step in range(110):
    loss = train_step(batches[step % len(batches)])
    if step % 50 == 0:
        print(step, float(loss))
