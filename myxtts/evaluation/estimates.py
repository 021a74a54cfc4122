"""Metrics with their uncertainty: ratios per sentence → one value with a 95 % interval.

Every metric is one sum over one count (edits over characters, seconds over seconds, scores over clips), never a mean of means.
The interval is a bootstrap over sentences: the voice could have been measured on other sentences just as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 2000


@dataclass(frozen=True)
class Ratio:
    """What one clip contributes to a metric: a sum, and what it is divided by."""

    numerator: float
    denominator: float = 1.0

    @property
    def value(self) -> float:
        """The metric of this clip alone."""
        return self.numerator / max(1e-12, self.denominator)


RatioRows = Sequence[Sequence[Ratio | None]]
"""One row per sentence, one entry per clip (seed); None where a clip could not be measured."""


@dataclass(frozen=True)
class Estimate:
    """A measured value and its 95 % interval."""

    value: float
    low: float
    high: float


def estimate(rows: RatioRows, is_mean_square: bool = False) -> Estimate | None:
    """Estimate a metric over sentences; None if nothing was measured.

    Args:
        rows: the ratios of each sentence. Unmeasured clips are left out of both sums.
        is_mean_square: the ratios are squares over counts, and the metric is the root of their sum.
    """
    measured = [[ratio for ratio in row if ratio is not None] for row in rows]
    numerators = np.array([sum(ratio.numerator for ratio in row) for row in measured], np.float64)
    denominators = np.array([sum(ratio.denominator for ratio in row) for row in measured], np.float64)
    has_weight = denominators > 0.0
    numerators, denominators = numerators[has_weight], denominators[has_weight]
    if len(numerators) == 0:
        return None

    def statistic(numerators: np.ndarray, denominators: np.ndarray, axis: int = -1) -> np.ndarray:
        value = numerators.sum(axis=axis) / denominators.sum(axis=axis)
        return np.sqrt(value) if is_mean_square else value

    value = float(statistic(numerators, denominators))
    if len(numerators) == 1:  # nothing to draw from
        return Estimate(value, value, value)
    from scipy.stats import bootstrap

    interval = bootstrap(
        (numerators, denominators), statistic, n_resamples=RESAMPLES, paired=True, method="percentile", rng=0
    ).confidence_interval
    return Estimate(value, float(interval.low), float(interval.high))
