"""Training of the log-linear ezafe model (`myxtts.text.context_models`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from myxtts.text.context_models import EZAFE_TABLE_SIZE, EzafeModel, ezafe_slots
from myxtts.training.g2p_persian import UNKNOWN, Example

_EPOCHS = 6
_LEARNING_RATE = 0.25
_BATCH = 8
_SHRINKAGE = 1e-5
"""L2 penalty on the weights that an example touches."""
LIKELY = -0.4
"""Log odds above which an ezafe is likely; below zero because the certain labels of raw sentences are mostly negative."""
_CONFIDENT = 1.2
"""Log odds nearer to it give no label."""


def train_ezafe(
    sources: Sequence[tuple[Sequence[Example], float]], classes: Mapping[str, str], seed: int = 0
) -> EzafeModel:
    """Fit by AdaGrad (Duchi et al. 2011); the weights are averaged over the epochs.

    Args:
        sources: examples and the weight of their loss.
        classes: parts of speech of words; may be empty.
    """
    slots, labels, loss_weights = [], [], []
    for examples, loss_weight in sources:
        for example in examples:
            for index, label in enumerate(example.ezafe):
                if label != UNKNOWN and index + 1 < len(example.line.words):
                    slots.append(ezafe_slots(example.line, index, classes))
                    labels.append(label)
                    loss_weights.append(loss_weight)
    touched, wanted, importance = np.array(slots), np.array(labels, float), np.array(loss_weights)
    generator = np.random.default_rng(seed)
    weights, squares, total = np.zeros(EZAFE_TABLE_SIZE), np.full(EZAFE_TABLE_SIZE, 1e-2), np.zeros(EZAFE_TABLE_SIZE)
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
    return EzafeModel(np.round(average / largest * 127).astype(np.int8), float(largest / 127), classes)


def with_likely_ezafe(model: EzafeModel, example: Example) -> Example:
    """An example whose unknown ezafe is labeled where the model is confident."""
    if UNKNOWN not in example.ezafe:
        return example
    scores = model.scores(example.line) - LIKELY
    labels = (
        label if label != UNKNOWN or abs(score) < _CONFIDENT else int(score > 0)
        for label, score in zip(example.ezafe, scores, strict=True)
    )
    return replace(example, ezafe=tuple(labels))
