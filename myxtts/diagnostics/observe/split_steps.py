"""Divides a recording into steps, and each step into waiting for data, host, device, tracing and compiling.

A step ends where the training ends one: a batch of `Model.fit`, a call of the function that updates the variables, an eager
update, or a mark set by the user. What lies between two epochs belongs to no step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from myxtts.diagnostics.observe.recording import FunctionCall, FunctionRecord, Recording
from myxtts.diagnostics.observe.source_lines import UNKNOWN, SourceLocation
from myxtts.runtime.timers import MAD_TO_STD

FEWEST_STEPS = 3
"""With fewer, the first step, which compiles, decides the median."""
COLD_STEPS_AT_MOST = 3
"""Tracing and compiling in these belongs to the start; in later ones it is looked into."""


@dataclass(frozen=True)
class StepTable:
    """One entry per step; seconds."""

    kind: str
    """fit | train_on_batch | function | eager | marked | batches"""
    location: SourceLocation
    """Where the loop calls its step."""
    name: str
    start: np.ndarray
    end: np.ndarray
    wait: np.ndarray
    device: np.ndarray
    trace: np.ndarray
    compile: np.ndarray
    graph_python: np.ndarray
    """Python functions that the compiled step calls: the device waits for them."""
    own: np.ndarray
    """Time of the diagnosis itself; in none of the others."""
    is_cold: np.ndarray
    is_epoch_start: np.ndarray
    eager_ops: np.ndarray
    batch: np.ndarray
    """Index of the batch's signature; -1 where it is unknown."""

    def __len__(self) -> int:
        return len(self.start)

    @property
    def seconds(self) -> np.ndarray:
        """Whole duration of each step."""
        return np.maximum(self.end - self.start - self.own, 0.0)

    @property
    def host(self) -> np.ndarray:
        """What is left: Python between the calls, single operations, callbacks."""
        others = self.wait + self.device + self.trace + self.compile + self.graph_python
        return np.maximum(self.seconds - others, 0.0)

    @property
    def is_steady(self) -> np.ndarray:
        """Neither cold nor traced nor compiled in."""
        return ~self.is_cold & (self.trace == 0) & (self.compile == 0)

    def window_of(self, times: np.ndarray) -> np.ndarray:
        """Index of the step in which each moment lies; -1 outside of all."""
        if len(self) == 0:
            return np.full(len(times), -1)
        index = np.searchsorted(self.start, times, side="right") - 1
        inside = (index >= 0) & (times <= self.end[np.maximum(index, 0)])
        return np.where(inside, index, -1)


def cut_steps(recording: Recording) -> StepTable | None:
    """The steps of a recording; None if nothing in it repeats often enough to be a training."""
    delimiters = _delimiters(recording)
    if delimiters is None:
        return None
    kind, name, location, windows = delimiters
    start, end = np.array([window[0] for window in windows]), np.array([window[1] for window in windows])
    epoch_starts = np.array([window[2] for window in windows], bool)
    empty = np.zeros(len(start))
    table = StepTable(
        kind, location, name, start, end, *(empty.copy() for _ in range(6)),
        is_cold=np.zeros(len(start), bool), is_epoch_start=epoch_starts, eager_ops=empty.copy(),
        batch=np.full(len(start), -1),
    )  # fmt: skip
    _fill(table, recording)
    warming = (table.trace + table.compile > 0) | (np.arange(len(table)) == 0)
    table.is_cold[:COLD_STEPS_AT_MOST] = warming[:COLD_STEPS_AT_MOST]
    return table


