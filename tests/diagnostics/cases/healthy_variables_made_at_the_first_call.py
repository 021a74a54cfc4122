"""Parameters are made at the first call of the compiled step, which is therefore traced twice, once and for all.

After https://github.com/tensorflow/tensorflow/issues/47792, whose reporter asks if tracing twice is a defect.
"""

import tensorflow as tf

tf.keras.utils.set_random_seed(47792)
parameters = {}


def get_param(name, shape):
    if name not in parameters:
        parameters[name] = tf.Variable(tf.random.normal(shape, stddev=0.05))
    return parameters[name]


def network(batch):
    hidden = tf.nn.relu(tf.matmul(batch, get_param("first", (256, 1024))))
    return tf.matmul(hidden, get_param("second", (1024, 256)))


@tf.function
def train_network(batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(network(batch) - batch))
    for variable, gradient in zip(parameters.values(), tape.gradient(loss, list(parameters.values()))):
        variable.assign_sub(0.01 * gradient)
    return loss


batch = tf.random.normal((256, 256))
for step in range(150):
    loss = train_network(batch)
print("loss", float(loss))
