"""Every step's predictions are kept in a list for a report that reads the last ones only: the memory grows with every step.

After https://github.com/tensorflow/tensorflow/issues/34606, whose reporter appends the predictions of each batch.
"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(34606)
model = tf.keras.Sequential([tf.keras.Input((512,)), tf.keras.layers.Dense(512, "relu"), tf.keras.layers.Dense(1024)])
optimizer = tf.keras.optimizers.SGD(1e-3)
optimizer.build(model.trainable_variables)
rows = np.random.default_rng(34606).normal(size=(256, 512)).astype(np.float32)
dataset = tf.data.Dataset.from_tensors(rows).repeat(320).prefetch(2)


@tf.function
def train_step(batch):
    with tf.GradientTape() as tape:
        predictions = model(batch, training=True)
        loss = tf.reduce_mean(tf.square(predictions))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss, predictions


def train():
    collected = []
    for batch in dataset:
        loss, predictions = train_step(batch)
        collected.append((loss, predictions))
    print("loss", float(loss), "last predictions", float(tf.reduce_mean(collected[-1][1])))


train()
