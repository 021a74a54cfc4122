"""Training of the homograph model: sentences with the right reading of one word in, hashed weights out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from myxtts.text.context_models import HOMOGRAPH_TABLE_SIZE, HomographModel, Reading, context_features, slots_of

_EPOCHS = 12
_LEARNING_RATE = 0.3
_SHRINKAGE = 1e-4
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
    for _ in range(_EPOCHS):
        for position in generator.permutation(len(prepared)):
            slots, right = prepared[position]
            scores = weights[slots].sum(axis=1)
            probabilities = np.exp(scores - scores.max())
            probabilities /= probabilities.sum()
            probabilities[right] -= 1.0
            gradient = np.repeat(probabilities[:, None], slots.shape[1], axis=1) + _SHRINKAGE * weights[slots]
            np.add.at(squares, slots, gradient**2)
            np.subtract.at(weights, slots, _LEARNING_RATE * gradient / np.sqrt(squares[slots]))
            weights[-1] = 0.0
    largest = max(np.abs(weights).max(), 1e-9)
    return HomographModel(readings, np.round(weights[:-1] / largest * 127).astype(np.int8), float(largest / 127))


def _padded(slots: np.ndarray, size: int) -> np.ndarray:
    return np.concatenate([slots, np.full(size - len(slots), HOMOGRAPH_TABLE_SIZE, np.int64)])
