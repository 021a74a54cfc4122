"""How fast the training could be: its step alone on data that is there already, and its loader alone.

Both are measured after the script has ended, on what it left in memory. Weights are put back. A step or a pipeline that
reaches outside (Python functions, summaries, files) is not run a second time: the script's files and output stay its own.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import Any

from myxtts.diagnostics.observe.recording import Recording
from myxtts.diagnostics.observe.split_steps import StepTable, cut_steps

_SECONDS_EACH = 2.0
_MOST_REPETITIONS = 50
_MOST_STATE_BYTES = 1 << 30
_OUTSIDE = (
    "PyFunc", "EagerPyFunc", "PrintV2", "Print", "WriteFile", "SaveV2", "LogTensor", "Summary", "Assert", "Collective",
)  # fmt: skip


@dataclass(frozen=True)
class Ceiling:
    """Seconds; None with a reason where it was not measured."""

    measured_step_seconds: float
    step_alone_seconds: float | None
    step_reason: str
    loader_alone_seconds: float | None
    loader_reason: str
    batch_shapes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """For people."""
        loader = self.loader_alone_seconds
        alone = self.step_alone_seconds
        lines = [f"a step in this run            {self.measured_step_seconds * 1e3:9.2f} ms"]
        lines.append(
            f"the same step, data at hand   {alone * 1e3:9.2f} ms"
            if alone is not None
            else f"the same step, data at hand   not measured: {self.step_reason}"
        )
        lines.append(
            f"the loader alone, per batch   {loader * 1e3:9.2f} ms"
            if loader is not None
            else f"the loader alone, per batch   not measured: {self.loader_reason}"
        )
        return lines


def measure_ceiling(recording: Recording) -> Ceiling | None:
    """Measure both; None if the recording holds no training."""
    steps = cut_steps(recording)
    if steps is None:
        return None
    import numpy as np

    steady = steps.is_steady
    measured = float(np.median(steps.seconds[steady] if steady.any() else steps.seconds))
    try:
        alone, reason = _measure_step(recording, steps)
        loader, loader_reason, shapes = _measure_loader(recording)
    finally:
        recording.last_step = recording.fit_model = None
        for dataset in recording.datasets:
            dataset.kept = None
    return Ceiling(measured, alone, reason, loader, loader_reason, shapes)


def _measure_step(recording: Recording, steps: StepTable) -> tuple[float | None, str]:
    if steps.kind == "fit":
        return _measure_fit_step(recording)
    if recording.last_step is None:
        return None, "the step is not one tf.function"
    function, args, kwargs = recording.last_step
    concrete = function._list_all_concrete_functions()
    outside = {
        op for one in concrete for op in _ops(one.graph) if op in _OUTSIDE or "Summary" in op or "Iterator" in op
    }
    if outside:
        return None, f"the step reaches outside ({', '.join(sorted(outside))})"
    variables = list({id(variable): variable for one in concrete for variable in one.graph.variables}.values())
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
        return None, "it is traced anew at every call"
    return seconds, ""


def _measure_fit_step(recording: Recording) -> tuple[float | None, str]:
    """The train function of Keras on one batch that is served from memory again and again."""
    import tensorflow as tf

    model = recording.fit_model
    used = [record.dataset for record in recording.iterators if record.is_inside_graph and record.dataset >= 0]
    dataset = recording.datasets[used[-1]] if used else None
    if model is None or model.train_function is None or dataset is None or dataset.kept is None:
        return None, "Keras' dataset or train function could not be kept"
    if any(stage.python for stage in dataset.stages):
        return None, "its data come from Python, which is not run a second time"
    variables = [*model.variables, *(model.optimizer.variables if model.optimizer is not None else [])]
    variables = list({id(variable): variable for variable in [*variables, *model.metrics_variables]}.values())
    before = [tf.identity(variable.value) for variable in variables]
    iterator = iter(dataset.kept.take(1).cache().repeat())
    try:
        return _time_calls(lambda: model.train_function(iterator)), ""
    except (tf.errors.OpError, ValueError, TypeError, StopIteration) as error:
        return None, f"Keras refused it ({type(error).__name__})"
    finally:
        for variable, value in zip(variables, before, strict=True):
            variable.assign(value)


def _measure_loader(recording: Recording) -> tuple[float | None, str, tuple[str, ...]]:
    used = [dataset for dataset in recording.datasets if dataset.kept is not None and dataset.model_elements >= 0]
    elements = {
        dataset.index: sum(record.elements for record in recording.iterators if record.dataset == dataset.index)
        for dataset in used
    }
    used = [dataset for dataset in used if elements[dataset.index] > 0]
    if not used:
        return None, "no tf.data pipeline feeds the steps", ()
    dataset = max(used, key=lambda one: elements[one.index])
    if any(stage.python for stage in dataset.stages):
        return None, "it calls Python, which is not run a second time", ()
    if any(stage.is_on_disk or stage.kind in ("snapshot", "save") for stage in dataset.stages):
        return None, "it writes files", ()
    iterator = iter(dataset.kept)
    first = next(iterator, None)
    if first is None:
        return None, "it is empty", ()
    count, start = 0, time.perf_counter()
    for _ in itertools.islice(iterator, _MOST_REPETITIONS):
        count += 1
        if time.perf_counter() - start > _SECONDS_EACH:
            break
    if count < 2:
        return None, "it has too few batches", ()
    return (time.perf_counter() - start) / count, "", ()


def _time_calls(call: Any) -> float:
    """Median seconds of a call, synchronised, after one that does not count."""
    import numpy as np
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


def _ops(graph: Any) -> set[str]:
    definition = graph.as_graph_def()
    return {node.op for node in itertools.chain(definition.node, *(f.node_def for f in definition.library.function))}
