"""Training of the log-linear ezafe model (`myxtts.text.ezafe`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from myxtts.text.ezafe import TABLE_SIZE, EzafeModel, ezafe_slots
from myxtts.training.g2p_persian import UNKNOWN, Example

_EPOCHS = 6
_LEARNING_RATE = 0.25
_BATCH = 8
_SHRINKAGE = 1e-5
"""L2 penalty on the weights that an example touches."""


def train_ezafe(sources: Sequence[tuple[Sequence[Example], float]], seed: int = 0) -> EzafeModel:
    """Fit by AdaGrad (Duchi et al. 2011); the weights are averaged over the epochs.

    Args:
        sources: examples and the weight of their loss.
    """
    slots, labels, loss_weights = [], [], []
    for examples, loss_weight in sources:
        for example in examples:
            for index, label in enumerate(example.ezafe):
                if label != UNKNOWN and index + 1 < len(example.line.words):
                    slots.append(ezafe_slots(example.line, index))
                    labels.append(label)
                    loss_weights.append(loss_weight)
    touched, wanted, importance = np.array(slots), np.array(labels, float), np.array(loss_weights)
    generator = np.random.default_rng(seed)
    weights, squares, total = np.zeros(TABLE_SIZE), np.full(TABLE_SIZE, 1e-2), np.zeros(TABLE_SIZE)
    for _ in range(_EPOCHS):
        order = generator.permutation(len(touched))
        for start in range(0, len(order), _BATCH):
            chosen = order[start : start + _BATCH]
            places = touched[chosen]
            probability = 1.0 / (1.0 + np.exp(-weights[places].sum(axis=1)))
            error = (probability - wanted[chosen]) * importance[chosen]
            gradient = error[:, None] + _SHRINKAGE * weights[places]
            np.add.at(squares, places, gradient**2)
            np.subtract.at(weights, places, _LEARNING_RATE * gradient / np.sqrt(squares[places]))
        total += weights
    average = total / _EPOCHS
    largest = max(np.abs(average).max(), 1e-9)
    return EzafeModel(np.round(average / largest * 127).astype(np.int8), float(largest / 127))
