"""An actor-critic agent updates itself from a tape in a plain method; nothing in it is ever compiled.

After https://github.com/tensorflow/tensorflow/issues/33487, whose reporter's agent trains far slower than in TensorFlow 1.
"""

import numpy as np
import tensorflow as tf


class ActorCritic(tf.keras.Model):
    def __init__(self, actions):
        super().__init__()
        self.hidden = [tf.keras.layers.Dense(48, "relu") for _ in range(3)]
        self.policy = tf.keras.layers.Dense(actions)
        self.value = tf.keras.layers.Dense(1)

    def call(self, observations):
        for layer in self.hidden:
            observations = layer(observations)
        return self.policy(observations), self.value(observations)


class Agent:
    def __init__(self):
        self.network = ActorCritic(4)
        self.optimizer = tf.keras.optimizers.RMSprop(1e-3)

    def learn(self, observations, actions, returns):
        with tf.GradientTape() as tape:
            logits, values = self.network(observations)
            advantages = returns - tf.squeeze(values, -1)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(actions, logits)
            policy_loss = tf.reduce_mean(losses * tf.stop_gradient(advantages))
            loss = policy_loss + 0.5 * tf.reduce_mean(tf.square(advantages))
        gradients = tape.gradient(loss, self.network.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.network.trainable_variables))
        return loss


def main():
    tf.keras.utils.set_random_seed(33487)
    numbers = np.random.default_rng(33487)
    agent = Agent()
    loss = None
    for _ in range(400):
        observations = numbers.normal(size=(32, 8)).astype("float32")
        actions = numbers.integers(0, 4, size=32)
        returns = numbers.normal(size=32).astype("float32")
        loss = agent.learn(observations, actions, returns)
    print("loss", float(loss))


if __name__ == "__main__":
    main()
