"""Training of the log-linear models of `myxtts.text.homographs` and `myxtts.text.persian_ezafe`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from myxtts.text.homographs import HOMOGRAPH_TABLE_SIZE, HomographModel, Reading, context_features, slots_of
from myxtts.text.persian_ezafe import EZAFE_TABLE_SIZE, EzafeModel, ezafe_slots
from myxtts.training.g2p_persian_labels import UNKNOWN, Example

_HOMOGRAPH_EPOCHS = 12
_HOMOGRAPH_LEARNING_RATE = 0.3
"""Chosen; not measured."""
_HOMOGRAPH_SHRINKAGE = 1e-4
"""L2 penalty on the weights that an example touches."""


@dataclass(frozen=True)
class HomographExample:
    """A sentence as words, the index of the homograph, and which of its readings is right."""

    words: tuple[str, ...]
    index: int
    reading: int


def train_homographs(
    examples: Sequence[HomographExample], readings: Mapping[str, Sequence[Reading]], seed: int = 0
) -> HomographModel:
    """Fit by stochastic gradient descent with per-weight steps (AdaGrad, Duchi et al. 2011)."""
    generator = np.random.default_rng(seed)
    prepared = []
    for example in examples:
        word = example.words[example.index].lower()
        features = context_features(example.words, example.index)
        slots = np.stack([_padded(slots_of(features, word, reading), 2 * len(features)) for reading in readings[word]])
        prepared.append((slots, example.reading))
    weights = np.zeros(HOMOGRAPH_TABLE_SIZE + 1, np.float64)  # the last place is padding and stays zero
    squares = np.full(HOMOGRAPH_TABLE_SIZE + 1, 1e-2)
    for _ in range(_HOMOGRAPH_EPOCHS):
        for position in generator.permutation(len(prepared)):
            slots, right = prepared[position]
            scores = weights[slots].sum(axis=1)
            probabilities = np.exp(scores - scores.max())
            probabilities /= probabilities.sum()
            probabilities[right] -= 1.0
            gradient = np.repeat(probabilities[:, None], slots.shape[1], axis=1) + _HOMOGRAPH_SHRINKAGE * weights[slots]
            np.add.at(squares, slots, gradient**2)
            np.subtract.at(weights, slots, _HOMOGRAPH_LEARNING_RATE * gradient / np.sqrt(squares[slots]))
            weights[-1] = 0.0
    largest = max(np.abs(weights).max(), 1e-9)
    return HomographModel(readings, np.round(weights[:-1] / largest * 127).astype(np.int8), float(largest / 127))


def _padded(slots: np.ndarray, size: int) -> np.ndarray:
    return np.concatenate([slots, np.full(size - len(slots), HOMOGRAPH_TABLE_SIZE, np.int64)])


_EZAFE_EPOCHS = 6
_EZAFE_LEARNING_RATE = 0.25
_EZAFE_BATCH = 8
"""Chosen; not measured."""
_EZAFE_SHRINKAGE = 1e-5
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
    for _ in range(_EZAFE_EPOCHS):
        order = generator.permutation(len(touched))
        for start in range(0, len(order), _EZAFE_BATCH):
            chosen = order[start : start + _EZAFE_BATCH]
            places = touched[chosen]
            probability = 1.0 / (1.0 + np.exp(-weights[places].sum(axis=1)))
            error = (probability - wanted[chosen]) * importance[chosen]
            gradient = error[:, None] + _EZAFE_SHRINKAGE * weights[places]
            np.add.at(squares, places, gradient**2)
            np.subtract.at(weights, places, _EZAFE_LEARNING_RATE * gradient / np.sqrt(squares[places]))
        total += weights
    average = total / _EZAFE_EPOCHS
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
