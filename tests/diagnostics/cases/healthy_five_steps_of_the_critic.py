"""A Wasserstein GAN: the critic learns in every step, the larger generator in every fifth. The rhythm is the algorithm.

After https://github.com/LynnHo/DCGAN-LSGAN-WGAN-GP-DRAGAN-Tensorflow-2/issues/4, which asks what n_critic = 5 means.
"""

import tensorflow as tf

tf.keras.utils.set_random_seed(44)
n_critic = 5
generator = tf.keras.Sequential(
    [tf.keras.Input((64,)), tf.keras.layers.Dense(1024, "relu"), tf.keras.layers.Dense(784)]
)
critic = tf.keras.Sequential([tf.keras.Input((784,)), tf.keras.layers.Dense(512, "relu"), tf.keras.layers.Dense(1)])
generator_optimizer = tf.keras.optimizers.Adam(1e-4)
critic_optimizer = tf.keras.optimizers.Adam(1e-4)
generator_optimizer.build(generator.trainable_variables)
critic_optimizer.build(critic.trainable_variables)
images = tf.random.normal((64 * 20, 784))
dataset = tf.data.Dataset.from_tensor_slices(images).cache().repeat(8).batch(64, drop_remainder=True).prefetch(2)


@tf.function
def train_critic(real):
    fake = generator(tf.random.normal((64, 64)), training=True)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(critic(fake, training=True)) - tf.reduce_mean(critic(real, training=True))
    gradients = tape.gradient(loss, critic.trainable_variables)
    critic_optimizer.apply_gradients(zip(gradients, critic.trainable_variables))
    return loss


@tf.function
def train_generator():
    with tf.GradientTape() as tape:
        loss = -tf.reduce_mean(critic(generator(tf.random.normal((64, 64)), training=True), training=True))
    gradients = tape.gradient(loss, generator.trainable_variables)
    generator_optimizer.apply_gradients(zip(gradients, generator.trainable_variables))
    return loss


for step, real in enumerate(dataset):
    critic_loss = train_critic(real)
    if step % n_critic == 0:
        generator_loss = train_generator()
    if step % 40 == 0:
        print("step", step, float(critic_loss), float(generator_loss))
