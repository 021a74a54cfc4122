"""Python computes the targets of every batch right before train_on_batch, and that takes longer than the batch.

After https://github.com/keras-team/keras/issues/4197, whose reporter found that their own calculation before the call was slow.
"""

import keras
import numpy as np

keras.utils.set_random_seed(4197)
images = np.random.default_rng(10).normal(size=(8, 32, 32, 3)).astype("float32")
model = keras.Sequential(
    [keras.Input((32, 32, 3)), keras.layers.Conv2D(16, 3, padding="same"), keras.layers.Conv2D(1, 1)]
)
model.compile(optimizer="adam", loss="mse")


def overlap_with_anchors(box):
    target = np.zeros((32, 32, 1), np.float32)
    for row in range(32):
        for column in range(32):
            width = min(row + 6, box[2]) - max(row, box[0])
            height = min(column + 6, box[3]) - max(column, box[1])
            target[row, column, 0] = max(width, 0) * max(height, 0) / 36.0
    return target


for step in range(80):
    boxes = np.random.default_rng(step).integers(0, 16, size=(8, 4)) + np.array([0, 0, 12, 12])
    targets = np.stack([overlap_with_anchors(box) for box in boxes])
    loss = model.train_on_batch(images, targets)
print("loss", float(loss))
