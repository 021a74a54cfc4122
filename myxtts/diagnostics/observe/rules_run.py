"""Rules about the whole run: epoch starts, predict in a loop, callbacks, checkpoints, Python inside and between the steps."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np

from myxtts.diagnostics.observe import fixes
from myxtts.diagnostics.observe.account import Part, evaluations_in_training
from myxtts.diagnostics.observe.facts import Facts
from myxtts.diagnostics.observe.issues import Finding, Issue, duration, percent
from myxtts.diagnostics.observe.pipeline import DatasetStage, PipelineFacts
from myxtts.diagnostics.observe.recording import Recording, TimedEvent
from myxtts.diagnostics.observe.rules_compilation import seconds_of_building_again
from myxtts.diagnostics.observe.rules_input import WAIT_FRACTION
from myxtts.diagnostics.observe.source_lines import UNKNOWN, SourceLocation

LARGE_FRACTION = 0.1
"""Smallest fraction of the training for which a part other than the steps is reported. Chosen on tests/diagnostics/cases."""
LARGE_PYTHON_FRACTION = 0.2
"""The same for callbacks and for Python between epochs, which users write on purpose."""
FEWEST_EPOCHS = 3
"""The first one starts once in every training; what happens twice after it is a pattern."""
LEAST_EPOCH_START_SECONDS = 0.1
"""Shortest start of an epoch that is reported, for a pipeline that the user made on an otherwise idle machine."""
FEWEST_TINY_EPOCHS = 20
"""Fewest epochs of one or two batches that are reported: a few of them are a small example, not a loop over epochs instead of
steps."""
FEWEST_PREDICTIONS = 5
MOST_BATCHES_OF_A_PREDICTION = 2
"""`predict` on more batches is an evaluation."""


def find_python_in_step(facts: Facts) -> Iterator[Finding]:
    """Python functions that the compiled step calls, and `tf.print` in it."""
    events = facts.recording.python_in_graphs
    seconds = facts.account.seconds(Part.GRAPH_PYTHON)
    if events and seconds >= 0.01 * facts.total_seconds:
        spent = _by_location(events)
        location = next(iter(spent))
        kinds = " and ".join(f"tf.{kind}" for kind in sorted({event.label for event in events}))
        yield facts.finding(
            Issue.PYTHON_IN_STEP,
            f"the compiled step calls Python ({kinds}) for {percent(facts.fraction_of_training(seconds))} of the time",
            f"{len(events)} calls, {duration(seconds)}; the device waits for each of them",
            location,
            fixes.of_step(fixes.NATIVE_STEP, location.function),
            seconds,
            also=(facts.steps.location,),
            locations=tuple(spent),
        )
    prints = facts.recording.graph_prints
    if prints:
        calls = len(facts.steps)
        each = sum(_print_seconds(label) for label in {event.label for event in prints})
        places = tuple(dict.fromkeys(event.location for event in prints))
        yield facts.finding(
            Issue.PYTHON_IN_STEP,
            "the compiled step prints with tf.print, which runs on the host",
            f"{calls} steps; printing the same tensors to nowhere takes {duration(each)} each here, a terminal takes longer",
            places[0],
            fixes.PRINT_OUTSIDE,
            each * calls,
            locations=places,
        )


def _print_seconds(label: str) -> float:
    """What one `tf.print` of such tensors costs here, measured on zeros and written to no terminal."""
    import time

    import tensorflow as tf

    tensors = []
    for part in label.split("), ") if label else []:
        dtype, _, shape = part.partition(" ")
        sizes = [int(size) for size in shape.strip("()").split(",") if size.strip().isdigit()]
        tensors.append(tf.zeros(sizes, tf.dtypes.as_dtype(dtype)) if dtype != "string" else tf.fill(sizes, ""))
    start = time.perf_counter()
    for _ in range(20):
        tf.print(*tensors, output_stream="file:///dev/null")
    return (time.perf_counter() - start) / 20


def find_slow_epoch_starts(facts: Facts) -> Iterator[Finding]:
    """Time between two epochs until the first batch is there."""
    yield from _iterators_of_one_batch(facts)
    seconds = facts.account.typical_seconds(Part.EPOCH_STARTS)
    starts = np.flatnonzero(facts.steps.is_epoch_start)
    builds = [event for event in facts.recording.dataset_builds if event.start > facts.steps.start[0]]
    again = {location: spent for location, spent in _counts(builds).items() if spent >= FEWEST_EPOCHS}
    large = LARGE_FRACTION * (2 if facts.is_busy else 1)  # busy cores make the start of threads slow
    if seconds < large * facts.total_seconds or len(starts) < FEWEST_EPOCHS:
        return
    is_often = facts.has_tiny_epochs and len(starts) >= FEWEST_TINY_EPOCHS
    is_short = seconds < LEAST_EPOCH_START_SECONDS * len(starts)
    if not again and not is_often and (facts.is_fed_by_keras or is_short or facts.wait_seconds > seconds):
        return  # what Keras needs for arrays is its own; or too short to matter, or every batch is slow
    each = duration(seconds / len(starts))
    evidence = f"{len(starts)} epochs, {each} each, {duration(seconds)} together"
    gain = seconds * (len(starts) - 1) / len(starts)
    if again and sum(event.end - event.start for event in builds) > 0.1 * seconds:
        location = max(again, key=lambda one: _by_location(builds)[one])
        yield facts.finding(
            Issue.DATASET_IN_LOOP,
            "the dataset is built again for every epoch, and its functions are traced again",
            f"{evidence}; {len(builds)} functions of datasets traced after the first step",
            location,
            fixes.of_dataset(fixes.DATASET_ONCE, location),
            gain,
            also=(facts.steps.location,),
            locations=tuple(again),
        )
        return
    pipeline = facts.pipelines[0] if facts.pipelines else None
    shuffle = _costly_shuffle(pipeline) if pipeline is not None else None
    if shuffle is None and facts.wait_fraction >= WAIT_FRACTION:  # every batch is slow: the input is the cause
        return
    location = shuffle.location if shuffle is not None else _users_location(facts)
    yield facts.finding(
        Issue.SLOW_EPOCH_START,
        "an epoch has one or two steps, and every epoch has to be started"
        if is_often
        else "every epoch begins with a long wait for its first batch"
        + (": a shuffle buffer fills" if shuffle is not None else ""),
        evidence,
        location,
        fixes.longer_epochs(location) if is_often else fixes.short_epoch_start(location, shuffle is not None),
        gain,
        also=(pipeline.location if pipeline is not None else UNKNOWN, facts.steps.location),
    )


def _iterators_of_one_batch(facts: Facts) -> Iterator[Finding]:
    """`next(iter(dataset))` in every step: the pipeline starts again for each batch."""
    last = float(facts.steps.end[-1])  # what a script predicts afterwards is not its training
    short = Counter(
        one.location
        for one in facts.recording.iterators
        if one.elements == 1 and one.location != UNKNOWN and one.created_at < last
    )
    location, count = short.most_common(1)[0] if short else (UNKNOWN, 0)
    seconds = facts.account.seconds(Part.EPOCH_STARTS)
    if count < 0.5 * len(facts.steps) or facts.has_tiny_epochs or seconds < LARGE_FRACTION * facts.total_seconds:
        return
    yield facts.finding(
        Issue.SLOW_EPOCH_START,
        "a new iterator is made for every batch: the pipeline starts again, and its buffers fill again",
        f"{count} iterators in {len(facts.steps)} steps, {duration(seconds / count)} each until their batch was there",
        location,
        fixes.of_dataset(fixes.ONE_ITERATOR, location),
        seconds,
        also=(facts.steps.location,),
    )


def _costly_shuffle(pipeline: PipelineFacts) -> DatasetStage | None:
    """A shuffle of the user's that fills its buffer through a map or a generator."""
    for index, stage in enumerate(pipeline.stages):
        if stage.kind == "shuffle" and stage.is_users:
            return stage if any(inner.ops or inner.python for inner in pipeline.stages[index + 1 :]) else None
    return None


