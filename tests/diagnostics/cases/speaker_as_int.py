"""Each batch holds one speaker, and the speaker's number goes into the traced step as a Python int.

After https://github.com/instadeepai/Mava/issues/346: memory grew without end because a traced method was called with
Python values, which change, instead of tensors.
"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(14)

NUM_SPEAKERS = 30
rng = np.random.default_rng(14)
clips = [tf.constant(rng.normal(size=(12, 64, 80)).astype(np.float32)) for _ in range(6)]
speaker_of_step = rng.integers(0, NUM_SPEAKERS, size=120).tolist()


class AcousticModel(tf.Module):
    def __init__(self):
        self.speakers = tf.Variable(tf.random.stateless_normal((NUM_SPEAKERS, 128), seed=(14, 1)))
        self.encoder = tf.keras.layers.Conv1D(128, 5, padding="same", activation="relu")
        self.decoder = tf.keras.layers.Conv1D(80, 5, padding="same")
        self.encoder.build((None, 64, 80))
        self.decoder.build((None, 64, 128))

    @tf.function
    def train_step(self, mels, speaker_id):
        with tf.GradientTape() as tape:
            hidden = self.encoder(mels) + self.speakers[speaker_id]
            loss = tf.reduce_mean(tf.square(self.decoder(hidden) - mels))
        weights = [weight.value for weight in self.encoder.weights + self.decoder.weights]
        for weight, gradient in zip(weights, tape.gradient(loss, weights)):
            weight.assign_sub(0.01 * gradient)
        return loss


model = AcousticModel()
for step, speaker_id in enumerate(speaker_of_step):
    loss = model.train_step(clips[step % len(clips)], speaker_id)
    if step % 40 == 0:
        print(step, float(loss))
