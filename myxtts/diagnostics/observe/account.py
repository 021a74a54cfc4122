"""Where every second of a run went: a table whose lines sum to the whole wall time.

Each moment belongs to exactly one part. Recorded events claim their time in the order of `_layers`; what no event claims is
Python, named by the line that the sampler saw most.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from myxtts.diagnostics.observe.recording import LineSample, Recording, prompt_samples
from myxtts.diagnostics.observe.source_lines import UNKNOWN, SourceLocation, loops_of
from myxtts.diagnostics.observe.split_steps import StepTable, first_traces, own_time, trace_seconds


class Part(StrEnum):
    """A line of the table; the value is its stable name in JSON."""

    IMPORTS = "imports"
    PREPARATION = "preparation"
    BUILDING = "building"
    TRACING = "tracing"
    COMPILING = "compiling"
    WAITING = "waiting"
    PYTHON = "python"
    GRAPH_PYTHON = "python-in-graph"
    DEVICE = "device"
    RETRACING = "retracing"
    EPOCH_STARTS = "epoch-starts"
    VALIDATION = "validation"
    CALLBACKS = "callbacks"
    CHECKPOINTS = "checkpoints"
    OTHER_FUNCTIONS = "other-functions"
    BETWEEN = "between-steps"
    AFTER = "after"
    DIAGNOSIS = "diagnosis"


TITLES = {
    Part.IMPORTS: "imports",
    Part.PREPARATION: "preparation, before the first step",
    Part.BUILDING: "building the model (Keras)",
    Part.TRACING: "tracing, first time",
    Part.COMPILING: "compiling, first time (XLA)",
    Part.WAITING: "steps: waiting for data",
    Part.PYTHON: "steps: Python",
    Part.GRAPH_PYTHON: "steps: Python inside the graph",
    Part.DEVICE: "steps: device",
    Part.RETRACING: "tracing and compiling again",
    Part.EPOCH_STARTS: "epoch starts",
    Part.VALIDATION: "validation (evaluate, predict)",
    Part.CALLBACKS: "callbacks",
    Part.CHECKPOINTS: "checkpoints",
    Part.OTHER_FUNCTIONS: "other tf.functions",
    Part.BETWEEN: "Python between the steps",
    Part.AFTER: "after the last step",
    Part.DIAGNOSIS: "this diagnosis",
}
ONCE = {
    Part.IMPORTS, Part.PREPARATION, Part.BUILDING, Part.TRACING, Part.COMPILING, Part.AFTER, Part.DIAGNOSIS,
}  # fmt: skip
"""Parts that a longer training does not repeat: they weigh less the longer it runs."""


@dataclass(frozen=True)
class AccountLine:
    """One part of the run."""

    part: Part
    seconds: float
    fraction: float
    """Fraction of the whole run."""
    location: SourceLocation = UNKNOWN
    """The line at which it was spent most, where that is known."""
    typical_seconds: float = 0.0
    """The median epoch times the number of epochs: one hiccup of a busy machine does not count."""


@dataclass(frozen=True)
class Account:
    """The whole run."""

    lines: tuple[AccountLine, ...]
    total_seconds: float
    unaccounted_seconds: float
    """Python outside of the steps that no sample saw at a line of the user's."""
    between: Mapping[tuple[SourceLocation, str], int] = field(default_factory=dict)
    """What the samples of `Part.BETWEEN` saw: line and activity, with their number."""

    def seconds(self, part: Part) -> float:
        """Time of one part."""
        return next((line.seconds for line in self.lines if line.part == part), 0.0)

    def typical_seconds(self, part: Part) -> float:
        """Time of one part if every epoch took as long as the median one; all of it if there are fewer than three."""
        return next((line.typical_seconds for line in self.lines if line.part == part), 0.0)

    def location(self, part: Part) -> SourceLocation:
        """Where a part was spent most."""
        return next((line.location for line in self.lines if line.part == part), UNKNOWN)

    def seconds_between(self, is_chosen: Callable[[SourceLocation, str], bool]) -> float:
        """Python between the steps, at the chosen lines and activities."""
        chosen = sum(count for seen, count in self.between.items() if is_chosen(*seen))
        return self.seconds(Part.BETWEEN) * chosen / max(sum(self.between.values()), 1)

    @property
    def training_seconds(self) -> float:
        """Everything that a longer training repeats."""
        return sum(line.seconds for line in self.lines if line.part not in ONCE)


