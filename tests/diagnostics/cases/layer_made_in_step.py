"""The post-net layer is made inside the forward pass, which only works because nothing is traced.

After https://github.com/koshian2/OctConv-TFKeras/issues/16: a layer made in the call raises in a tf.function; running
eagerly hides the error, and the layer starts from new weights at each call.
"""

import tensorflow as tf

tf.keras.utils.set_random_seed(24)

encoder = tf.keras.Sequential(
    [tf.keras.Input((64, 80)), tf.keras.layers.Conv1D(96, 5, padding="same", activation="relu")]
)
optimizer = tf.keras.optimizers.SGD(0.01)
optimizer.build(encoder.trainable_variables)
batches = [tf.random.stateless_normal((12, 64, 80), seed=(24, index)) for index in range(6)]


def forward(mels):
    hidden = encoder(mels, training=True)
    hidden = tf.nn.relu(hidden + tf.reduce_mean(hidden, axis=1, keepdims=True))
    return tf.keras.layers.Dense(80)(hidden)


def train_step(mels):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(forward(mels) - mels))
    gradients = tape.gradient(loss, encoder.trainable_variables)
    optimizer.apply_gradients(zip(gradients, encoder.trainable_variables))
    return loss


for step in range(120):
    loss = train_step(batches[step % len(batches)])
    if step % 40 == 39:
        print(f"step {step + 1}: loss {float(loss):.4f}")
