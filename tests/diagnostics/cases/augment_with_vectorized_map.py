"""Images are augmented in NumPy, one by one, inside a vectorized_map: it looks parallel, and it is not.

After https://github.com/albumentations-team/albumentations/issues/1464, whose reporter trains on fashion images.
"""

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(1464)
numbers = np.random.default_rng(1464)
images = numbers.integers(0, 255, size=(1024, 28, 28), dtype="uint8")
labels = numbers.integers(0, 10, size=1024)


def augment(image):
    image = image.astype("float32") / 255.0
    if numbers.random() < 0.5:
        image = image[:, ::-1]
    for _ in range(6):
        image = image + 0.01 * numbers.normal(size=image.shape)
        image = (image - image.min()) / (image.max() - image.min())
    return image[..., None].astype("float32")


def augment_one(pair):
    image, label = pair
    image = tf.numpy_function(augment, inp=[image], Tout=tf.float32)
    return tf.ensure_shape(image, (28, 28, 1)), label


def augment_batch(batch, labels):
    return tf.vectorized_map(augment_one, (batch, labels))


dataset = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(1024).batch(64)
dataset = dataset.map(augment_batch, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
model = keras.Sequential(
    [keras.Input((28, 28, 1)), keras.layers.Conv2D(8, 3, strides=2, activation="relu"), keras.layers.Flatten()]
)
model.add(keras.layers.Dense(10))
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(dataset, epochs=8, verbose=0)
print("loss", model.evaluate(images[..., None] / 255.0, labels, verbose=0))