def account_for(recording: Recording, steps: StepTable | None) -> Account:
    """Divide the run, from the beginning of the observation to its end."""
    begin, end = recording.started_at, max(recording.ended_at, recording.started_at + 1e-9)
    layers = _layers(recording, steps)
    edges, owners = _divide(begin, end, [spans for _, spans in layers])
    widths = np.diff(edges)
    seconds: dict[Part, float] = defaultdict(float)
    for index, (part, _) in enumerate(layers):
        seconds[part] += float(widths[owners == index].sum())
    locations: dict[Part, Counter[int]] = {}
    between: Counter[tuple[SourceLocation, str]] = Counter()
    unaccounted = _divide_python(recording, steps, edges, owners, seconds, locations, between)
    _locate_steps(recording, edges, owners, layers, locations)
    typical = _typical_seconds(steps, edges, owners, layers)
    total = end - begin
    lines = []
    for part in Part:
        if seconds[part] > 0:
            seen = locations.get(part)
            location = recording.lines[seen.most_common(1)[0][0]] if seen else _location_of(part, recording)
            usual = min(typical.get(part, seconds[part]), seconds[part])
            lines.append(AccountLine(part, seconds[part], seconds[part] / total, location, usual))
    return Account(tuple(lines), total, unaccounted, between)


def _layers(recording: Recording, steps: StepTable | None) -> list[tuple[Part, np.ndarray]]:
    """(part, spans as (n, 2)) by priority, first one first."""
    calls = recording.calls
    starts = np.array([call.start for call in calls])
    ends = np.array([call.end for call in calls])
    tracing, compiling = trace_seconds(recording), np.array([call.compile_seconds for call in calls])
    waiting = np.array([call.wait_seconds for call in calls])
    traced = np.minimum(starts + tracing, ends)
    compiled = np.minimum(traced + compiling, ends)
    waited = np.minimum(compiled + waiting, ends)
    window = steps.window_of(starts) if steps is not None else np.full(len(starts), -1)
    in_step = window >= 0
    again, begins_epoch = np.zeros(len(starts), bool), np.zeros(len(starts), bool)
    fetched = np.array([(fetch.start, fetch.end) for fetch in recording.fetches]).reshape(-1, 2)
    fetch_begins_epoch = np.array([fetch.is_first for fetch in recording.fetches], bool)
    step_spans, after_first = np.zeros((0, 2)), np.inf
    evaluated, in_training = _spans(recording.evaluations), evaluations_in_training(recording, steps)
    if steps is not None:
        again[in_step] = ~steps.is_cold[window[in_step]]
        again &= ~first_traces(recording)
        begins_epoch[in_step] = steps.is_epoch_start[window[in_step]]
        step_spans = np.stack([steps.start, steps.end], axis=1)
        after_first = float(steps.start[0])
    builds = [(event.start, event.end) for event in recording.dataset_builds]
    epoch_starts = _spans(recording.epoch_starts)
    operations = np.stack([np.array(recording.operation_starts), np.array(recording.operation_ends)], axis=1)
    return [
        (Part.DIAGNOSIS, own_time(recording)),
        (Part.CHECKPOINTS, _spans(recording.checkpoints)),
        (Part.PREPARATION, evaluated[~in_training & (evaluated[:, 1] <= after_first)]),
        (Part.AFTER, evaluated[~in_training & (evaluated[:, 1] > after_first)]),
        (Part.VALIDATION, evaluated[in_training]),
        (Part.CALLBACKS, _spans(recording.callbacks)),
        (Part.GRAPH_PYTHON, _spans(recording.python_in_graphs)),
        (Part.RETRACING, np.stack([starts, compiled], axis=1)[again]),
        (Part.TRACING, np.stack([starts, traced], axis=1)[~again]),
        (Part.COMPILING, np.stack([traced, compiled], axis=1)[~again]),
        (Part.EPOCH_STARTS, epoch_starts[epoch_starts[:, 1] >= after_first]),
        (Part.EPOCH_STARTS, np.array([span for span in builds if span[0] > after_first]).reshape(-1, 2)),
        (Part.EPOCH_STARTS, np.stack([compiled, waited], axis=1)[begins_epoch]),
        (Part.EPOCH_STARTS, fetched[fetch_begins_epoch]),
        (Part.WAITING, np.stack([compiled, waited], axis=1)[~begins_epoch]),
        (Part.WAITING, fetched[~fetch_begins_epoch]),
        (Part.DEVICE, np.stack([waited, ends], axis=1)[in_step]),
        (Part.OTHER_FUNCTIONS, np.stack([waited, ends], axis=1)[~in_step]),
        (Part.DEVICE, _spans(recording.syncs) if recording.has_accelerator else np.zeros((0, 2))),
        (Part.DEVICE, operations if steps is not None and steps.kind == "eager" else np.zeros((0, 2))),
        (Part.PYTHON, step_spans),
    ]


