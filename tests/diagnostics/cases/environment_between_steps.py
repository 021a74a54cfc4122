"""An agent is updated by a compiled step, and a simulation in plain Python runs between the steps and takes longer.

After https://github.com/tensorflow/tensorflow/issues/38763, whose reporter trains an agent on an environment of their own.
"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(38763)


class Traffic:
    """Cars on a ring road; each one accelerates toward the distance it wants to keep."""

    def __init__(self, cars):
        self.positions = [10.0 * car for car in range(cars)]
        self.speeds = [5.0] * cars

    def step(self, action):
        for _ in range(40):
            for car in range(len(self.positions)):
                gap = (self.positions[car - 1] - self.positions[car]) % 2000.0
                self.speeds[car] += 0.05 * (0.1 * gap - self.speeds[car] + action)
                self.positions[car] += 0.05 * self.speeds[car]
        return np.array(self.speeds, np.float32), -float(np.std(self.speeds))


policy = tf.keras.Sequential([tf.keras.Input((200,)), tf.keras.layers.Dense(256, "tanh"), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.Adam(1e-3)
optimizer.build(policy.trainable_variables)


@tf.function
def update(states, rewards):
    with tf.GradientTape() as tape:
        actions = policy(states, training=True)
        loss = tf.reduce_mean(tf.square(actions[:, 0] - rewards))
    gradients = tape.gradient(loss, policy.trainable_variables)
    optimizer.apply_gradients(zip(gradients, policy.trainable_variables))
    return loss


environment = Traffic(200)
memory = np.zeros((64, 200), np.float32)
rewards = np.zeros(64, np.float32)
for step in range(120):
    state, reward = environment.step(0.1)
    memory[step % 64], rewards[step % 64] = state, reward
    loss = update(tf.constant(memory), tf.constant(rewards))
print("loss", float(loss))
