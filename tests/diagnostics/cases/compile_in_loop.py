"""model.compile is called for every stage of a schedule, and each call throws the traced train function away.

After https://github.com/tensorflow/tensorflow/issues/34675: the reporter freezes and unfreezes layers in turns and has
to compile the whole model again each time.
"""

import keras
import numpy as np

keras.utils.set_random_seed(19)

mels = np.random.default_rng(19).normal(size=(128, 64, 80)).astype("float32")
inputs = keras.Input((64, 80))
hidden = keras.layers.Conv1D(128, 5, padding="same", activation="relu", name="encoder")(inputs)
hidden = keras.layers.Conv1D(128, 5, padding="same", activation="relu", name="decoder")(hidden)
model = keras.Model(inputs, keras.layers.Dense(80)(hidden))

for stage in range(9):
    frozen = model.get_layer("encoder" if stage % 2 else "decoder")
    frozen.trainable = False
    model.compile(optimizer=keras.optimizers.SGD(0.05 * 0.9**stage), loss="mae")
    history = model.fit(mels, mels, batch_size=16, epochs=1, verbose=0)
    frozen.trainable = True
    print(f"stage {stage}: {history.history['loss'][0]:.4f}")
print("weights", model.count_params())
