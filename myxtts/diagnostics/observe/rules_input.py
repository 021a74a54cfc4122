"""Rules about the input pipeline: waiting, Python in the pipeline, what is missing in it, its slowest stage."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from myxtts.diagnostics.observe import fixes
from myxtts.diagnostics.observe.facts import Facts
from myxtts.diagnostics.observe.issues import Finding, Issue, duration, percent
from myxtts.diagnostics.observe.pipeline import DatasetStage, PipelineFacts, StageTime
from myxtts.diagnostics.observe.recording import PyDatasetRecord
from myxtts.diagnostics.observe.source_lines import UNKNOWN, SourceLocation

WAIT_FRACTION = 0.15
"""Waiting for more than this fraction of the time is reported. Chosen on tests/diagnostics/cases, as the fractions below."""
WAIT_FRACTION_OF_A_CAUSE = 0.08
"""A cause in the pipeline is reported from here on."""
LEAST_WAIT_SECONDS = 0.5e-3
"""Per step; below this, waiting is the call itself: `next()` on a prefetched batch takes 0.05 ms of processor time."""
COSTLY_STAGE = 0.3
"""Fraction of the loader's time that makes a stage a costly one."""

_PYTHON = {
    "numpy_function": (
        Issue.NUMPY_FUNCTION,
        "tf.numpy_function found in data pipeline!",
    ),
    "py_function": (Issue.PY_FUNCTION, "tf.py_function found in data pipeline!"),
    "generator": (Issue.FROM_GENERATOR, "a Python generator feeds the pipeline;"),
}


def find_input_problems(facts: Facts) -> Iterator[Finding]:
    """Everything that makes the steps wait for their data."""
    can_be_long = facts.wait_per_step >= LEAST_WAIT_SECONDS and not _is_starved(facts)
    is_waiting = facts.wait_fraction >= WAIT_FRACTION and can_be_long
    may_have_cause = facts.wait_fraction >= WAIT_FRACTION_OF_A_CAUSE and can_be_long
    named: set[str] = set()
    for pipeline in facts.pipelines:
        for finding, label in _causes(facts, pipeline, may_have_cause):
            named.add(label)
            yield finding
    if is_waiting and facts.pipelines:
        pipeline = facts.pipelines[0]
        slowest = pipeline.slowest
        if slowest is not None and slowest.name not in named and slowest.stage.is_users:
            fraction = slowest.seconds_per_batch / max(pipeline.loader_seconds_per_batch, 1e-9)
            if fraction >= 0.4 and slowest.stage.kind not in ("prefetch", "batch"):
                yield _slow_stage(facts, pipeline, slowest, fraction)
    if is_waiting:
        yield _input_bound(facts)
    else:
        yield from _waiting_for_a_generator(facts)


def _is_starved(facts: Facts) -> bool:
    """Other processes keep the cores busy, and the loader would be ahead without them."""
    if not facts.is_busy or not facts.pipelines:
        return False
    pipeline = facts.pipelines[0]
    if not pipeline.has_model or not pipeline.is_prefetching or any(stage.python for stage in pipeline.stages):
        return False
    waits = facts.steps.wait[facts.within_epoch]
    if facts.is_fed_by_keras and np.median(waits) < LEAST_WAIT_SECONDS:  # each batch of arrays is the same work: if it
        return True  # were too slow, most steps would wait, not a few for long
    rest = facts.steady_mean(facts.steps.seconds) - facts.wait_per_step
    work = sum(time.seconds_per_batch for time in pipeline.times if time.stage.kind != "prefetch")  # which only waits
    return work < 0.5 * rest