def find_predict_in_loop(facts: Facts) -> Iterator[Finding]:
    """`Model.predict` and `evaluate` on a batch or two: most of a call is its own preparation."""
    recording = facts.recording
    events = small_evaluations(recording, evaluations_in_training(recording, facts.steps))
    seconds = sum(event.end - event.start for event in events)
    if not events or seconds < LARGE_FRACTION * facts.total_seconds:
        return
    spent = _by_location(events)
    location = next(iter(spent))
    yield facts.finding(
        Issue.PREDICT_IN_LOOP,
        f"Model.{events[0].label} is called {len(events)} times on one or two batches; most of each call is its preparation",
        f"{duration(seconds / len(events))} each, {duration(seconds)} together, "
        f"{percent(facts.fraction_of_training(seconds))} of the training",
        location,
        fixes.call_the_model(location),
        seconds,
        locations=tuple(spent),
    )


def small_evaluations(recording: Recording, chosen: np.ndarray) -> list[TimedEvent]:
    """Of the chosen evaluations those on a batch or two, at lines that make five or more of them."""
    small = [
        event
        for event, batches, is_chosen in zip(
            recording.evaluations, recording.evaluation_batches, chosen.tolist(), strict=True
        )
        if is_chosen and batches <= MOST_BATCHES_OF_A_PREDICTION and event.location not in recording.fit_locations
    ]
    frequent = {location for location, count in _counts(small).items() if count >= FEWEST_PREDICTIONS}
    return [event for event in small if event.location in frequent]


