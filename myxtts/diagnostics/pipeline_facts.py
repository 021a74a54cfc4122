"""What the input pipeline of a training did: its stages with the time spent in each, after TensorFlow's own rewrites.

In: a `DatasetRecord` (stages from the dataset objects, TensorFlow's model of the running pipeline). Out: `PipelineFacts`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from myxtts.diagnostics.dataset_stages import Stage
from myxtts.diagnostics.places import Place
from myxtts.diagnostics.recorder import DatasetRecord, Recording
from myxtts.diagnostics.steps import StepTable

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

    stage: Stage
    seconds_per_batch: float
    runs_parallel: bool

    @property
    def name(self) -> str:
        """For people."""
        return self.stage.label


@dataclass(frozen=True)
class PipelineFacts:
    """The pipeline that feeds the steps."""

    stages: tuple[Stage, ...]
    place: Place
    """Where the training iterates it."""
    passes: int
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
    dataset_number: int

    def stage_of(self, kind: str) -> Stage | None:
        """The first stage of a kind, from the training inwards."""
        return next((stage for stage in self.stages if stage.kind == kind), None)

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
    used = sorted(fetched, key=lambda number: -fetched[number])
    most = fetched[used[0]] if used else 0
    return [_facts(recording, recording.datasets[number]) for number in used if fetched[number] >= 0.3 * most]


def _starts(fetches: list) -> Any:
    import numpy as np

    return np.array([fetch.start for fetch in fetches])


def _facts(recording: Recording, dataset: DatasetRecord) -> PipelineFacts:
    nodes = read_model(dataset.model)
    batches = max(dataset.model_elements, 1)
    times = _match(dataset.stages, nodes, batches)
    stages_kinds = [stage.kind for stage in dataset.stages]
    works_ahead = (
        [node.kind for node in nodes]
        if nodes
        else [f"parallel_{stage.kind}" if stage.is_parallel else stage.kind for stage in dataset.stages]
    )
    # A parallel map before the batch works ahead by a few elements only; what counts is whole batches.
    batching = next((number for number, kind in enumerate(works_ahead) if "batch" in kind), len(works_ahead) - 1)
    above = works_ahead[: batching + 1]
    same = [record for record in recording.iterators if record.dataset == dataset.number]
    return PipelineFacts(
        stages=dataset.stages,
        place=same[0].place if same else dataset.place,
        passes=len(same),
        cardinality=dataset.cardinality,
        times=times,
        has_model=bool(nodes),
        is_prefetching=any(kind in _ASYNCHRONOUS for kind in above),
        loader_seconds_per_batch=sum(node.seconds for node in nodes) / batches,
        repeats="repeat" in stages_kinds or "shuffle_and_repeat" in stages_kinds,
        dataset_number=dataset.number,
    )


def read_model(model: Any) -> list[ModelNode]:
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


_SAME = {
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


def _match(stages: tuple[Stage, ...], nodes: list[ModelNode], batches: int) -> tuple[StageTime, ...]:
    """Pairs what the user wrote with what TensorFlow runs, in order; stages that were fused share one node."""
    remaining, times, taken = list(enumerate(nodes)), [], set()
    for stage in stages:
        names = _SAME.get(stage.kind, (stage.kind,))
        found = next((pair for pair in remaining if pair[1].kind in names and pair[0] not in taken), None)
        if found is None:
            continue
        number, node = found
        seconds = node.seconds
        if node.kind == "map_and_batch" and stage.kind == "batch":
            continue  # counted with its map
        taken.add(number)
        if stage.kind == "from_generator" and number + 1 < len(nodes) and nodes[number + 1].kind == "generator":
            seconds += nodes[number + 1].seconds
        is_parallel = node.is_parallel or (stage.is_parallel and node.kind.startswith("parallel"))
        times.append(StageTime(stage, seconds / batches, is_parallel))
    return tuple(sorted(times, key=lambda time: -time.seconds_per_batch))