def _fill(table: StepTable, recording: Recording) -> None:
    excess = trace_seconds(recording)
    calls = recording.calls
    index = table.window_of(np.array([call.start for call in calls]))
    in_graph_wait = np.array([call.wait_seconds for call in calls])
    compiling = np.array([call.compile_seconds for call in calls])
    whole = np.array([call.end - call.start for call in calls])
    _add(table.trace, index, excess)
    _add(table.compile, index, compiling)
    _add(table.wait, index, in_graph_wait)
    _add(table.device, index, np.maximum(whole - in_graph_wait - compiling - excess, 0.0))
    inside = recording.python_in_graphs
    step_of = table.window_of(np.array([event.start for event in inside]))
    _add(table.graph_python, step_of, np.array([event.end - event.start for event in inside]))
    np.minimum(table.graph_python, table.device, out=table.graph_python)  # parallel calls overlap
    table.device[:] -= table.graph_python
    if table.kind != "fit":
        _set(table.batch, index, np.array([call.signature for call in calls]))
    fetches = recording.fetches
    index = table.window_of(np.array([fetch.start for fetch in fetches]))
    _add(table.wait, index, np.array([fetch.end - fetch.start for fetch in fetches]))
    _set(table.batch, index, np.array([fetch.signature for fetch in fetches]))
    if recording.has_accelerator:
        index = table.window_of(np.array([span.start for span in recording.syncs]))
        _add(table.device, index, np.array([span.end - span.start for span in recording.syncs]))
    own = own_time(recording)
    index = table.window_of(own[:, 0])
    _add(table.own, index, np.maximum(np.minimum(own[:, 1], table.end[index]) - own[:, 0], 0.0))
    starts = np.array(recording.operation_starts)
    index = table.window_of(starts)
    _add(table.eager_ops, index, np.ones(len(index)))
    if table.kind == "eager":
        _add(table.device, index, np.array(recording.operation_ends) - starts)
    if table.kind == "fit" and not fetches:
        indices: dict[int, int] = {}
        for step, record in enumerate(recording.fit_steps[: len(table)]):
            table.batch[step] = indices.setdefault(record.fetched_bytes, len(indices))


def _add(target: np.ndarray, index: np.ndarray, amounts: np.ndarray) -> None:
    inside = index >= 0
    np.add.at(target, index[inside], amounts[inside])


def _set(target: np.ndarray, index: np.ndarray, values: np.ndarray) -> None:
    inside = (index >= 0) & (values >= 0) if len(values) else np.zeros(0, bool)
    target[index[inside]] = values[inside]


def own_time(recording: Recording, with_samples: bool = True) -> np.ndarray:
    """Spans (n, 2) without overlap in which the observation held up the training thread.

    These are the hooks, and samples that were taken while the thread ran Python: only one thread at a time does. While it is in
    a call of TensorFlow, a sample takes none of its time.
    """
    ends = np.array(recording.operation_ends)
    operations = np.stack([np.array(recording.operation_starts), ends], axis=1)
    samples = np.array(recording.sampler_spans).reshape(-1, 2)
    samples = samples[~is_inside(watched_calls(recording) + recording.own_spans, samples[:, 0])]
    samples = samples[~is_inside(operations, samples[:, 0])]
    hooks = [
        np.array(recording.own_spans).reshape(-1, 2),
        np.stack([ends, ends + recording.operation_hook_seconds], axis=1),
    ]
    spans = np.concatenate([*hooks, samples] if with_samples else hooks)
    spans = spans[np.argsort(spans[:, 0], kind="stable")]
    reached = np.maximum.accumulate(np.concatenate([[-np.inf], spans[:, 1]]))[:-1]
    starts = np.maximum(spans[:, 0], reached)
    return np.stack([starts, np.maximum(spans[:, 1], starts)], axis=1)


def watched_calls(recording: Recording) -> list[tuple[float, float]]:
    """Calls of functions, and fetches of batches and values from a device: the training thread is in TensorFlow."""
    spans = [(call.start, call.end) for call in recording.calls]
    spans += [(fetch.start, fetch.end) for fetch in recording.fetches]
    if recording.has_accelerator:
        spans += [(span.start, span.end) for span in recording.syncs]
    return spans


def is_inside(spans: Sequence[tuple[float, float]] | np.ndarray, times: np.ndarray) -> np.ndarray:
    """Whether each moment lies in one of the spans."""
    if not len(spans):
        return np.zeros(len(times), bool)
    ordered = np.array(spans)
    ordered = ordered[np.argsort(ordered[:, 0], kind="stable")]
    index = np.searchsorted(ordered[:, 0], times, side="right") - 1
    return (index >= 0) & (times <= np.maximum.accumulate(ordered[:, 1])[np.maximum(index, 0)])


