"""Rules about the host: fetched values, eager steps, cyclic stalls, and Python that keeps the device waiting."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from myxtts.diagnostics.observe.issues import Disease, Facts, Finding, duration, percent
from myxtts.diagnostics.observe.source_lines import UNKNOWN, Place

# MERGED: Finds steps that take much longer than the rest at regular distances. Numbers in, numbers out.

SLOWER_THAN_MEDIAN = 1.6
FEWEST_STALLS = 4
REGULAR_SHARE = 0.7
"""Of the long steps, so many must have the same phase."""
COMPLETE_SHARE = 0.6
"""Of the steps at which a stall is due, so many must be long."""
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
    for candidates in _by_size(long, seconds):
        period = _period(candidates, len(seconds))
        if period is not None:
            excess = seconds[candidates] - median
            return Stalls(
                steps=tuple(candidates.tolist()),
                period=period,
                excess_seconds=float(np.median(excess)),
                share=float(excess.sum() / seconds.sum()),
            )
    return None


def _by_size(long: np.ndarray, seconds: np.ndarray) -> list[np.ndarray]:
    """The long steps, all of them and only the longer ones: noise of another size may lie between regular stalls."""
    if len(long) == 0:
        return []
    sizes = seconds[long]
    return [long[sizes >= np.quantile(sizes, share)] for share in (0.0, 0.3, 0.5, 0.65, 0.8, 0.9)]


def _period(steps: np.ndarray, total: int) -> int | None:
    """The distance at which the long steps come back through the whole run; None if chance explains them as well.

    Few long steps on a busy machine have almost equal distances now and then. So most of them must have the same phase, most of
    the expected ones must be there, and so many in phase must be very unlikely for steps thrown at random.
    """
    if len(steps) < FEWEST_STALLS:
        return None
    for period in {int(np.median(np.diff(steps))), int(np.min(np.diff(steps)))}:
        if period < 2:
            continue
        tolerance = period // 20
        phases = steps % period
        distance = np.abs(phases[:, None] - phases[None, :])
        in_phase = int((np.minimum(distance, period - distance) <= tolerance).sum(axis=1).max())
        is_complete = in_phase >= COMPLETE_SHARE * (total // period)
        chance = period * math.comb(len(steps), in_phase) * ((2 * tolerance + 1) / period) ** in_phase
        if in_phase >= REGULAR_SHARE * len(steps) and is_complete and chance < MOST_CHANCE:
            return period
    return None


SYNC_SHARE_OF_STEPS = 0.5
EAGER_OPS_PER_STEP = 20
STALL_SHARE = 0.05
HOST_SHARE = 0.2
LEAST_HOST_SECONDS = 2.5e-3


def find_host_problems(facts: Facts) -> Iterator[Finding]:
    """Everything that keeps the device idle from the side of Python."""
    eager = list(_eager(facts))
    yield from eager
    yield from _host_syncs(facts)
    stalls = list(_cyclic_stalls(facts))
    yield from stalls
    if not eager:
        yield from _device_idle(facts)


def _host_syncs(facts: Facts) -> Iterator[Finding]:
    windows = facts.steps.window_of(np.array([span.start for span in facts.recording.syncs]))
    steady = facts.steady
    by_place: dict[Place, list[int]] = {}
    for number, window in enumerate(windows):
        if window >= 0 and steady[window]:
            by_place.setdefault(facts.recording.syncs[number].place, []).append(number)
    for place, numbers in by_place.items():
        steps = {int(windows[number]) for number in numbers}
        if len(steps) < max(SYNC_SHARE_OF_STEPS * steady.sum(), 2) or place == UNKNOWN:
            continue
        spans = [facts.recording.syncs[number] for number in numbers]
        blocked = sum(span.end - span.start for span in spans)
        method = spans[0].label.strip("_")
        label = f".{method}()" if method == "numpy" else f"{method}(tensor)"  # np.mean(tensor), float(tensor)
        yield facts.finding(
            Disease.HOST_SYNC,
            f"a value is fetched from the device in {percent(len(steps) / max(steady.sum(), 1))} of the steps: {label}",
            f"{len(spans)} fetches, blocked for {duration(blocked)} here; on an accelerator each one waits for the whole step",
            place,
            "keep it a tensor (a keras.metrics.Mean updated in the step) and read it every N steps",
            blocked,
        )


def _eager(facts: Facts) -> Iterator[Finding]:
    """Eager steps: asked for by a switch, or a tape outside of any tf.function."""
    ops = facts.steady_mean(facts.steps.eager_ops)
    gain = facts.steps.eager_ops[facts.steady].sum() * _dispatch_seconds() if ops >= EAGER_OPS_PER_STEP else 0.0
    gain = min(gain, float(facts.steps.seconds[facts.steady].sum()))
    evidence = (
        f"{ops:.0f} single operations from Python in each step of {duration(facts.steady_mean(facts.steps.seconds))}"
    )
    if ops < EAGER_OPS_PER_STEP:
        return
    switches = [span for span in facts.recording.eager_switches if span.start < facts.steps.end[-1]]
    if switches:
        yield facts.finding(
            Disease.EAGER_BY_MISTAKE,
            f"{switches[-1].label}: the step runs op by op from Python",
            evidence,
            switches[-1].place,
            "remove it (or set it to False): the step then runs as one graph",
            gain,
            also=(facts.steps.place,),
        )
        return
    gradients = facts.recording.gradients
    windows = facts.steps.window_of(np.array([span.start for span in gradients]))
    inside = [span for span, window in zip(gradients, windows, strict=True) if window >= 0]
    if len(set(windows[windows >= 0].tolist())) < SYNC_SHARE_OF_STEPS * len(facts.steps):
        return
    place = inside[0].place
    definition = Place(place.file, place.definition_line, place.function) if place.definition_line else place
    yield facts.finding(
        Disease.EAGER_BY_MISTAKE,
        f"the training step ('{place.function}') is not in a tf.function: it runs op by op from Python",
        evidence,
        definition,
        "@tf.function  # above the function that holds the GradientTape",
        gain,
        also=(place, facts.steps.place),
    )


def _dispatch_seconds() -> float:
    """What one eager operation costs here beyond its arithmetic: measured on scalars."""
    import tensorflow as tf

    one = tf.constant(1.0)
    start = time.perf_counter()
    for _ in range(300):
        tf.raw_ops.AddV2(x=one, y=one)
    return (time.perf_counter() - start) / 300


def _cyclic_stalls(facts: Facts) -> Iterator[Finding]:
    """Long steps at a regular distance; time of tracing and compiling is told elsewhere and left out."""
    steps = facts.steps
    ordinary = np.flatnonzero(~steps.is_cold)
    plain = (steps.seconds - steps.trace - steps.compile)[ordinary]
    stalls = find_cyclic_stalls(plain)
    if stalls is None or stalls.share < STALL_SHARE:
        return
    long = ordinary[list(stalls.steps)]
    if steps.is_epoch_start[long].mean() > 0.5 and stalls.share < 0.2:
        return
    part, share = _what_grows(facts, long)
    place, cause, also = _where(facts, long, part)
    if part == "host" and _is_other_work(facts, long):
        return
    what = {"wait": "waiting for data", "device": "inside the step", "host": "in Python"}[part]
    yield facts.finding(
        Disease.CYCLIC_STALL,
        f"every {stalls.period} steps one step takes {duration(stalls.excess_seconds)} longer ({what}{cause})",
        _stall_evidence(stalls, float(np.median(plain)), share, what),
        place,
        "do it less often, or in a thread beside the training; for data: prefetch deeper, smaller shuffle or shards",
        stalls.excess_seconds * len(stalls.steps),
        also=also,
    )


def _stall_evidence(stalls: Stalls, median: float, share: float, what: str) -> str:
    return (
        f"{len(stalls.steps)} stalls, period {stalls.period} steps, +{duration(stalls.excess_seconds)} on a median of "
        f"{duration(median)}, {percent(stalls.share)} of the time; {percent(share)} of it {what}"
    )


def _what_grows(facts: Facts, long: np.ndarray) -> tuple[str, float]:
    """Which part of a step is longer in the stalls than in the others, and its share of the excess."""
    steps = facts.steps
    others = np.setdiff1d(np.flatnonzero(facts.steady), long)
    excess = {
        name: float(np.mean(values[long]) - np.mean(values[others])) if len(others) else float(np.mean(values[long]))
        for name, values in (("wait", steps.wait), ("host", steps.host), ("device", steps.device))
    }
    part = max(excess, key=excess.__getitem__)
    return part, excess[part] / max(sum(max(value, 0.0) for value in excess.values()), 1e-9)


def _where(facts: Facts, long: np.ndarray, part: str) -> tuple[Place, str, tuple[Place, ...]]:
    if part == "wait" and facts.pipelines:
        pipeline = facts.pipelines[0]
        suspects = [stage for stage in pipeline.stages if stage.kind in ("shuffle", "from_generator") or stage.python]
        slowest = pipeline.slowest
        place = suspects[0].place if suspects else slowest.stage.place if slowest is not None else pipeline.place
        return place, "", (pipeline.place,)
    mask = np.zeros(len(facts.steps), bool)
    mask[long] = True
    lines = facts.lines_in(mask, only_host=part == "host")
    usual = dict(facts.lines_in(facts.steady & ~mask, only_host=part == "host"))
    grown = sorted(lines, key=lambda pair: -(pair[1] - usual.get(pair[0], 0.0)))
    if not grown:
        return facts.steps.place, "", ()
    place = grown[0][0]
    return place, f", {place.function}" if place.function != "<module>" else "", (facts.steps.place,)


def _is_other_work(facts: Facts, long: np.ndarray) -> bool:
    """The stalls are an evaluation by Keras: meant, and told by its own name."""
    spans = facts.recording.evaluations
    inside = facts.steps.window_of(np.array([span.start for span in spans]))
    time_inside = sum(
        span.end - span.start for span, window in zip(spans, inside, strict=True) if window in set(long.tolist())
    )
    return time_inside > 0.5 * float(facts.steps.host[long].sum())


def _device_idle(facts: Facts) -> Iterator[Finding]:
    steps, steady = facts.steps, facts.steady
    median_host = float(np.median(steps.host[steady]))
    share = median_host / max(float(np.median(steps.seconds[steady])), 1e-9)
    if (
        share < HOST_SHARE or median_host < LEAST_HOST_SECONDS or facts.generator_share > 0.5
    ):  # that is waiting for input
        return
    lines = facts.lines_in(steady)
    place, seen = lines[0] if lines else (steps.place, 0.0)
    yield facts.finding(
        Disease.DEVICE_IDLE,
        f"Python is busy between the steps for {percent(share)} of the time, and the device has nothing to do",
        f"{duration(median_host)} of {duration(float(np.median(steps.seconds[steady])))} in each step; "
        f"{percent(seen)} of it seen at this line",
        place,
        "move it into tf.data (map + prefetch), into the tf.function, or to every N steps",
        float(steps.host[steady].sum()),
        also=(*(line for line, _ in lines[1:3]), steps.place),
    )
