"""Finds steps that take much longer than the others at regular intervals, from the step times alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

SLOWER_THAN_MEDIAN = 1.6
FEWEST_STALLS = 4
REGULAR_FRACTION = 0.7
"""Of the long steps, this fraction must have the same phase."""
COMPLETE_FRACTION = 0.6
"""Of the steps at which a stall is due, this fraction must be long."""
MOST_CHANCE = 3e-4


@dataclass(frozen=True)
class Stalls:
    """Long steps that come back."""

    steps: tuple[int, ...]
    """Indices of the long steps."""
    period: int
    """Steps from one to the next."""
    excess_seconds: float
    """What they take beyond the median step, each."""
    fraction: float
    """Fraction of the whole time that the excess makes up."""


def find_cyclic_stalls(seconds: np.ndarray) -> Stalls | None:
    """Regular stalls among step times, or None. A single long step, or noise without a period, is none."""
    if len(seconds) < 2 * FEWEST_STALLS:
        return None
    median = float(np.median(seconds))
    spread = 1.4826 * float(np.median(np.abs(seconds - median)))
    limit = max(SLOWER_THAN_MEDIAN * median, median + 6 * spread)
    long = np.flatnonzero(seconds > limit)
    if len(long) > len(seconds) // 2:
        return None
    for candidates in _by_size(long, seconds):
        period = _period(candidates, len(seconds))
        if period is not None:
            excess = seconds[candidates] - median
            return Stalls(
                steps=tuple(candidates.tolist()),
                period=period,
                excess_seconds=float(np.median(excess)),
                fraction=float(excess.sum() / seconds.sum()),
            )
    return None


def _by_size(long: np.ndarray, seconds: np.ndarray) -> list[np.ndarray]:
    """The long steps, all of them and only the longer ones: noise of another size may lie between regular stalls."""
    if len(long) == 0:
        return []
    sizes = seconds[long]
    return [long[sizes >= np.quantile(sizes, fraction)] for fraction in (0.0, 0.3, 0.5, 0.65, 0.8, 0.9)]


def _period(steps: np.ndarray, total: int) -> int | None:
    """The distance at which the long steps come back through the whole run; None if chance explains them as well.

    A few long steps on a busy machine happen to have almost equal distances now and then. So most of them must have the same
    phase, most of the expected ones must be there, and so many in phase must be very unlikely for steps at random.
    """
    if len(steps) < FEWEST_STALLS:
        return None
    for period in {int(np.median(np.diff(steps))), int(np.min(np.diff(steps)))}:
        if period < 2:
            continue
        tolerance = period // 20
        in_phase = _most_in_phase(steps % period, period, tolerance)
        is_complete = in_phase >= COMPLETE_FRACTION * (total // period)
        log_chance = (
            math.log(period)
            + _log_combinations(len(steps), in_phase)
            + in_phase * math.log((2 * tolerance + 1) / period)
        )
        if in_phase >= REGULAR_FRACTION * len(steps) and is_complete and log_chance < math.log(MOST_CHANCE):
            return period
    return None


def _most_in_phase(phases: np.ndarray, period: int, tolerance: int) -> int:
    """The largest number of phases within `tolerance` of one of them, on a circle of `period`."""
    counts = np.bincount(phases, minlength=period)
    around = np.concatenate([counts[period - tolerance :], counts, counts[:tolerance]]) if tolerance else counts
    near = np.convolve(around, np.ones(2 * tolerance + 1, int), mode="valid")
    return int(near[counts > 0].max())


def _log_combinations(count: int, chosen: int) -> float:
    """Natural logarithm of the binomial coefficient: the number itself is too large for a float from 1,000 steps on."""
    return math.lgamma(count + 1) - math.lgamma(chosen + 1) - math.lgamma(count - chosen + 1)