def find_hidden_waiting(facts: Facts) -> Iterator[Finding]:
    """Waiting inside Keras' graph where TensorFlow's counters cannot be read: the step against the same step with data ready."""
    ceiling = facts.ceiling
    if not facts.recording.counters_missing or facts.steps.kind != "fit" or ceiling is None:
        return
    if ceiling.step_alone_seconds is None or ceiling.loader_alone_seconds is None:
        return
    waited = ceiling.measured_step_seconds - ceiling.step_alone_seconds
    least = max(WAIT_FRACTION * ceiling.measured_step_seconds, LEAST_WAIT_SECONDS)
    if waited < least or ceiling.loader_alone_seconds < 0.5 * waited:
        return
    gain = waited * len(facts.steps)
    yield facts.finding(
        Issue.INPUT_BOUND,
        f"the step waits for its data for about {percent(facts.fraction_of_training(gain))} of the time",
        f"a step takes {duration(ceiling.measured_step_seconds)}, with data ready {duration(ceiling.step_alone_seconds)}; "
        f"the loader alone needs {duration(ceiling.loader_alone_seconds)} per batch",
        _location_of_data(facts),
        _faster_input(facts),
        gain,
    )


def _causes(facts: Facts, pipeline: PipelineFacts, is_waiting: bool) -> Iterator[tuple[Finding, str]]:
    for stage in pipeline.stages:
        seconds = next((time.seconds_per_batch for time in pipeline.times if time.stage is stage), 0.0)
        is_costly = seconds >= 0.1 * max(facts.steady_mean(facts.steps.seconds), 1e-9)
        for kind in stage.python:
            py_dataset = facts.recording.py_dataset
            if (is_waiting or is_costly) and kind == "generator" and not stage.is_users and py_dataset is not None:
                yield _slow_py_dataset(facts, pipeline, py_dataset), stage.label
            elif is_waiting or is_costly:
                issue, what = _PYTHON[kind]
                evidence = f"{stage.label} in the graph of the dataset; {_waiting(facts)}"
                if facts.recording.pipeline_python:
                    each = facts.processor_seconds[0] / max(int(facts.steady.sum()), 1)
                    evidence += f"; its Python takes {duration(each)} of processor time for each step"
                finding = facts.finding(
                    issue,
                    f"{what} Python runs for each element, one at a time (GIL), and nothing is cached",
                    evidence,
                    _python_location(stage, kind),
                    _python_fix(stage, kind),
                    facts.wait_seconds,  # at most: TensorFlow's model does not time what Python does
                    also=(*stage.python_locations, stage.location, stage.function_location, pipeline.location),
                )
                yield finding, stage.label
    if facts.wait_fraction < WAIT_FRACTION or not is_waiting or not any(stage.is_users for stage in pipeline.stages):
        return
    if not pipeline.is_prefetching:
        other = float((facts.steps.device + facts.steps.host)[facts.steady].sum())
        last = next(stage for stage in pipeline.stages if stage.is_users)
        finding = facts.finding(
            Issue.MISSING_PREFETCH,
            "nothing is prefetched: the loader is idle while the step runs, and the step waits while the loader works",
            f"last stage: {last.label}; waiting {duration(facts.wait_per_step)} in each step of "
            f"{duration(facts.steady_mean(facts.steps.seconds))}",
            last.location,
            fixes.of_dataset(fixes.PREFETCH, last.location),
            min(facts.wait_seconds, other),
            also=(pipeline.location,),
        )
        yield finding, "prefetch"
    yield from _stage_problems(facts, pipeline)


def _location_of_data(facts: Facts) -> SourceLocation:
    return facts.pipelines[0].location if facts.pipelines else facts.steps.location


def _faster_input(facts: Facts) -> str:
    """What fits the kind of data that the training is given."""
    if facts.recording.py_dataset is not None:
        return fixes.more_workers(facts.recording.py_dataset.class_name)
    if facts.is_fed_by_keras:
        return fixes.ARRAYS_TO_DATASET
    if not facts.pipelines or not facts.pipelines[0].is_prefetching:
        return fixes.of_dataset(fixes.PREFETCH, _location_of_data(facts))
    slowest = facts.pipelines[0].slowest
    if slowest is not None and slowest.stage.python:
        return _python_fix(slowest.stage, slowest.stage.python[0])
    return fixes.of_dataset(fixes.PREPARE_ONCE, _location_of_data(facts))


