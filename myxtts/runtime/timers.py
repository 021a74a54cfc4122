"""Where the time of each step goes (waiting for data, host, device), and the time of named stages outside the steps.

The loop sets marks, each of which costs one `perf_counter` call (well under a microsecond). Every moment between `begin` and the
last `finish` belongs to exactly one stage.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

MAD_TO_STD = 1.4826
"""Median absolute deviation of a normal distribution to its standard deviation."""


class Stage(IntEnum):
    """What part of a step's time is spent on."""

    WAIT = 0
    """The loop waits for the next batch."""
    HOST = 1
    """Python: dispatch, logging, bookkeeping."""
    DEVICE = 2
    """The step function runs (on a CPU during the call; on a GPU until a value is fetched)."""


@dataclass(frozen=True)
class StepSummary:
    """Statistics of many steps; the field names are keys of `myxtts diagnose --json`."""

    steps: int
    mean_seconds: float
    std_seconds: float
    median_seconds: float
    step_cv: float
    """1.4826 x median absolute deviation / median: the spread of ordinary steps, without stalls."""
    wait_fraction: float
    """Fraction of the time spent in `Stage.WAIT`; the next two: in `Stage.HOST` and `Stage.DEVICE`."""
    host_fraction: float
    device_fraction: float

    @property
    def std_over_mean(self) -> float:
        """The plain spread, including stalls."""
        return self.std_seconds / self.mean_seconds if self.mean_seconds > 0 else 0.0


def robust_spread(seconds: np.ndarray) -> float:
    """1.4826 x MAD / median of the given step times; 0 for fewer than two."""
    if len(seconds) < 2:
        return 0.0
    median = float(np.median(seconds))
    return MAD_TO_STD * float(np.median(np.abs(seconds - median))) / median if median > 0 else 0.0


def summarize(stages: np.ndarray) -> StepSummary:
    """Statistics of an array of seconds, (steps, stages)."""
    if len(stages) == 0:
        return StepSummary(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    seconds = stages.sum(axis=1)
    fractions = stages.sum(axis=0) / max(float(seconds.sum()), 1e-12)
    return StepSummary(
        steps=len(seconds),
        mean_seconds=float(seconds.mean()),
        std_seconds=float(seconds.std()),
        median_seconds=float(np.median(seconds)),
        step_cv=robust_spread(seconds),
        wait_fraction=float(fractions[Stage.WAIT]),
        host_fraction=float(fractions[Stage.HOST]),
        device_fraction=float(fractions[Stage.DEVICE]),
    )


class StepClock:
    """Splits the time of a loop.

    Call `begin`; then for each step `mark(Stage.WAIT)` when the batch has arrived, `mark(Stage.DEVICE)` when the step has run,
    and `finish()` at the end. The time between the last mark and `finish` is host time.
    """

    def __init__(self, capacity_steps: int = 4096):
        self._ring = np.zeros((capacity_steps, len(Stage)))
        self._groups = np.zeros(capacity_steps, np.int64)
        self._current = [0.0] * len(Stage)
        self._totals = [0.0] * len(Stage)
        self._squares = 0.0
        self._steps = 0
        self._last = time.perf_counter()

    @property
    def steps(self) -> int:
        """Number of finished steps."""
        return self._steps

    @property
    def total_seconds(self) -> float:
        """Time of all finished steps."""
        return sum(self._totals)

    @property
    def totals(self) -> tuple[float, float, float]:
        """Seconds of all finished steps by `Stage`."""
        wait, host, device = self._totals
        return wait, host, device

    def begin(self) -> None:
        """Start the clock, or restart it after a pause (validation, a checkpoint) that belongs to no step."""
        self._current = [0.0] * len(Stage)
        self._last = time.perf_counter()

    def mark(self, stage: Stage) -> float:
        """Add the time since the last mark to `stage`; returns it in seconds."""
        now = time.perf_counter()
        seconds = now - self._last
        self._current[stage] += seconds
        self._last = now
        return seconds

    def finish(self, group: int = 0) -> tuple[float, float, float]:
        """End a step of shape index `group`. Returns its (wait, host, device) seconds."""
        self.mark(Stage.HOST)
        wait, host, device = self._current
        slot = self._steps % len(self._ring)
        self._ring[slot] = self._current
        self._groups[slot] = group
        totals = self._totals
        totals[0] += wait
        totals[1] += host
        totals[2] += device
        self._squares += (wait + host + device) ** 2
        self._steps += 1
        self._current = [0.0] * len(Stage)
        return wait, host, device

    def recent(self, last: int | None = None, group: int | None = None) -> np.ndarray:
        """Seconds of the newest steps, (steps, stages), oldest first; at most `capacity_steps` are kept."""
        kept = min(self._steps, len(self._ring))
        order = np.arange(self._steps - kept, self._steps) % len(self._ring)
        if group is not None:
            order = order[self._groups[order] == group]
        if last is not None:
            order = order[len(order) - min(last, len(order)) :]
        return self._ring[order]

    def groups(self) -> list[int]:
        """The groups of the kept steps."""
        return sorted(set(self._groups[: min(self._steps, len(self._ring))].tolist()))

    def summary(self, last: int | None = None, group: int | None = None) -> StepSummary:
        """Statistics of the newest steps.

        Without `last` and `group` they cover the whole run, except median and spread, which cover the kept steps.
        """
        recent = summarize(self.recent(last, group))
        if last is not None or group is not None or self._steps <= len(self._ring):
            return recent
        total = self.total_seconds
        mean = total / self._steps
        return StepSummary(
            steps=self._steps,
            mean_seconds=mean,
            std_seconds=max(self._squares / self._steps - mean * mean, 0.0) ** 0.5,
            median_seconds=recent.median_seconds,
            step_cv=recent.step_cv,
            wait_fraction=self._totals[Stage.WAIT] / total,
            host_fraction=self._totals[Stage.HOST] / total,
            device_fraction=self._totals[Stage.DEVICE] / total,
        )


class StageTimers:
    """Adds up the time of named stages outside the steps: import, cache, compilation, logging, validation."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._started_at = time.perf_counter()

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time of the `with` block to `name`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - start)

    def add(self, name: str, seconds: float) -> None:
        """Add seconds that were measured elsewhere to `name`."""
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def seconds(self, name: str) -> float:
        """Seconds spent in `name` so far; 0 if it never ran."""
        return self._seconds.get(name, 0.0)

    def account(self, clock: StepClock) -> dict[str, float]:
        """Every second since the construction, by part: the stages, the steps of `clock`, and the rest as "other"."""
        wait, host, device = clock.totals
        parts = {**self._seconds, "steps_waiting": wait, "steps_python": host, "steps_device": device}
        whole = time.perf_counter() - self._started_at
        return {**parts, "other": max(whole - sum(parts.values()), 0.0)}
