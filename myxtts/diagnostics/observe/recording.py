"""What was seen while a training ran, as plain records; nothing is judged here.

Times are `time.perf_counter()` seconds. Records are kept up to a bound, so that a long training does not fill the memory.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from myxtts.diagnostics.observe.source_lines import UNKNOWN, SourceLocation
from myxtts.runtime.signatures import Signature

MOST_RECORDS = 500_000
MOST_OPERATIONS = 5_000_000
"""Single operations are two numbers each."""


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
    signature: int
    """Index of the call's signature in `FunctionRecord.signatures`."""


class Fetch(NamedTuple):
    """One `next()` on an iterator of a dataset, from Python."""

    start: float
    end: float
    iterator: int
    signature: int
    """Index of the batch's signature in `Recording.batch_signatures`; -1 at the end of the data."""
    is_first: bool
    """The first one of its iterator: the pipeline starts, and shuffle buffers fill."""


class FitStep(NamedTuple):
    """One batch of `Model.fit`: callbacks before, the train function, callbacks after."""

    begin: float
    end: float
    fetched_bytes: int
    epoch_start: bool


class TimedEvent(NamedTuple):
    """Something at a line: a fetched value, a created variable, an eager gradient or update, a saved checkpoint."""

    start: float
    end: float
    location: SourceLocation
    label: str


class LineSample(NamedTuple):
    """Where the training thread was at one moment."""

    time: float
    line: int
    """Index in `Recording.lines`."""
    activity: str
    """import | keras | next | python: what the innermost frames did for that line; `next` is an iterator of TensorFlow's."""
    callers: tuple[int, ...] = ()
    """The user's lines that were waiting for this one, nearest first; indices in `Recording.lines`."""
    is_prompt: bool = True
    """It came when it was due: see `sampler.is_prompt`."""


class KeptEntries(NamedTuple):
    """A container of the script that became longer with the steps, between two counts."""

    container: str
    """Its type."""
    entries: int
    steps: int
    entry_bytes: float
    """What the new entries take."""
    grown_bytes: int
    """By which the memory of the process grew meanwhile."""
    location: SourceLocation = UNKNOWN
    """The line that makes it longer."""


@dataclass
class GraphGrowth:
    """The graph of a `tf.compat.v1.Session`, and what was added to it after its first runs."""

    operations: int
    runs: int = 0
    growing_runs: int = 0
    """Runs before which operations had been added."""
    added: int = 0
    lines: dict[SourceLocation, int] = field(default_factory=dict)
    """Where the newest operation was made, with the number of runs."""


class PipelineCall(NamedTuple):
    """One call of a Python function that a dataset makes, in one of TensorFlow's threads."""

    start: float
    processor_seconds: float
    """Processor time of its thread, in which the time of other processes does not count."""


FEWEST_PROMPT_SAMPLES = 5
"""With fewer, one sample more or less changes which line is named."""


def prompt_samples(samples: list[LineSample]) -> list[LineSample]:
    """The samples that came when they were due; all of them where hardly any did, as on a machine without a free core."""
    prompt = [sample for sample in samples if sample.is_prompt]
    return prompt if len(prompt) >= FEWEST_PROMPT_SAMPLES else samples


class PyDatasetRecord(NamedTuple):
    """Data for Keras from a class with `__getitem__`."""

    class_name: str
    location: SourceLocation
    """Where `__getitem__` is defined."""
    workers: int


@dataclass
class FunctionRecord:
    """One `tf.function` object."""

    index: int
    name: str
    definition: SourceLocation
    creation: SourceLocation
    created_at: float
    is_jit: bool
    argument_names: tuple[str, ...] = ()
    is_user: bool = True
    """Its code is the user's, not a framework's."""
    updates_variables: bool = False
    is_evaluation: bool = False
    """Keras evaluates or predicts with it."""
    signatures: list[Signature] = field(default_factory=list)
    call_locations: list[SourceLocation] = field(default_factory=list)
    """Where it was called from, for calls that traced it, in order."""
    traced_signatures: list[Signature] = field(default_factory=list)
    """Signatures of the calls that traced it, in order."""
    traced_names: list[tuple[str, ...]] = field(default_factory=list)
    _indices: dict[Signature, int] = field(default_factory=dict)

    def index_of(self, signature: Signature) -> int:
        """The index of a signature, a new one if it was not seen before; -1 if there are too many."""
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