def _waiting(facts: Facts) -> str:
    return f"{percent(facts.fraction_of_training(facts.wait_seconds))} of the time waiting"


def _slow_py_dataset(facts: Facts, pipeline: PipelineFacts, data: PyDatasetRecord) -> Finding:
    workers = f"{data.workers} worker{'s' if data.workers != 1 else ''}"
    return facts.finding(
        Issue.FROM_GENERATOR,
        f"{data.class_name}.__getitem__ makes each batch in Python, with {workers}",
        f"{_waiting(facts)}; {duration(facts.wait_per_step)} in each step",
        data.location,
        fixes.more_workers(data.class_name),
        facts.wait_seconds,
        also=(pipeline.location, facts.steps.location),
    )


def _python_fix(stage: DatasetStage, kind: str) -> str:
    return fixes.GENERATOR_TO_DATASET if kind == "generator" else fixes.native_map(stage.function_location.function)


def _python_location(stage: DatasetStage, kind: str) -> SourceLocation:
    """The call of numpy_function itself where it was seen; otherwise the transformation, or its function."""
    if stage.python_locations and kind != "generator":
        return stage.python_locations[0]
    return stage.location if stage.location != UNKNOWN else stage.function_location


def _stage_problems(facts: Facts, pipeline: PipelineFacts) -> Iterator[tuple[Finding, str]]:
    cores = os.cpu_count() or 1
    least = 0.1 * facts.steady_mean(facts.steps.seconds) if pipeline.has_model else 0.0
    for time in (time for time in _costly_maps(pipeline) if time.seconds_per_batch >= least):
        gain = _fraction_of_wait(facts, pipeline, time.seconds_per_batch)
        if not time.runs_parallel and cores > 1:
            finding = facts.finding(
                Issue.MISSING_PARALLEL_MAP,
                f"{time.name} runs on one thread",
                f"{duration(time.seconds_per_batch)} for each batch of {duration(pipeline.loader_seconds_per_batch)}; "
                f"{cores} cores",
                time.stage.location,
                fixes.of_dataset(fixes.PARALLEL_MAP, time.stage.location, time.stage.function_location.function),
                gain * (1 - 1 / cores),
                also=(time.stage.function_location,),
            )
            yield finding, time.name
        if _could_be_cached(facts, pipeline, time):
            epochs = max(pipeline.epochs, 2)
            finding = facts.finding(
                Issue.MISSING_CACHE,
                f"{time.name} does the same work again in every epoch",
                f"{pipeline.epochs} epochs over {pipeline.cardinality if pipeline.cardinality > 0 else 'the same'} elements; "
                f"{duration(time.seconds_per_batch)} for each batch; no random indices in it",
                time.stage.location,
                fixes.of_dataset(fixes.CACHED_MAP, time.stage.location, time.stage.function_location.function),
                gain * (epochs - 1) / epochs,
                also=(time.stage.function_location,),
            )
            yield finding, time.name


def _costly_maps(pipeline: PipelineFacts) -> list[StageTime]:
    """Native maps of the user that cost a good part of the loader's time; without a model, the largest one."""
    maps = [stage for stage in pipeline.stages if stage.kind == "map" and stage.is_users and not stage.python]
    if not pipeline.has_model:
        largest = max(maps, key=lambda stage: stage.ops, default=None)
        return [StageTime(largest, 0.0, largest.is_parallel)] if largest is not None else []
    limit = COSTLY_STAGE * pipeline.loader_seconds_per_batch
    return [time for time in pipeline.times if time.stage in maps and time.seconds_per_batch >= limit]