def evaluations_in_training(recording: Recording, steps: StepTable | None) -> np.ndarray:
    """Mask of the evaluations that a longer training repeats: between its steps, or in a loop of the script that also trains.

    What a script predicts before its first step or after its last one, outside of such a loop, it predicts once.
    """
    if steps is None:
        return np.ones(len(recording.evaluations), bool)
    validations = [event for event in recording.evaluations if event.location in recording.fit_locations]
    ends = max([float(steps.end[-1]), *(event.end for event in (*recording.callbacks, *validations))])
    between = [event.end > steps.start[0] and event.start < ends for event in recording.evaluations]
    outside = {event.location for event, inside in zip(recording.evaluations, between, strict=True) if not inside}
    training = _loops_around(recording, {steps.location, *recording.fit_locations}) if outside else set()
    repeated = {location for location in outside if training & _loops_around(recording, {location})}
    return np.array(
        [inside or event.location in repeated for event, inside in zip(recording.evaluations, between, strict=True)],
        bool,
    )


def _loops_around(recording: Recording, locations: set[SourceLocation]) -> set[tuple[str, range]]:
    """The loops of the user's files around lines, or around the calls that lead there."""
    around = set(locations)
    for sample in recording.line_samples:
        if recording.lines[sample.line] in locations:
            around |= {recording.lines[caller] for caller in sample.callers}
    return {(line.file, loop) for line in around for loop in loops_of(line.file) if line.line in loop}


def _spans(events: list) -> np.ndarray:
    return np.array([(event.start, event.end) for event in events]).reshape(-1, 2)


