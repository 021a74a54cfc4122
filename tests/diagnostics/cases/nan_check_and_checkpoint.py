"""After each step the loss is compared in Python; every 20 steps the whole state is written and the loop waits for it.

After https://github.com/deepchem/deepchem/issues/458: with small networks more time went into saving checkpoints than
into training, until they were written less often.
"""

import tempfile

import tensorflow as tf

tf.keras.utils.set_random_seed(26)

model = tf.keras.Sequential(
    [
        tf.keras.Input((96, 80)),
        tf.keras.layers.Conv1D(160, 5, padding="same", activation="relu"),
        tf.keras.layers.Dense(80),
    ]
)
big_table = tf.Variable(tf.zeros((60_000, 512)), name="lexicon")
optimizer = tf.keras.optimizers.Adam(1e-3)
optimizer.build(model.trainable_variables)
batches = [tf.random.stateless_normal((16, 96, 80), seed=(26, index)) for index in range(4)]


@tf.function
def train_step(mels):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(mels, training=True) - mels))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


with tempfile.TemporaryDirectory() as folder:
    checkpoint = tf.train.Checkpoint(model=model, table=big_table)
    manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=1)
    for step in range(1, 161):
        loss = train_step(batches[step % 4])
        if tf.math.is_nan(loss):
            raise SystemExit("loss is not a number")
        if step % 20 == 0:
            manager.save()
            print("saved at step", step)