def _could_be_cached(facts: Facts, pipeline: PipelineFacts, time: StageTime) -> bool:
    stages = list(pipeline.stages)
    later = stages[: stages.index(time.stage)]
    if any(stage.kind == "cache" for stage in later) or time.stage.is_random:
        return False
    inner = stages[stages.index(time.stage) + 1 :]
    if any(stage.python or stage.is_random for stage in inner):
        return False
    if pipeline.epochs < 2 and not pipeline.repeats:
        return False
    fetched = max((step.fetched_bytes for step in facts.recording.fit_steps), default=0)
    size = fetched * max(pipeline.cardinality, 0)
    return size < 0.25 * _memory_bytes()


def _memory_bytes() -> float:
    """Memory of this machine; without a limit where the system does not report it."""
    if not hasattr(os, "sysconf"):
        return float("inf")
    return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")


def _fraction_of_wait(facts: Facts, pipeline: PipelineFacts, seconds: float) -> float:
    """The part of the waiting that a stage can be blamed for: at most all of it."""
    if seconds <= 0 or pipeline.loader_seconds_per_batch <= 0:
        return facts.wait_seconds
    return facts.wait_seconds * min(seconds / pipeline.loader_seconds_per_batch, 1.0)


def _slow_stage(facts: Facts, pipeline: PipelineFacts, slowest: StageTime, fraction: float) -> Finding:
    is_before_batch = any("batch" in stage.kind for stage in pipeline.stages[: pipeline.stages.index(slowest.stage)])
    template = fixes.BATCH_FIRST if slowest.stage.kind == "map" and is_before_batch else fixes.PREPARE_ONCE
    return facts.finding(
        Issue.SLOW_STAGE,
        f"{slowest.name} is {percent(fraction)} of the loader's work, and the step waits for it",
        f"{duration(slowest.seconds_per_batch)} for each batch"
        + (", on several threads already" if slowest.runs_parallel else ", on one thread"),
        slowest.stage.location,
        fixes.of_dataset(template, slowest.stage.location, slowest.stage.function_location.function),
        facts.wait_seconds * fraction,
        also=(slowest.stage.function_location,),
    )


def _waiting_for_a_generator(facts: Facts) -> Iterator[Finding]:
    """A plain Python generator in the loop itself: no dataset, but the step waits for it."""
    waited = facts.generator_fraction * float(facts.steps.host[facts.steady].sum())
    fraction = waited / max(float(facts.steps.seconds[facts.steady].sum()), 1e-9)
    if fraction < WAIT_FRACTION or waited / facts.steady.sum() < LEAST_WAIT_SECONDS:
        return
    consumers = [consumer for _, _, consumer in facts.feeding_samples]
    indices = [index for _, index, _ in facts.feeding_samples]
    busiest = facts.recording.lines[max(set(indices), key=indices.count)]
    yield facts.finding(
        Issue.INPUT_BOUND,
        f"the step waits for a Python generator for {percent(facts.fraction_of_training(waited))} of the time: nothing is "
        "loaded while it runs",
        f"{duration(waited / facts.steady.sum())} of {duration(facts.steady_mean(facts.steps.seconds))} in each step; "
        f"mostly at {busiest}",
        max(set(consumers), key=consumers.count),
        fixes.GENERATOR_TO_DATASET,
        waited,
        also=(busiest,),
    )


def _input_bound(facts: Facts) -> Finding:
    slowest = facts.pipelines[0].slowest if facts.pipelines else None
    evidence = f"{duration(facts.wait_per_step)} of {duration(facts.steady_mean(facts.steps.seconds))} in each step"
    if slowest is not None:
        evidence += f"; slowest stage {slowest.name}, {duration(slowest.seconds_per_batch)} for each batch"
    return facts.finding(
        Issue.INPUT_BOUND,
        f"the step waits for its data for {percent(facts.fraction_of_training(facts.wait_seconds))} of the time",
        evidence,
        _location_of_data(facts),
        _faster_input(facts),
        facts.wait_seconds,
        also=(slowest.stage.location,) if slowest is not None else (),
    )
