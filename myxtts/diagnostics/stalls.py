"""Finds steps that take much longer than the rest at regular distances. Numbers in, numbers out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SLOWER_THAN_MEDIAN = 1.6
FEWEST_STALLS = 4
REGULAR_SHARE = 0.7


@dataclass(frozen=True)
class Stalls:
    """Long steps that come back."""

    steps: tuple[int, ...]
    """Indices of the long steps."""
    period: int
    """Steps from one to the next."""
    excess_seconds: float
    """What they take beyond the median step, each."""
    share: float
    """Share of the whole time that the excess makes up."""


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
    for candidates in (long, _largest(long, seconds)):
        period = _period(candidates)
        if period is not None:
            excess = seconds[candidates] - median
            return Stalls(
                steps=tuple(candidates.tolist()),
                period=period,
                excess_seconds=float(np.median(excess)),
                share=float(excess.sum() / seconds.sum()),
            )
    return None


def _largest(long: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """The long steps of about the size of the longest: noise of another size may lie between regular stalls."""
    if len(long) == 0:
        return long
    excess = seconds[long] - np.median(seconds)
    return long[excess > 0.4 * np.sort(excess)[-max(len(excess) // 4, 1)]]


def _period(steps: np.ndarray) -> int | None:
    """The distance that most neighbours have, multiples of it allowed for a stall that was missed; None if there is none."""
    if len(steps) < FEWEST_STALLS:
        return None
    distances = np.diff(steps)
    period = int(np.median(distances))
    if period < 2:
        return None
    tolerance = max(1.0, 0.1 * period) if period > 4 else 0.0
    multiples = np.maximum(np.round(distances / period), 1)
    regular = np.abs(distances - multiples * period) <= tolerance * multiples
    return period if regular.mean() >= REGULAR_SHARE and np.mean(multiples == 1) >= 0.5 else None
