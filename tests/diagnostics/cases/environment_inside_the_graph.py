"""The compiled step steps an environment through tf.numpy_function, so the device waits for Python in every step.

After https://github.com/tensorflow/agents/issues/811: collecting is slow because each action goes through a Python environment.
"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(811)
policy = tf.keras.Sequential([tf.keras.Input((16,)), tf.keras.layers.Dense(128, "tanh"), tf.keras.layers.Dense(4)])
optimizer = tf.keras.optimizers.Adam(1e-3)
optimizer.build(policy.trainable_variables)


def step_environments(actions):
    states = np.zeros((64, 16), np.float32)
    for environment, action in enumerate(actions):
        position = 0.1 * float(action)
        for feature in range(16):
            for _ in range(6):
                position = position * 0.9 + 0.01 * feature
            states[environment, feature] = position
    return states


@tf.function
def collect_and_train(states):
    with tf.GradientTape() as tape:
        scores = policy(states, training=True)
        loss = tf.reduce_mean(tf.reduce_logsumexp(scores, axis=1))
    gradients = tape.gradient(loss, policy.trainable_variables)
    optimizer.apply_gradients(zip(gradients, policy.trainable_variables))
    following = tf.numpy_function(step_environments, [tf.argmax(scores, axis=1)], tf.float32)
    return tf.ensure_shape(following, (64, 16)), loss


states = tf.zeros((64, 16))
for step in range(150):
    states, loss = collect_and_train(states)
print("loss", float(loss))