def find_slow_validation(facts: Facts) -> Iterator[Finding]:
    """The validation of `fit`, where it takes longer than the training."""
    recording = facts.recording
    events = [event for event in recording.evaluations if event.location in recording.fit_locations]
    seconds = sum(event.end - event.start for event in events)
    training = float(facts.steps.seconds[~facts.steps.is_cold].sum())
    if len(events) < FEWEST_EPOCHS or seconds < training or seconds < 0.3 * facts.account.training_seconds:
        return
    location = next(iter(_by_location(events)))
    yield facts.finding(
        Issue.SLOW_VALIDATION,
        f"validation takes {duration(seconds)}, longer than the training that it checks ({duration(training)})",
        f"{len(events)} validations, {duration(seconds / len(events))} each; {len(facts.steps)} steps of training, "
        f"{duration(facts.steady_mean(facts.steps.seconds))} each",
        location,
        fixes.validate_less(location),
        seconds * (len(events) - 1) / len(events),
    )


def find_slow_callbacks(facts: Facts) -> Iterator[Finding]:
    """Callbacks of `Model.fit`, with what they predict and evaluate."""
    inside = _evaluations_in_callbacks(facts)
    evaluating = sum(event.end - event.start for event in inside)
    seconds = facts.account.typical_seconds(Part.CALLBACKS) + evaluating
    if seconds < LARGE_PYTHON_FRACTION * facts.total_seconds or not facts.recording.callbacks:
        return
    by_hook: dict[str, float] = defaultdict(float)
    for event in facts.recording.callbacks:
        by_hook[event.label] += event.end - event.start
    slowest = max(by_hook, key=by_hook.__getitem__)
    location = facts.account.location(Part.CALLBACKS)
    if evaluating > 0.5 * seconds:
        location = next(iter(_by_location(inside)))
    is_per_step = len(facts.recording.callbacks) >= len(facts.steps) and seconds / len(facts.steps) < 1e-3
    if is_per_step or location == UNKNOWN:  # Keras' own bookkeeping around very short steps
        return
    yield facts.finding(
        Issue.SLOW_CALLBACK,
        f"callbacks take {percent(facts.fraction_of_training(seconds))} of the time, most of it in {slowest}",
        f"{duration(seconds)} in {len(facts.recording.callbacks)} calls",
        location,
        fixes.less_often(location),
        seconds,
        also=(facts.steps.location,),
    )