def trace_seconds(recording: Recording) -> np.ndarray:
    """For each call the time spent tracing: what it took beyond an ordinary call of the same code and its compilation."""
    usual: dict[tuple, float] = {}
    by_code: dict[tuple, list[float]] = {}
    for call in recording.calls:
        if call.new_traces == 0 and call.compilations == 0:
            by_code.setdefault(_code(recording, call), []).append(call.end - call.start)
    for code, durations in by_code.items():
        usual[code] = float(np.median(durations))
    seconds = np.zeros(len(recording.calls))
    for index, call in enumerate(recording.calls):
        if call.new_traces:
            ordinary = usual.get(_code(recording, call), 0.0)
            seconds[index] = max(call.end - call.start - call.compile_seconds - call.wait_seconds - ordinary, 0.0)
    return seconds


def first_traces(recording: Recording) -> np.ndarray:
    """For each call whether it is the one that traced its code for the first time."""
    seen: set[tuple] = set()
    is_first = np.zeros(len(recording.calls), bool)
    for index, call in enumerate(recording.calls):
        origin = origin_of(recording.functions[call.function])
        if call.new_traces and origin not in seen:
            seen.add(origin)
            is_first[index] = True
    return is_first


def origin_of(record: FunctionRecord) -> tuple:
    """What a function is made of. Keras makes the train and test functions of every model from the same code, so that the line
    that made them counts as well: only the same line again is a loop."""
    code = (record.definition.file, record.definition.line, record.name)
    return code if record.is_user else (*code, record.creation, record.is_evaluation)


def _code(recording: Recording, call: FunctionCall) -> tuple:
    record = recording.functions[call.function]
    return record.definition.file, record.definition.line, record.name


def _delimiters(recording: Recording) -> tuple[str, str, SourceLocation, list[tuple[float, float, bool]]] | None:
    if len(recording.marked_steps) >= FEWEST_STEPS:
        windows = [(start, end, False) for start, end in recording.marked_steps]
        return "marked", "step", UNKNOWN, windows
    if len(recording.fit_steps) >= FEWEST_STEPS:
        windows = [(step.begin, step.end, step.epoch_start) for step in recording.fit_steps]
        location = recording.fit_locations[0] if recording.fit_locations else UNKNOWN
        return "fit", "Model.fit", location, windows
    if len(recording.train_on_batch) >= FEWEST_STEPS:
        spans = recording.train_on_batch
        windows = _between([(span.start, span.end) for span in spans], recording)
        return "train_on_batch", "train_on_batch", spans[0].location, windows
    calls = _step_calls(recording)
    eager = recording.updates or recording.gradients  # a hand-written update is seen by its gradient
    if len(eager) >= max(FEWEST_STEPS, len(calls)):
        locations = [span.location for span in eager]
        most = max(set(locations), key=locations.count)
        ends = [(span.start, span.end) for span in eager if span.location == most]
        return "eager", eager[0].label, most, _between(ends, recording)
    if len(calls) >= FEWEST_STEPS:
        record = recording.functions[calls[0].function]
        location = record.call_locations[0] if record.call_locations else record.definition
        return "function", record.name, location, _between([(call.start, call.end) for call in calls], recording)
    fetched = [(fetch.start, fetch.end) for fetch in recording.fetches if fetch.signature >= 0]
    if len(fetched) >= FEWEST_STEPS:
        return (
            "batches",
            "next(batch)",
            recording.iterators[recording.fetches[0].iterator].location,
            _after(fetched, recording),
        )
    return None


def _step_calls(recording: Recording) -> list[FunctionCall]:
    """Calls of the code that is most likely the training step: it updates variables, and takes the most time."""
    time_of: dict[tuple, float] = {}
    calls_of: dict[tuple, list[FunctionCall]] = {}
    updating: set[tuple] = set()
    for call in recording.calls:
        code = _code(recording, call)
        time_of[code] = time_of.get(code, 0.0) + call.end - call.start
        calls_of.setdefault(code, []).append(call)
        if recording.functions[call.function].updates_variables:
            updating.add(code)
    repeated = [code for code, calls in calls_of.items() if len(calls) >= FEWEST_STEPS]
    candidates = [code for code in repeated if code in updating] or repeated
    return calls_of[max(candidates, key=time_of.__getitem__)] if candidates else []