@dataclass
class DatasetRecord:
    """A dataset that was iterated: its transformations (outermost first), and TensorFlow's model of it at work."""

    index: int
    stages: tuple[Any, ...]
    location: SourceLocation
    cardinality: int
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
    py_dataset: PyDatasetRecord | None = None
    """The PyDataset (or Sequence) that the newest `fit` was given."""
    compile_locations: list[SourceLocation] = field(default_factory=list)
    marked_steps: list[tuple[float, float]] = field(default_factory=list)
    """Steps that the user marked: start and end."""
    evaluations: list[TimedEvent] = field(default_factory=list)
    """Keras' evaluate and predict."""
    evaluation_batches: list[int] = field(default_factory=list)
    """Batches of each evaluation."""
    checkpoints: list[TimedEvent] = field(default_factory=list)
    callbacks: list[TimedEvent] = field(default_factory=list)
    """Keras' calls of all callbacks: the label is the hook, `on_epoch_end`."""
    epoch_starts: list[TimedEvent] = field(default_factory=list)
    """Iterators created, Keras preparing an epoch."""
    dataset_builds: list[TimedEvent] = field(default_factory=list)
    """Functions of datasets that were traced: the label is the transformation."""
    train_on_batch: list[TimedEvent] = field(default_factory=list)
    syncs: list[TimedEvent] = field(default_factory=list)
    variables: list[TimedEvent] = field(default_factory=list)
    gradients: list[TimedEvent] = field(default_factory=list)
    updates: list[TimedEvent] = field(default_factory=list)
    operation_starts: array = field(default_factory=lambda: array("d"))
    operation_ends: array = field(default_factory=lambda: array("d"))
    """Single operations executed from Python."""
    eager_switches: list[TimedEvent] = field(default_factory=list)
    """`tf.config.run_functions_eagerly(True)`, `compile(run_eagerly=True)`."""
    python_functions: list[TimedEvent] = field(default_factory=list)
    """Uses of numpy_function and py_function, where they were made."""
    python_in_graphs: list[TimedEvent] = field(default_factory=list)
    """Calls of the user's Python from inside a traced function that is no part of a dataset."""
    pipeline_python: list[PipelineCall] = field(default_factory=list)
    """Calls of Python from inside a dataset: generators, `numpy_function`, `py_function`."""
    processor_samples: list[tuple[float, float]] = field(default_factory=list)
    """Time, and the processor time of the whole process until then."""
    graph_prints: list[TimedEvent] = field(default_factory=list)
    """Uses of `tf.print` in traced functions, where they were made; the label is `dtype shape` of what is printed."""
    line_samples: list[LineSample] = field(default_factory=list)
    generator_samples: list[tuple[float, int, SourceLocation]] = field(default_factory=list)
    """Moments at which the user's own generator was at work for the loop: time, line, where it is iterated."""
    lines: list[SourceLocation] = field(default_factory=list)
    memory_samples: list[tuple[int, int]] = field(default_factory=list)
    """Step, and the resident bytes of the process at its end."""
    kept_entries: KeptEntries | None = None
    graphs: list[GraphGrowth] = field(default_factory=list)
    """Graphs of sessions (`tf.compat.v1`)."""
    machine_samples: list[Any] = field(default_factory=list)
    machine_load: Any = None
    """`MachineLoad` of the observed time; None before its end."""
    no_gpu_reason: str | None = None
    counters_missing: str | None = None
    has_accelerator: bool = False
    """Without one, fetching a value waits for nothing: its time is the host's copying."""
    own_spans: list[tuple[float, float]] = field(default_factory=list)
    """Time that the hooks took, in the training thread."""
    sampler_spans: list[tuple[float, float]] = field(default_factory=list)
    """Start of each sample, and its start plus the processor time that it took: meanwhile no other thread runs Python."""
    operation_hook_seconds: float = 0.0
    """What the hook into single operations costs each of them, measured on this machine."""
    failed_hooks: list[str] = field(default_factory=list)
    """Hooks that this version of TensorFlow or Keras has no place for, one sentence each."""
    failed_rules: list[str] = field(default_factory=list)
    """What could not be watched on this script, one sentence each."""
    frameworks: tuple[str, ...] = ()
    """Other frameworks that the script imported: `torch`, `jax`."""
    child_seconds: float = 0.0
    """Processor time of the script's child processes, in which nothing is observed."""
    keras_backend: str | None = None
    steps_limit: int | None = None
    """The observation ended after so many steps."""
    last_step: Any = None
    """The newest (function, arguments, variables) of the likely step, for measuring its ceiling; dropped afterwards."""
    fit_model: Any = None
    fit_function: Any = None
    """The `tf.function` that Keras calls for each batch of `fit`."""

    def add(self, records: list, record: Any) -> None:
        """Keep a record unless there are too many of its kind."""
        if len(records) < MOST_RECORDS:
            records.append(record)

    def drop_objects(self) -> None:
        """Release the script's own objects: its step, model and datasets."""
        self.last_step = self.fit_model = self.fit_function = None
        for dataset in self.datasets:
            dataset.kept = None
