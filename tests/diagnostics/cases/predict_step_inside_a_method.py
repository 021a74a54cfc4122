"""The compiled step of the prediction is defined inside the method that uses it, so every evaluation traces it again.

After https://github.com/YosefLab/epitome/issues/43, about run_predictions.<locals>.predict_step.
"""

import tensorflow as tf

tf.keras.utils.set_random_seed(43)


class PeakModel:
    def __init__(self):
        layers = [tf.keras.layers.Dense(48, "relu") for _ in range(12)]
        self.network = tf.keras.Sequential([tf.keras.Input((48,)), *layers])
        self.optimizer = tf.keras.optimizers.Adam(1e-3)
        self.optimizer.build(self.network.trainable_variables)

    @tf.function
    def train_step(self, batch):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.network(batch, training=True) - batch))
        gradients = tape.gradient(loss, self.network.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.network.trainable_variables))
        return loss

    def run_predictions(self, batch):
        @tf.function
        def predict_step(inputs):
            return self.network(inputs, training=False)

        return predict_step(batch)


peaks = tf.random.normal((64, 48))
model = PeakModel()
for step in range(200):
    loss = model.train_step(peaks)
    if step % 10 == 0:
        print("step", step, "mean", float(tf.reduce_mean(model.run_predictions(peaks))))