def _between(spans: list[tuple[float, float]], recording: Recording) -> list[tuple[float, float, bool]]:
    """A step lasts from the end of the one before to its own end; in a new epoch, from the creation of its iterator."""
    iterators = np.array([iterator.created_at for iterator in recording.iterators])
    newest = np.searchsorted(iterators, [start for start, _ in spans], side="right") - 1
    begins_epoch = (np.diff(newest, prepend=-2) > 0) & ~_continues(spans, recording)
    if begins_epoch.mean() > 0.5:  # a new iterator in most steps is part of the step, not the start of an epoch
        begins_epoch[:] = False
    windows, previous = [], None
    for index, (start, end) in enumerate(spans):
        begin, is_first = (start, True) if previous is None else (previous, False)
        if begins_epoch[index] and newest[index] >= 0:
            begin, is_first = max(float(iterators[newest[index]]), previous or 0.0), True
        windows.append((min(begin, start), end, is_first))
        previous = end
    return windows


def _continues(spans: list[tuple[float, float]], recording: Recording) -> np.ndarray:
    """Whether each step took its batch from the iterator of the step before: a newer one is that of a validation."""
    fetches = [fetch for fetch in recording.fetches if fetch.signature >= 0]
    if not fetches:
        return np.zeros(len(spans), bool)
    times, iterators = np.array([fetch.start for fetch in fetches]), np.array([fetch.iterator for fetch in fetches])
    starts, ends = np.array(spans).T
    last = np.searchsorted(times, starts, side="right") - 1
    is_same = (np.diff(iterators[np.maximum(last, 0)], prepend=-2) == 0) & (last >= 0)
    return is_same & (times[np.maximum(last, 0)] >= np.concatenate([[np.inf], ends[:-1]]))


def _after(spans: list[tuple[float, float]], recording: Recording) -> list[tuple[float, float, bool]]:
    """A step lasts from the start of one fetch to the start of the next."""
    starts = [start for start, _ in spans] + [max(spans[-1][1], recording.ended_at)]
    return [(starts[index], starts[index + 1], index == 0) for index in range(len(spans))]


SLOWER_THAN_MEDIAN = 1.6
"""Multiple of the median from which a step is long, if it is also six robust deviations above it. Chosen on the cases."""
STEPS_AROUND = 31
"""Steps that one is compared with."""
FEWEST_STALLS = 4
"""Three equal distances: two occur by chance."""
REGULAR_FRACTION = 0.7
"""Smallest fraction of the long steps that must have the same phase."""
COMPLETE_FRACTION = 0.6
"""Smallest fraction of the steps at which a stall is due that must be long."""
MOST_CHANCE = 3e-4
"""Probability that stalls at random steps have such a rhythm. In 4,000 simulated runs each of 40, 200 and 1,000 steps, of which
3 or 10 % are long at random, it raises at most 2 false alarms; with 1e-2 up to 40."""


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
    usual = local_medians(seconds)
    ratios = seconds / np.maximum(usual, 1e-9)
    spread = MAD_TO_STD * float(np.median(np.abs(ratios - 1)))
    long = np.flatnonzero(ratios > max(SLOWER_THAN_MEDIAN, 1 + 6 * spread))
    if len(long) > len(seconds) // 2:
        return None
    for candidates in _by_size(long, seconds):
        period = _period(candidates, len(seconds))
        if period is not None:
            excess = (seconds - usual)[candidates]
            return Stalls(
                steps=tuple(candidates.tolist()),
                period=period,
                excess_seconds=float(np.median(excess)),
                fraction=float(excess.sum() / seconds.sum()),
            )
    return None


def local_medians(seconds: np.ndarray) -> np.ndarray:
    """For each step the median of those around it: other processes may slow down a part of the run, by any factor."""
    if len(seconds) <= STEPS_AROUND:
        return np.full(len(seconds), float(np.median(seconds)))
    middles = np.median(np.lib.stride_tricks.sliding_window_view(seconds, STEPS_AROUND), axis=1)
    before = STEPS_AROUND // 2
    return np.pad(middles, (before, len(seconds) - len(middles) - before), mode="edge")


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
