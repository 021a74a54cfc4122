"""Every batch has another length, and one signature with an open dimension takes them all: it is traced once.

After https://github.com/tensorflow/models/issues/7825, whose reporter pads each batch only to its own longest question.
"""

import numpy as np
import tensorflow as tf


class Tagger:
    def __init__(self):
        self.embed = tf.keras.layers.Embedding(500, 128)
        self.hidden = [tf.keras.layers.Dense(768, "relu") for _ in range(3)]
        self.output = tf.keras.layers.Dense(9)
        layers = [tf.keras.Input((None,), dtype="int32"), self.embed, *self.hidden, self.output]
        self.model = tf.keras.Sequential(layers)
        self.optimizer = tf.keras.optimizers.Adam(1e-3)
        self.optimizer.build(self.model.trainable_variables)

    @tf.function(input_signature=[tf.TensorSpec((16, None), tf.int32), tf.TensorSpec((16, None), tf.int32)])
    def train_step(self, tokens, tags):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tags, self.model(tokens, training=True))
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables))
        return loss


def batches(count):
    numbers = np.random.default_rng(7825)
    for _ in range(count):
        length = int(numbers.integers(30, 90))
        tokens = numbers.integers(0, 500, size=(16, length)).astype("int32")
        yield tokens, tokens % 9


def main():
    tf.keras.utils.set_random_seed(7825)
    tagger = Tagger()
    mean = tf.keras.metrics.Mean()
    for step, (tokens, tags) in enumerate(batches(300)):
        mean.update_state(tagger.train_step(tf.constant(tokens), tf.constant(tags)))
        if step % 60 == 59:
            print(f"step {step + 1}: {float(mean.result()):.3f}")
            mean.reset_state()


if __name__ == "__main__":
    main()
