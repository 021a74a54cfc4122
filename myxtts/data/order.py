"""Random order without hidden state: numbers that follow from (seed, pass, clip) alone, on every machine and NumPy version.

In: integers. Out: 64-bit numbers that look random (the finaliser of the SplitMix64 generator), and orders sorted by them.
"""

from __future__ import annotations

import numpy as np


def mixed(*keys: int | np.ndarray) -> np.ndarray:
    """One uint64 for each combination of the keys, which are broadcast against each other."""
    state = np.uint64(0)
    with np.errstate(over="ignore"):
        for key in keys:
            state = _finalised(state ^ np.asarray(key).astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        return _finalised(np.asarray(state))


def shuffled(count: int, *keys: int) -> np.ndarray:
    """The numbers 0 … count-1 in the order that belongs to the keys: int64 (count,)."""
    return np.argsort(mixed(*keys, np.arange(count)), kind="stable")


def _finalised(numbers: np.ndarray) -> np.ndarray:
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))