def _divide(begin: float, end: float, layers: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Edges of intervals from begin to end, and for each interval the first layer that covers it; -1 for none."""
    layers = [np.clip(spans, begin, end) for spans in layers]
    edges = np.unique(np.concatenate([spans.ravel() for spans in layers] + [np.array([begin, end])]))
    owners = np.full(len(edges) - 1, -1)
    for index in reversed(range(len(layers))):
        change = np.zeros(len(edges))
        np.add.at(change, np.searchsorted(edges, layers[index][:, 0]), 1)
        np.add.at(change, np.searchsorted(edges, layers[index][:, 1]), -1)
        owners[np.cumsum(change)[:-1] > 0] = index
    return edges, owners


def _interval_of(edges: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The interval that each sample belongs to: the one that ends where the time of the sample itself begins."""
    return np.clip(np.searchsorted(edges, times, side="left") - 1, 0, len(edges) - 2)


def _divide_python(
    recording: Recording,
    steps: StepTable | None,
    edges: np.ndarray,
    owners: np.ndarray,
    seconds: dict[Part, float],
    locations: dict[Part, Counter],
    between: Counter[tuple[SourceLocation, str]],
) -> float:
    """Divide the time that no event claims by when it was, and by what the samples saw; returns what none of them saw."""
    widths, middles = np.diff(edges), (edges[:-1] + edges[1:]) / 2
    first, last = (float(steps.start[0]), float(steps.end[-1])) if steps is not None else (np.inf, np.inf)
    phases = np.where(middles < first, 0, np.where(middles > last, 2, 1))
    times = np.array([sample.time for sample in recording.line_samples])
    interval = _interval_of(edges, times)
    loops = {iterator.location for iterator in recording.iterators} - set(recording.fit_locations)
    unaccounted = 0.0
    for phase, rest in enumerate((Part.PREPARATION, Part.BETWEEN, Part.AFTER)):
        chosen = (owners < 0) & (phases == phase)
        spent = float(widths[chosen].sum())
        samples = [recording.line_samples[index] for index in np.flatnonzero(chosen[interval])] if len(times) else []
        parts = [_part_of(sample.activity, rest, recording.lines[sample.line] in loops) for sample in samples]
        for sample, part in zip(samples, parts, strict=True):
            each = spent / len(samples)
            seconds[part] += each
            if part == Part.BETWEEN:
                between[recording.lines[sample.line], sample.activity] += 1
            if recording.lines[sample.line] != UNKNOWN:
                locations.setdefault(part, Counter())[sample.line] += 1
            elif part == rest:  # imports and Keras have a name even where no line of the user's is on the stack
                unaccounted += each
        if not samples:
            seconds[rest] += spent
            unaccounted += spent
    return unaccounted


def _typical_seconds(
    steps: StepTable | None, edges: np.ndarray, owners: np.ndarray, layers: list[tuple[Part, np.ndarray]]
) -> dict[Part, float]:
    """For the parts around the steps of each epoch: the median over the epochs, times their number."""
    if steps is None or int(steps.is_epoch_start.sum()) < 3:
        return {}
    starts = steps.start[steps.is_epoch_start]
    widths, middles = np.diff(edges), (edges[:-1] + edges[1:]) / 2
    epoch = np.clip(
        np.searchsorted(starts, middles), 1, len(starts)
    )  # what comes before an epoch's first step is its own
    inside = (middles > float(steps.start[0])) & (middles < float(steps.end[-1]))
    typical = {}
    for part in (Part.EPOCH_STARTS, Part.BETWEEN, Part.CALLBACKS):
        if part == Part.BETWEEN:
            chosen = owners < 0
        else:
            chosen = np.isin(owners, [index for index, (name, _) in enumerate(layers) if name == part])
        sums = np.bincount(epoch[chosen & inside], widths[chosen & inside], minlength=len(starts) + 1)[1:]
        typical[part] = float(np.median(sums)) * len(starts)
    return typical


def _part_of(activity: str, rest: Part, is_loop_over_data: bool) -> Part:
    if activity == "import":
        return Part.IMPORTS
    if rest == Part.BETWEEN and is_loop_over_data:  # next() has its own events: here the old iterator is being closed
        return Part.EPOCH_STARTS
    return Part.BUILDING if activity == "keras" and rest == Part.PREPARATION else rest


def _locate_steps(
    recording: Recording, edges: np.ndarray, owners: np.ndarray, layers: list, locations: dict[Part, Counter]
) -> None:
    """The lines that the samples saw in the parts that events claim."""
    wanted = {index: part for index, (part, _) in enumerate(layers) if part in (Part.PYTHON, Part.CALLBACKS)}
    times = np.array([sample.time for sample in recording.line_samples])
    interval = _interval_of(edges, times)
    seen: dict[Part, list[LineSample]] = defaultdict(list)
    for sample, owner in zip(recording.line_samples, owners[interval].tolist() if len(times) else [], strict=True):
        if owner in wanted and recording.lines[sample.line] != UNKNOWN:
            seen[wanted[owner]].append(sample)
    for part, samples in seen.items():
        locations[part] = Counter(sample.line for sample in prompt_samples(samples))


def _location_of(part: Part, recording: Recording) -> SourceLocation:
    """The line with the most time among the events of a part."""
    events = {
        Part.CHECKPOINTS: recording.checkpoints,
        Part.VALIDATION: recording.evaluations,
        Part.GRAPH_PYTHON: recording.python_in_graphs,
        Part.EPOCH_STARTS: [*recording.epoch_starts, *recording.dataset_builds],
    }.get(part, [])
    spent: dict[SourceLocation, float] = defaultdict(float)
    for event in events:
        spent[event.location] += event.end - event.start
    return max(spent, key=spent.__getitem__) if spent else UNKNOWN
