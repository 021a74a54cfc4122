"""Figures with their uncertainty: sums per sentence in, one value with a 95 % interval out. Plain NumPy.

Every figure is one sum over one count (edits over characters, seconds over seconds, scores over clips). The interval comes from
drawing sentences with replacement: the voice would have been measured on other sentences just as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

BOOTSTRAP_DRAWS = 2000
INTERVAL_PERCENT = (2.5, 97.5)


@dataclass(frozen=True)
class Figure:
    """A measured value, and the interval that holds it in 95 of 100 draws of sentences."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Share:
    """What one clip adds to a figure: a sum and what it is divided by."""

    part: float
    whole: float = 1.0


def measure(shares: Sequence[Sequence[Share | None]]) -> Figure | None:
    """The figure over sentences; each sentence brings the shares of its clips (one for each seed). None if nothing was measured.

    Clips that could not be measured (None) are left out of both sums. Draws are the same in every call.
    """
    parts = np.array([sum(share.part for share in each if share is not None) for each in shares], np.float64)
    wholes = np.array([sum(share.whole for share in each if share is not None) for each in shares], np.float64)
    if wholes.sum() <= 0.0:
        return None
    drawn = np.random.default_rng(0).integers(0, len(parts), (BOOTSTRAP_DRAWS, len(parts)))
    whole_sums = wholes[drawn].sum(axis=1)
    values = parts[drawn].sum(axis=1)[whole_sums > 0] / whole_sums[whole_sums > 0]
    low, high = np.percentile(values, INTERVAL_PERCENT)
    return Figure(float(parts.sum() / wholes.sum()), float(low), float(high))
