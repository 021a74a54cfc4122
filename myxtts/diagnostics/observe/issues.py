"""What can be wrong with a training, and how a finding reports it. Each issue has one stable slug, used in reports and JSON."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from myxtts.diagnostics.observe.source_lines import SourceLocation


class Issue(StrEnum):
    """What a finding reports; the value is the stable slug."""

    RETRACE_SHAPE = "retrace-shape"
    """A `tf.function` is traced again because the shape of an argument changed."""
    RETRACE_DTYPE = "retrace-dtype"
    """... because the dtype of an argument changed."""
    RETRACE_PYTHON_VALUE = "retrace-python-value"
    """... because a Python number, string or bool among its arguments changed."""
    RETRACE_NEW_OBJECT = "retrace-new-object"
    """... because a Python object among its arguments is a new one each time."""
    FUNCTION_IN_LOOP = "function-in-loop"
    """A new `tf.function` is made from the same code again and again, and each one is traced."""
    XLA_RECOMPILE = "xla-recompile"
    """XLA compiles the same function again, without any retrace, for every new shape or needed value."""
    MANY_SIGNATURES = "many-signatures"
    """The batches come in many shapes: the cause behind retraces or recompilations, or a cost in waiting."""
    INPUT_BOUND = "input-bound"
    """The step waits for its data."""
    LATE_VARIABLES = "late-variables"
    """Variables are still created after the first steps."""
    HOST_SYNC = "host-sync"
    """A value is fetched from the device in every step (`.numpy()`, `float(tensor)`, `if tensor:`)."""
    NUMPY_FUNCTION = "numpy-function"
    """`tf.numpy_function` runs Python for each element of the input pipeline."""
    PY_FUNCTION = "py-function"
    """`tf.py_function` runs Python and eager TensorFlow for each element of the input pipeline."""
    FROM_GENERATOR = "from-generator"
    """A Python generator feeds the input pipeline."""
    MISSING_PREFETCH = "missing-prefetch"
    """No prefetch: loading and training take turns instead of overlapping."""
    MISSING_PARALLEL_MAP = "missing-parallel-map"
    """A costly map runs on one thread."""
    MISSING_CACHE = "missing-cache"
    """The same costly work is done again in every epoch."""
    CYCLIC_STALL = "cyclic-stall"
    """Every so many steps one step takes much longer."""
    EAGER_BY_MISTAKE = "eager-by-mistake"
    """The training step runs op by op from Python instead of as one graph."""
    SLOW_STAGE = "slow-stage"
    """One stage of the input pipeline costs more than the rest and bounds the loader."""
    DEVICE_IDLE = "device-idle"
    """The host is busy between the steps while the device has nothing to do."""
    PYTHON_IN_STEP = "python-in-step"
    """The compiled step calls Python (`py_function`, `numpy_function`, `tf.print`), and the device waits for it."""
    SLOW_EPOCH_START = "slow-epoch-start"
    """Every epoch begins with a long wait: an iterator is made, a shuffle buffer fills, files are opened."""
    DATASET_IN_LOOP = "dataset-in-loop"
    """The same dataset is built again for every epoch, and its functions are traced again."""
    PREDICT_IN_LOOP = "predict-in-loop"
    """Keras' predict or evaluate is called again and again on one or two batches."""
    SLOW_CALLBACK = "slow-callback"
    """Callbacks of `Model.fit` take a large part of the time."""
    SLOW_CHECKPOINT = "slow-checkpoint"
    """Saving takes a large part of the time."""
    SLOW_VALIDATION = "slow-validation"
    """Validation takes longer than the training that it checks."""
    GROWING_MEMORY = "growing-memory"
    """The script keeps something of every step, and the memory of its process grows until the end."""
    GROWING_GRAPH = "growing-graph"
    """A loop over `Session.run` adds operations to its graph in every step."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: what, how it is known, where, what to write instead, and the most that the fix could gain."""

    issue: Issue
    what: str
    evidence: str
    location: SourceLocation
    fix: str
    """Python code that compiles, with the names of the user's own functions and arguments."""
    gain_seconds: float
    """At most, of the time that was measured."""
    gain_fraction: float
    """The same as a fraction of the training: of everything that a longer training repeats."""
    locations: tuple[SourceLocation, ...] = ()
    """All lines that have this cause, `location` among them."""
    also: tuple[SourceLocation, ...] = ()
    """Other lines that have to do with it."""
    effect: str = ""
    """What it costs other than time; such a finding is never a note."""


def percent(fraction: float) -> str:
    """`43 %`; one decimal below ten."""
    return f"{100 * fraction:.0f} %" if fraction >= 0.1 else f"{100 * fraction:.1f} %"


def duration(seconds: float) -> str:
    """Seconds for people: `1.2 s`, `340 ms`, `85 us`."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} us"
