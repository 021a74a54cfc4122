"""next(iter(dataset)) in every step: an iterator is made and a shuffle buffer filled for each single batch.

After https://github.com/tensorflow/tensorflow/issues/14868, whose reporter makes new iterators and sees the reading slow down.
"""

import tensorflow as tf

tf.keras.utils.set_random_seed(14868)
images = tf.random.normal((2048, 28, 28))
dataset = tf.data.Dataset.from_tensor_slices(images)
dataset = dataset.map(lambda image: tf.image.random_flip_left_right(image[..., None]))
dataset = dataset.shuffle(2048).batch(32)
weights = tf.Variable(tf.random.normal((784, 64), stddev=0.05))


@tf.function
def train_step(batch):
    flat = tf.reshape(batch, (-1, 784))
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.matmul(tf.matmul(flat, weights), weights, transpose_b=True) - flat))
    weights.assign_sub(0.01 * tape.gradient(loss, weights))
    return loss


for step in range(60):
    loss = train_step(next(iter(dataset)))
print("loss", float(loss))
