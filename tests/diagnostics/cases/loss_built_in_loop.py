"""The training step is defined inside the loop over the batches, so that it can close over the loss weight.

After https://github.com/tensorflow/tensorflow/issues/26311: calling a function that is wrapped again and again keeps
making new concrete functions, each of them traced from the beginning.
"""

import tensorflow as tf

tf.keras.utils.set_random_seed(18)

model = tf.keras.Sequential(
    [
        tf.keras.Input((64, 80)),
        tf.keras.layers.Conv1D(128, 5, padding="same", activation="relu"),
        tf.keras.layers.Dense(80),
    ]
)
optimizer = tf.keras.optimizers.SGD(0.02)
optimizer.build(model.trainable_variables)
batches = [tf.random.stateless_normal((16, 64, 80), seed=(18, index)) for index in range(8)]


def train(num_steps):
    for step in range(num_steps):
        kl_weight = tf.constant(min(1.0, step / 50.0))

        @tf.function
        def train_step(mels):
            with tf.GradientTape() as tape:
                outputs = model(mels, training=True)
                loss = tf.reduce_mean(tf.abs(outputs - mels)) + kl_weight * tf.reduce_mean(tf.square(outputs))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
            return loss

        loss = train_step(batches[step % len(batches)])
        if step % 25 == 0:
            print(step, float(loss))


train(75)
