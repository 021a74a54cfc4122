"""What was seen while a training ran, as plain records; nothing is judged here.

Times are `time.perf_counter()` seconds. Records are kept up to a bound, so that a long training does not fill the memory.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from myxtts.diagnostics.observe.source_lines import SourceLocation
from myxtts.runtime.signatures import Signature

MOST_RECORDS = 500_000


class FunctionCall(NamedTuple):
    """One outermost call of a `tf.function` from Python."""

    function: int
    start: float
    end: float
    new_traces: int
    compilations: int
    compile_seconds: float
    wait_seconds: float
    """Time in which an iterator inside the graph was asked for a batch."""
    fetched_bytes: int
    signature: int
    """Number of the call's signature in `FunctionRecord.signatures`."""


class Fetch(NamedTuple):
    """One `next()` on an iterator of a dataset, from Python."""

    start: float
    end: float
    iterator: int
    signature: int
    """Number of the batch's signature in `Recording.batch_signatures`; -1 at the end of the data."""


class FitStep(NamedTuple):
    """One batch of `Model.fit`: callbacks before, the train function, callbacks after."""

    begin: float
    call_start: float
    call_end: float
    end: float
    compilations: int
    compile_seconds: float
    wait_seconds: float
    fetched_bytes: int
    epoch_start: bool


class TimedEvent(NamedTuple):
    """Something with a location: a fetched value, a created variable, an eager gradient or update."""

    start: float
    end: float
    location: SourceLocation
    label: str


@dataclass
class FunctionRecord:
    """One `tf.function` object."""

    index: int
    name: str
    definition: SourceLocation
    creation: SourceLocation
    created_at: float
    is_jit: bool
    has_signature: bool
    argument_names: tuple[str, ...] = ()
    is_user: bool = True
    """Its code is the user's, not a framework's."""
    updates_variables: bool = False
    signatures: list[Signature] = field(default_factory=list)
    call_locations: list[SourceLocation] = field(default_factory=list)
    """Where it was called from, for calls that traced it, in order."""
    traced_signatures: list[Signature] = field(default_factory=list)
    """Signatures of the calls that traced it, in order."""
    traced_names: list[tuple[str, ...]] = field(default_factory=list)
    _indices: dict[Signature, int] = field(default_factory=dict)

    def index_of(self, signature: Signature) -> int:
        """The index of a signature, a new one if it was not seen before (bounded)."""
        index = self._indices.get(signature)
        if index is None and len(self.signatures) < 10_000:
            index = self._indices[signature] = len(self.signatures)
            self.signatures.append(signature)
        return -1 if index is None else index


@dataclass
class IteratorRecord:
    """One iterator over a dataset."""

    index: int
    dataset: int
    created_at: float
    location: SourceLocation
    elements: int = 0
    is_inside_graph: bool = False
    exhausted: bool = False


@dataclass
class DatasetRecord:
    """A dataset that was iterated: its transformations (outermost first), and TensorFlow's model of it at work."""

    index: int
    stages: tuple[Any, ...]
    location: SourceLocation
    element_spec: Any
    cardinality: int
    reference: weakref.ref | None = None
    kept: Any = None
    """The dataset itself while the diagnosis may need it again."""
    model: Any = None
    model_elements: int = 0


@dataclass
class Recording:
    """Everything seen."""

    started_at: float = 0.0
    ended_at: float = 0.0
    functions: list[FunctionRecord] = field(default_factory=list)
    calls: list[FunctionCall] = field(default_factory=list)
    fetches: list[Fetch] = field(default_factory=list)
    iterators: list[IteratorRecord] = field(default_factory=list)
    datasets: list[DatasetRecord] = field(default_factory=list)
    batch_signatures: list[Signature] = field(default_factory=list)
    fit_steps: list[FitStep] = field(default_factory=list)
    fit_locations: list[SourceLocation] = field(default_factory=list)
    compile_locations: list[SourceLocation] = field(default_factory=list)
    marked_steps: list[tuple[float, float, float, float]] = field(default_factory=list)
    """Steps that the user marked: start, data ready, step done, end."""
    evaluations: list[TimedEvent] = field(default_factory=list)
    """Keras' evaluate and predict."""
    train_on_batch: list[TimedEvent] = field(default_factory=list)
    syncs: list[TimedEvent] = field(default_factory=list)
    variables: list[TimedEvent] = field(default_factory=list)
    gradients: list[TimedEvent] = field(default_factory=list)
    updates: list[TimedEvent] = field(default_factory=list)
    eager_op_times: list[float] = field(default_factory=list)
    eager_switches: list[TimedEvent] = field(default_factory=list)
    """`tf.config.run_functions_eagerly(True)`, `compile(run_eagerly=True)`."""
    python_functions: list[TimedEvent] = field(default_factory=list)
    """Uses of numpy_function and py_function."""
    line_samples: list[tuple[float, int]] = field(default_factory=list)
    generator_samples: list[tuple[float, int, SourceLocation]] = field(default_factory=list)
    """Moments at which the user's own generator was at work for the loop: time, line, where it is iterated."""
    lines: list[SourceLocation] = field(default_factory=list)
    machine_samples: list[Any] = field(default_factory=list)
    no_gpu_reason: str | None = None
    counters_missing: str | None = None
    has_accelerator: bool = False
    """Without one, fetching a value waits for nothing: its time is the host's copying."""
    own_spans: list[tuple[float, float]] = field(default_factory=list)
    """Time that the watching itself took, where it was more than microseconds."""
    last_step: Any = None
    """The newest (function, arguments) of the likely step, for measuring its ceiling; dropped afterwards."""
    fit_model: Any = None

    def add(self, records: list, record: Any) -> None:
        """Keep a record unless there are too many of its kind."""
        if len(records) < MOST_RECORDS:
            records.append(record)
