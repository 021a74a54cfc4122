"""The input pipeline of a training: its stages, and the time spent in each.

Stages are read from the dataset objects. Python functions and generators are found as ops (`PyFunc`, `EagerPyFunc`,
`GeneratorDataset`) in the graphs of the datasets' functions, nested ones included, never in source text. The times come from
TensorFlow's model of the running pipeline, after its own rewrites.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import Any

from myxtts.diagnostics.observe.recording import DatasetRecord, Recording
from myxtts.diagnostics.observe.source_lines import UNKNOWN, SourceLocation, code_of, location_of_code
from myxtts.diagnostics.observe.split_steps import StepTable

_PYTHON_OPS = {"PyFunc": "numpy_function", "PyFuncStateless": "numpy_function", "EagerPyFunc": "py_function"}
EFFECTS = (
    "PrintV2", "Print", "WriteFile", "SaveV2", "LogTensor", "Summary", "Assert", "Collective",
)  # fmt: skip
"""Operations with effects outside of TensorFlow: they must not run a second time."""
_MOST_STAGES = 200


@dataclass(frozen=True)
class DatasetStage:
    """One transformation."""

    kind: str
    """map, batch, prefetch, cache, shuffle, repeat, interleave, flat_map, from_generator, range, tensor_slice ..."""
    label: str
    """For people: `map(decode_wav)`."""
    location: SourceLocation
    """Where it was added."""
    function_location: SourceLocation = UNKNOWN
    """Where its function is defined."""
    is_parallel: bool = False
    python: tuple[str, ...] = ()
    """numpy_function, py_function, generator: what calls Python for each element."""
    python_locations: tuple[SourceLocation, ...] = ()
    is_random: bool = False
    """Its function draws random indices: its output must not be cached."""
    is_on_disk: bool = False
    """A cache with a file name."""
    ops: int = 0
    """Nodes of its function's graph."""
    is_users: bool = True
    """The user added it, not Keras."""
    effects: tuple[str, ...] = ()
    """Operations of its function that print or write."""


def describe_dataset(
    dataset: Any, locations: Any, python_locations: Any, made_by_keras: Any = ()
) -> tuple[DatasetStage, ...]:
    """The stages of a dataset; the mappings hold where datasets and Python functions were made, and by whom."""
    stages, waiting = [], [dataset]
    while waiting and len(stages) < _MOST_STAGES:
        current = waiting.pop(0)
        kind = _kind_of(current)
        if kind not in ("options", "restructured"):
            stages.append(_describe(current, kind, locations, python_locations, current not in made_by_keras))
        if kind != "from_generator":
            waiting += list(current._inputs())
    return tuple(stages)


def _describe(dataset: Any, kind: str, locations: Any, python_locations: Any, is_users: bool) -> DatasetStage:
    location = locations.get(dataset, UNKNOWN)
    functions = list(dataset._functions())
    ops = [node.op for function in functions for node in _nodes(function)]
    names = [_function_name(function) for function in functions if kind != "from_generator"]
    python = tuple(sorted({_PYTHON_OPS[op] for op in ops if op in _PYTHON_OPS}))
    if "GeneratorDataset" in ops:
        python = ("generator",)
    parallel = getattr(dataset, "_num_parallel_calls", None)
    filename = getattr(dataset, "_filename", None)
    return DatasetStage(
        kind=kind,
        label=f"{kind}({', '.join(names)})" if names else kind,
        location=location,
        function_location=location_of_code(code_of(functions[0]._func)) if functions else UNKNOWN,
        is_parallel=parallel is not None and bool(_number(parallel) != 1),
        python=python,
        python_locations=tuple(python_locations.get(dataset, ())),
        is_random=any("Random" in op or "Multinomial" in op for op in ops),
        is_on_disk=filename is not None and _number(filename) not in (b"", None),
        ops=len(ops),
        is_users=is_users,
        effects=tuple(sorted(set(ops).intersection(EFFECTS))),
    )


def _kind_of(dataset: Any) -> str:
    """`_ParallelMapDataset` is `map`, `_PaddedBatchDataset` is `padded_batch`, a flat_map over a generator `from_generator`."""
    name = type(dataset).__name__.strip("_").removesuffix("V1").removesuffix("V2").removesuffix("Dataset")
    name = name.removeprefix("Parallel")
    kind = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    if kind == "flat_map" and any(node.op == "GeneratorDataset" for f in dataset._functions() for node in _nodes(f)):
        return "from_generator"
    return kind or type(dataset).__name__


def _nodes(function: Any) -> list[Any]:
    graph = function.function.graph.as_graph_def()
    return list(itertools.chain(graph.node, *(inner.node_def for inner in graph.library.function)))


def _function_name(function: Any) -> str:
    code = code_of(function._func)
    name = code.co_name if code is not None else type(function._func).__name__
    return "lambda" if name == "<lambda>" else name


def _number(value: Any) -> Any:
    """A Python value from an eager constant; None if it is only known in a graph."""
    return value.numpy() if hasattr(value, "numpy") else value if isinstance(value, (int, bytes)) else None


_ASYNCHRONOUS = ("prefetch", "parallel_map", "map_and_batch", "parallel_interleave", "parallel_batch")


@dataclass(frozen=True)
class ModelNode:
    """One stage of the pipeline as TensorFlow runs it."""

    kind: str
    """map, parallel_map, map_and_batch, prefetch, batch, generator, flat_map ..."""
    seconds: float
    """Time spent in it so far, all threads together, its inputs not counted."""
    elements: int
    is_parallel: bool


@dataclass(frozen=True)
class StageTime:
    """A stage that the user wrote, and what it cost."""

    stage: DatasetStage
    seconds_per_batch: float
    runs_parallel: bool

    @property
    def name(self) -> str:
        """For people."""
        return self.stage.label