def _evaluations_in_callbacks(facts: Facts) -> list[TimedEvent]:
    """Calls of `predict` and `evaluate` by a callback."""
    callbacks = facts.recording.callbacks
    if not callbacks:
        return []
    starts, ends = (np.array([getattr(event, edge) for event in callbacks]) for edge in ("start", "end"))
    order = np.argsort(starts)
    found = []
    for event in facts.recording.evaluations:
        index = int(np.searchsorted(starts[order], event.start, side="right")) - 1
        if index >= 0 and event.end <= ends[order][index]:
            found.append(event)
    return found


def find_slow_checkpoints(facts: Facts) -> Iterator[Finding]:
    """Checkpoints that take a good part of the time."""
    events = [event for event in facts.recording.checkpoints if event.start < facts.steps.end[-1]]
    seconds = sum(event.end - event.start for event in events)
    if seconds < LARGE_FRACTION * facts.total_seconds or len(events) < FEWEST_EPOCHS:
        return
    spent = _by_location(events)
    location = next(iter(spent))
    yield facts.finding(
        Issue.SLOW_CHECKPOINT,
        f"saving takes {percent(facts.fraction_of_training(seconds))} of the time",
        f"{len(events)} times {events[0].label}, {duration(seconds / len(events))} each, "
        f"every {len(facts.steps) / len(events):.0f} steps",
        location,
        fixes.less_often(location),
        seconds,
        locations=tuple(spent),
    )


def find_python_between_steps(facts: Facts) -> Iterator[Finding]:
    """Python that belongs to no step: between epochs, around `fit`."""
    account, fits = facts.account, set(facts.recording.fit_locations)
    is_built_again = seconds_of_building_again(facts) > 0

    def is_own(line: SourceLocation, activity: str) -> bool:
        """Neither what Keras prepares for `fit` nor models that are built again and again, which is reported as that."""
        return line not in fits and not (is_built_again and activity == "keras")

    lines: Counter[SourceLocation] = Counter()
    for seen, count in account.between.items():
        lines[seen[0]] += count if is_own(*seen) and seen[0] != UNKNOWN else 0
    fraction = account.seconds_between(is_own) / max(account.seconds(Part.BETWEEN), 1e-9)
    seconds = account.typical_seconds(Part.BETWEEN) * fraction
    is_repeated = int(facts.steps.is_epoch_start.sum()) >= FEWEST_EPOCHS
    if seconds < LARGE_PYTHON_FRACTION * facts.total_seconds or not any(lines.values()) or not is_repeated:
        return
    location = lines.most_common(1)[0][0]
    yield facts.finding(
        Issue.DEVICE_IDLE,
        f"Python is busy between the epochs for {percent(facts.fraction_of_training(seconds))} of the time; the device is idle",
        f"{duration(seconds)} of {duration(facts.training_seconds)}, most of it at this line",
        location,
        fixes.less_often(location),
        seconds,
        also=(facts.steps.location,),
    )


def _users_location(facts: Facts) -> SourceLocation:
    """The line that iterates the pipeline, or that calls `fit`."""
    if facts.pipelines and facts.pipelines[0].location != UNKNOWN:
        return facts.pipelines[0].location
    return facts.steps.location


def _by_location(events: list[TimedEvent]) -> dict[SourceLocation, float]:
    """Seconds of each line, most first."""
    spent: dict[SourceLocation, float] = defaultdict(float)
    for event in events:
        spent[event.location] += event.end - event.start
    return dict(sorted(spent.items(), key=lambda pair: -pair[1]))


def _counts(events: list[TimedEvent]) -> Counter[SourceLocation]:
    return Counter(event.location for event in events)
