"""Two experiments in main(), each with its own model and its own compiled step from a factory, both gone at the end.

After https://github.com/tensorflow/tensorflow/issues/42000, whose advice for repeated experiments is this factory.
"""

import tensorflow as tf


class Experiment:
    def __init__(self, units):
        self.model = tf.keras.Sequential(
            [tf.keras.Input((128,)), tf.keras.layers.Dense(units, "relu"), tf.keras.layers.Dense(128)]
        )
        self.optimizer = tf.keras.optimizers.Adam(1e-3)
        self.optimizer.build(self.model.trainable_variables)

    @tf.function
    def train_step(self, batch):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.model(batch, training=True) - batch))
        gradients = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables))
        return loss


def main():
    tf.keras.utils.set_random_seed(42000)
    rows = tf.random.normal((128 * 25, 128))
    dataset = tf.data.Dataset.from_tensor_slices(rows).cache().batch(128).prefetch(2)
    for units in (1024, 2048):
        experiment = Experiment(units)
        for epoch in range(6):
            for batch in dataset:
                loss = experiment.train_step(batch)
        print(units, "units: loss", float(loss))


if __name__ == "__main__":
    main()