@dataclass(frozen=True)
class PipelineFacts:
    """The pipeline that feeds the steps."""

    stages: tuple[DatasetStage, ...]
    location: SourceLocation
    """Where the training iterates it."""
    epochs: int
    """How many iterators were made on it."""
    cardinality: int
    times: tuple[StageTime, ...]
    """The stages whose cost is known, most costly first; empty without TensorFlow's model."""
    has_model: bool
    is_prefetching: bool
    """Whole batches are made ahead while the step runs."""
    loader_seconds_per_batch: float
    """All stages together, on one thread each."""
    repeats: bool

    @property
    def slowest(self) -> StageTime | None:
        """The most costly stage."""
        return self.times[0] if self.times else None


def training_pipelines(recording: Recording, steps: StepTable) -> list[PipelineFacts]:
    """The pipelines that feed the steps (not those of a validation), the most used first."""
    fetched: dict[int, int] = {}
    for fetch, window in zip(recording.fetches, steps.window_of(_starts(recording.fetches)), strict=True):
        dataset = recording.iterators[fetch.iterator].dataset
        if window >= 0 and dataset >= 0:
            fetched[dataset] = fetched.get(dataset, 0) + 1
    for iterator in recording.iterators:
        if iterator.is_inside_graph and iterator.dataset >= 0:
            fetched[iterator.dataset] = fetched.get(iterator.dataset, 0) + iterator.elements
    if not fetched and any(call.wait_seconds > 0 for call in recording.calls):
        fetched = {iterator.dataset: 1 for iterator in recording.iterators if iterator.dataset >= 0}
    used = sorted(fetched, key=lambda index: -fetched[index])
    most = fetched[used[0]] if used else 0
    return [_facts(recording, recording.datasets[index]) for index in used if fetched[index] >= 0.3 * most]


def _starts(fetches: list) -> Any:
    import numpy as np

    return np.array([fetch.start for fetch in fetches])


def _facts(recording: Recording, dataset: DatasetRecord) -> PipelineFacts:
    nodes = model_nodes(dataset.model)
    batches = max(dataset.model_elements, 1)
    times = _match(dataset.stages, nodes, batches)
    stages_kinds = [stage.kind for stage in dataset.stages]
    works_ahead = (
        [node.kind for node in nodes]
        if nodes
        else [f"parallel_{stage.kind}" if stage.is_parallel else stage.kind for stage in dataset.stages]
    )
    # A parallel map before the batch works ahead by a few elements only; what counts is whole batches.
    batching = next((index for index, kind in enumerate(works_ahead) if "batch" in kind), len(works_ahead) - 1)
    above = works_ahead[: batching + 1]
    same = [record for record in recording.iterators if record.dataset == dataset.index]
    return PipelineFacts(
        stages=dataset.stages,
        location=same[0].location if same else dataset.location,
        epochs=len(same),
        cardinality=dataset.cardinality,
        times=times,
        has_model=bool(nodes),
        is_prefetching=any(kind in _ASYNCHRONOUS for kind in above),
        loader_seconds_per_batch=sum(node.seconds for node in nodes) / batches,
        repeats="repeat" in stages_kinds or "shuffle_and_repeat" in stages_kinds,
    )


def model_nodes(model: Any) -> list[ModelNode]:
    """The nodes of TensorFlow's model, the one nearest to the training first, each before its inputs."""
    if model is None:
        return []
    nodes, waiting = [], [model.output]
    while waiting:
        node = model.nodes[waiting.pop(0)]
        waiting = list(node.inputs) + waiting
        if node.name == "Root":
            continue
        parallelism = [parameter for parameter in node.parameters if parameter.name == "parallelism"]
        nodes.append(
            ModelNode(
                kind=_kind(node.name),
                seconds=node.processing_time / 1e9,
                elements=int(node.num_elements),
                is_parallel=any(parameter.tunable or parameter.value > 1 for parameter in parallelism),
            )
        )
    return nodes


def _kind(name: str) -> str:
    name = re.sub(r"V\d+$", "", name.split("[")[0].split("(")[0])
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


_SAME_KINDS = {
    "map": ("map", "parallel_map", "map_and_batch"),
    "batch": ("batch", "parallel_batch", "map_and_batch"),
    "padded_batch": ("padded_batch",),
    "interleave": ("interleave", "parallel_interleave"),
    "flat_map": ("flat_map",),
    "from_generator": ("flat_map",),
    "shuffle": ("shuffle", "shuffle_and_repeat"),
    "cache": ("cache", "memory_cache", "cache_impl", "memory_cache_impl"),
    "filter": ("filter",),
    "prefetch": ("prefetch",),
}


def _match(stages: tuple[DatasetStage, ...], nodes: list[ModelNode], batches: int) -> tuple[StageTime, ...]:
    """Pairs what the user wrote with what TensorFlow runs, in order; fused stages share one node."""
    remaining, times, taken = list(enumerate(nodes)), [], set()
    for stage in stages:
        names = _SAME_KINDS.get(stage.kind, (stage.kind,))
        found = next((pair for pair in remaining if pair[1].kind in names and pair[0] not in taken), None)
        if found is None:
            continue
        index, node = found
        seconds = node.seconds
        if node.kind == "map_and_batch" and stage.kind == "batch":
            continue  # counted with its map
        taken.add(index)
        if stage.kind == "from_generator" and index + 1 < len(nodes) and nodes[index + 1].kind == "generator":
            seconds += nodes[index + 1].seconds
        is_parallel = node.is_parallel or (stage.is_parallel and node.kind.startswith("parallel"))
        times.append(StageTime(stage, seconds / batches, is_parallel))
    return tuple(sorted(times, key=lambda time: -time.seconds_per_batch))
