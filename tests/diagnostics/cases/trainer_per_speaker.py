"""A new trainer object for each speaker; its step is a decorated method, so each object brings its own trace.

After https://github.com/tensorflow/tensorflow/issues/62854: with a traced train method, training many small models in a
loop made memory and time grow with every new object.
"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(16)

SPEAKERS = [f"speaker{number:02d}" for number in range(24)]
rng = np.random.default_rng(16)

backbone = tf.keras.layers.Conv1D(128, 5, padding="same", activation="relu")
backbone.build((None, 64, 80))


class SpeakerTrainer:
    def __init__(self, name):
        self.name = name
        self.head = tf.Variable(tf.random.stateless_normal((128, 80), seed=(16, len(name))) * 0.05)

    @tf.function
    def train_step(self, mels):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(backbone(mels) @ self.head - mels))
        self.head.assign_sub(0.1 * tape.gradient(loss, self.head))
        return loss


for speaker in SPEAKERS:
    recordings = tf.constant(rng.normal(size=(5, 16, 64, 80)).astype(np.float32))
    trainer = SpeakerTrainer(speaker)
    for mels in recordings:
        loss = trainer.train_step(mels)
    print(speaker, "loss", float(loss))
