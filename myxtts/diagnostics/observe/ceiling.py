"""How fast the training could be: its step alone on data that is ready, and its loader alone.

Both are measured after the script has ended, on what it left in memory. Weights are restored. A step or a pipeline that has
effects outside of TensorFlow (Python functions, printing, summaries, files) is not run a second time. Whatever goes wrong here
costs one line of the report, never the report.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from myxtts.diagnostics.observe.pipeline import EFFECTS
from myxtts.diagnostics.observe.recording import Recording
from myxtts.diagnostics.observe.split_steps import StepTable, cut_steps

_SECONDS_EACH = 2.0
_MOST_REPETITIONS = 50
_MOST_STATE_BYTES = 1 << 30
_OUTSIDE = ("PyFunc", "PyFuncStateless", "EagerPyFunc", "Assert", *EFFECTS)
MOST_SECONDS = 60.0
"""Time limit of all measurements together: a loader may wait for its first batch forever."""


@dataclass(frozen=True)
class Ceiling:
    """Seconds; None with a reason where it was not measured."""

    measured_step_seconds: float
    step_alone_seconds: float | None
    step_reason: str
    loader_alone_seconds: float | None
    loader_reason: str


def unmeasured_ceiling(recording: Recording, reason: str) -> Ceiling | None:
    """The ceiling in the report if the measurement does not end; None if the recording holds no training."""
    steps = cut_steps(recording)
    return None if steps is None else Ceiling(_usual_step(steps), None, reason, None, reason)


def _usual_step(steps: StepTable) -> float:
    steady = steps.is_steady
    return float(np.median(steps.seconds[steady] if steady.any() else steps.seconds))


def measure_ceiling(recording: Recording) -> Ceiling | None:
    """Measure both; None if the recording holds no training."""
    steps = cut_steps(recording)
    if steps is None:
        return None
    measured = _usual_step(steps)
    try:
        alone, reason = _guarded(lambda: _measure_step(recording, steps))
        loader, loader_reason = _guarded(lambda: _measure_loader(recording))
    finally:
        recording.drop_objects()
    return Ceiling(measured, alone, reason, loader, loader_reason)


def _guarded(measure: Any) -> tuple[float | None, str]:
    """The measurement, or why it failed: the script's objects may be in any state after its end."""
    try:
        return measure()
    except Exception as error:
        first_line = str(error).split("\n")[0][:100]
        return None, f"it failed after the run ({type(error).__name__}: {first_line})"


def _measure_step(recording: Recording, steps: StepTable) -> tuple[float | None, str]:
    if steps.kind == "fit":
        return _measure_fit_step(recording)
    if recording.last_step is None:
        return None, "the step is not one tf.function"
    function, args, kwargs, variables = recording.last_step
    outside = _effects(function)
    if outside:
        return None, f"the step has effects outside of TensorFlow ({', '.join(outside)})"
    size = sum(variable.dtype.size * (variable.shape.num_elements() or 0) for variable in variables)
    if size > _MOST_STATE_BYTES:
        return None, f"its state of {size / 2**30:.1f} GB is too large to copy"
    before = [variable.read_value() for variable in variables]
    traces = function.experimental_get_tracing_count()
    try:
        seconds = _time_calls(lambda: function(*args, **kwargs))
    finally:
        for variable, value in zip(variables, before, strict=True):
            variable.assign(value)
    if function.experimental_get_tracing_count() != traces:
        return None, "it is traced again at every call"
    return seconds, ""


def _measure_fit_step(recording: Recording) -> tuple[float | None, str]:
    import tensorflow as tf

    model = recording.fit_model
    used = [dataset for dataset in recording.datasets if dataset.kept is not None]
    inside = {record.dataset for record in recording.iterators if record.is_inside_graph}
    dataset = next((dataset for dataset in reversed(used) if dataset.index in inside), None)
    train_function = getattr(model, "train_function", None)
    if train_function is None or dataset is None:
        return None, "Keras' dataset or train function could not be kept"
    if recording.fit_function is None:
        return None, "the train function runs eagerly"
    outside = _effects(recording.fit_function, allowed=("Iterator",))
    if outside:
        return None, f"the step has effects outside of TensorFlow ({', '.join(outside)})"
    if any(stage.python for stage in dataset.stages):
        return None, "its data come from Python, which is not run a second time"
    variables = [*model.variables, *(model.optimizer.variables if model.optimizer is not None else [])]
    variables += model.metrics_variables if hasattr(model, "metrics_variables") else []
    variables = list({id(variable): variable for variable in variables}.values())
    before = [tf.identity(tf.convert_to_tensor(variable)) for variable in variables]
    iterator = iter(dataset.kept.take(1).cache().repeat())
    try:
        return _time_calls(lambda: train_function(iterator)), ""
    finally:
        for variable, value in zip(variables, before, strict=True):
            variable.assign(value)


def _measure_loader(recording: Recording) -> tuple[float | None, str]:
    used = [dataset for dataset in recording.datasets if dataset.kept is not None and dataset.model_elements >= 0]
    elements = {
        dataset.index: sum(record.elements for record in recording.iterators if record.dataset == dataset.index)
        for dataset in used
    }
    used = [dataset for dataset in used if elements[dataset.index] > 0]
    if not used:
        return None, "no tf.data pipeline feeds the steps"
    dataset = max(used, key=lambda one: elements[one.index])
    if any(stage.python for stage in dataset.stages):
        return None, "it calls Python, which is not run a second time"
    if any(stage.is_on_disk or stage.kind in ("snapshot", "save") for stage in dataset.stages):
        return None, "it writes files"
    effects = sorted({effect for stage in dataset.stages for effect in stage.effects})
    if effects:
        return None, f"it has effects outside of TensorFlow ({', '.join(effects)})"
    iterator = iter(dataset.kept)
    first = next(iterator, None)
    if first is None:
        return None, "it is empty"
    count, start = 0, time.perf_counter()
    for _ in itertools.islice(iterator, _MOST_REPETITIONS):
        count += 1
        if time.perf_counter() - start > _SECONDS_EACH:
            break
    if count < 2:
        return None, "it has too few batches"
    return (time.perf_counter() - start) / count, ""


def _effects(function: Any, allowed: tuple[str, ...] = ()) -> list[str]:
    """The operations of a traced function that must not run a second time."""
    found = set()
    for concrete in function._list_all_concrete_functions():
        definition = concrete.graph.as_graph_def()
        nodes = itertools.chain(definition.node, *(inner.node_def for inner in definition.library.function))
        found |= {node.op for node in nodes}
    reads = {op for op in found if "Iterator" in op and not any(name in op for name in allowed)}
    return sorted({op for op in found if op in _OUTSIDE or "Summary" in op} | reads)


def _time_calls(call: Any) -> float:
    """Median seconds of a call, synchronized, after one that does not count."""
    import tensorflow as tf

    def timed() -> float:
        start = time.perf_counter()
        result = call()
        for tensor in tf.nest.flatten(result)[:1]:
            if hasattr(tensor, "numpy"):
                tensor.numpy()
        return time.perf_counter() - start

    timed()
    times, deadline = [], time.perf_counter() + _SECONDS_EACH
    while len(times) < _MOST_REPETITIONS and (len(times) < 3 or time.perf_counter() < deadline):
        times.append(timed())
    return float(np.median(times))
