"""A loop over `Session.run` makes a new assign operation in every step: the graph grows, and each step is slower.

After https://github.com/tensorflow/tensorflow/issues/4151, whose reporter changes a variable before every minimize step.
"""

import numpy as np
import tensorflow as tf

tf.compat.v1.disable_eager_execution()
tf.compat.v1.set_random_seed(4151)
numbers = np.random.default_rng(4151)
inputs = tf.compat.v1.placeholder(tf.float32, (128, 256))
weights = tf.compat.v1.get_variable("weights", (256, 256))
scale = tf.compat.v1.get_variable("scale", (256,))
loss = tf.reduce_mean(tf.square(tf.matmul(inputs, weights) * scale))
minimize = tf.compat.v1.train.GradientDescentOptimizer(1e-3).minimize(loss, var_list=[weights])

with tf.compat.v1.Session() as session:
    session.run(tf.compat.v1.global_variables_initializer())
    for step in range(400):
        batch = numbers.normal(size=(128, 256)).astype(np.float32)
        session.run(tf.compat.v1.assign(scale, np.full(256, 1.0 / (step + 1), np.float32)))
        _, value = session.run([minimize, loss], feed_dict={inputs: batch})
    print("loss", value)
