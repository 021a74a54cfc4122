"""The feed: an endless stream of batches, each on its device before it is asked for, that knows its position.

In: an opened cache, a plan, where to begin. Out: `Batch`es; under a distribution strategy, a `Batch` of per-replica values,
each replica with its rows of the same global batch. The stream is made in segments of many batches. While one is being read, a
thread plans and opens the next, so that the end of a pass is like any other place.
"""

from __future__ import annotations

import copy
import queue
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from myxtts.batch import Batch
from myxtts.batches.gather import ClipTable, ReferenceChooser, batch_runs
from myxtts.batches.loader import (
    HostBatches,
    LoaderOptions,
    Tables,
    batch_dataset,
    empty_tables,
    made_ready,
    open_tables,
    part_of_shape,
)
from myxtts.batches.on_the_fly import Recordings, runtime_dataset
from myxtts.batches.plan import Plan, Position, Segment
from myxtts.batches.recordings import RecordingTable
from myxtts.config.config import DataConfig
from myxtts.errors import PlanError

FIRST_SEGMENT_BATCHES = 32
"""Small, so that the first batch comes soon; each segment is four times the one before, up to the largest."""
LARGEST_SEGMENT_BATCHES = 8192
"""A few kilobytes for each batch. Opening a segment costs about as much as 500 batches."""


@dataclass(frozen=True)
class Replica:
    """A part of every batch: the rows of one replica, and the device it runs on."""

    number: int = 0
    count: int = 1
    device: str | None = None


WHOLE_BATCH = Replica()


class SegmentReader:
    """Turns segments of a plan into datasets: one for each shape, over one set of tables.

    Frames come from the cache; from the recordings through Python with `use_tf_native_loading: false`; and from the recordings
    by TensorFlow's ops if there is no cache (`preprocessing_mode: runtime`).
    """

    def __init__(
        self,
        cache: ClipTable,
        plan: Plan,
        config: DataConfig,
        reference_clips: np.ndarray,
        tables: Tables | None = None,
    ):
        self._cache, self._plan, self._config = cache, plan, config
        self._recordings = None
        if isinstance(cache, RecordingTable):
            self.tables = empty_tables(cache.mel.n_mels)
        else:
            self.tables = open_tables(cache, config.cache_memory_mb) if tables is None else tables
            if not config.use_tf_native_loading:
                self._recordings = Recordings(cache, config)
        self._references = None
        if plan.shapes[0].reference_frames:
            self._references = ReferenceChooser(
                cache.speaker_numbers, cache.frame_starts, cache.frame_counts, reference_clips, plan.seed
            )

    def without_corpus(self) -> SegmentReader:
        """The same datasets over tables of nothing: to look at their graph, which holds what they capture."""
        reader = copy.copy(self)
        reader.tables = empty_tables(self.tables.frames.shape[1])
        return reader

    def host_dataset(self, segment: Segment, shape_number: int, replica: Replica = WHOLE_BATCH) -> tf.data.Dataset:
        """The segment's batches of one shape, in order, on the host: the whole graph but the copy to the device."""
        shape = self._plan.shapes[shape_number]
        rows_of_part = shape.rows // replica.count
        part = slice(replica.number * rows_of_part, (replica.number + 1) * rows_of_part)
        runs = batch_runs(
            self._cache,
            shape,
            segment.rows[shape_number],
            segment.passes[shape_number],
            gap_frames=self._plan.row_size.gap_frames,
            gap_tokens=self._plan.row_size.gap_tokens,
            references=self._references,
            is_static=self._plan.is_static,
            part=part,
        )
        options = LoaderOptions.from_config(self._config, replica.device)
        shape = part_of_shape(shape, replica.count)
        is_static = self._plan.is_static
        if isinstance(self._cache, RecordingTable):
            passes = segment.passes[shape_number][:, part]
            choice = {"seed": self._plan.seed, "references": self._references}
            return runtime_dataset(self._cache, shape, runs, passes, options, **choice, is_static=is_static)
        fill_frames = self._recordings.fill_frames(shape, is_static) if self._recordings is not None else None
        return batch_dataset(self.tables, shape, runs, options, is_static=is_static, fill_frames=fill_frames)

    def dataset(self, segment: Segment, shape_number: int, replica: Replica = WHOLE_BATCH) -> tf.data.Dataset:
        """The same batches, kept ready on the replica's device."""
        options = LoaderOptions.from_config(self._config, replica.device)
        return made_ready(self.host_dataset(segment, shape_number, replica), options)

    def batches(self, segment: Segment, shape_number: int, replica: Replica = WHOLE_BATCH) -> Iterator[Batch]:
        """The same batches, one after the other."""
        options = LoaderOptions.from_config(self._config, replica.device)
        dataset = self.dataset(segment, shape_number, replica)
        return HostBatches(dataset) if options.device is None else iter(dataset)


@dataclass(frozen=True)
class _OpenSegment:
    """A segment whose datasets run already."""

    segment: Segment
    iterators: list[list[Iterator[Batch]]]
    """For each shape, for each local replica."""


class Feed:
    """An endless iterator of batches. `position` is where a new feed continues after the batch delivered last."""

    def __init__(
        self,
        cache: ClipTable,
        plan: Plan,
        config: DataConfig,
        position: Position = (0, 0),
        strategy: tf.distribute.Strategy | None = None,
        device: str | None = None,
    ):
        """`device`: where batches are used without a strategy; None is the first GPU, or the host."""
        self.plan = plan
        self.position: Position = (int(position[0]), int(position[1]))
        self.wait_seconds = 0.0
        """How long the last batch was waited for."""
        self._strategy = strategy
        self._replicas = [Replica(device=device)] if strategy is None else local_replicas(strategy)
        check_rows_split_evenly(plan, self._replicas[0].count)
        self.reader = SegmentReader(cache, plan, config, plan.clips)
        self._segments = plan.segments(self.position, FIRST_SEGMENT_BATCHES, LARGEST_SEGMENT_BATCHES)
        self._opened: queue.Queue[_OpenSegment | BaseException] = queue.Queue(maxsize=1)
        self._is_closed = threading.Event()
        self._stream = self._batches()
        self._thread = threading.Thread(target=self._open_segments, name="myxtts-feed", daemon=True)
        self._thread.start()

    def __iter__(self) -> Feed:
        return self

    def __next__(self) -> Batch:
        started = time.perf_counter()
        batch, position = next(self._stream)
        self.wait_seconds = time.perf_counter() - started
        self.position = position
        return batch

    def __enter__(self) -> Feed:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the thread and give up what is prepared; the position stays."""
        self._is_closed.set()
        while self._thread.is_alive():
            try:
                self._opened.get_nowait()
            except queue.Empty:
                self._thread.join(timeout=0.05)
        self._stream.close()

    def _batches(self) -> Iterator[tuple[Batch, Position]]:
        while not self._is_closed.is_set():
            opened = self._opened.get()
            if isinstance(opened, BaseException):
                raise opened
            positions = opened.segment.next_positions.tolist()
            for shape_number, position in zip(opened.segment.shape_numbers.tolist(), positions, strict=True):
                parts = [next(iterator) for iterator in opened.iterators[shape_number]]
                yield (parts[0] if self._strategy is None else self._distributed(parts)), tuple(position)

    def _distributed(self, parts: list[Batch]) -> Batch:
        upcoming = iter(parts)
        return self._strategy.experimental_distribute_values_from_function(lambda _: next(upcoming))

    def _open_segments(self) -> None:
        try:
            for segment in self._segments:
                iterators = [
                    [self.reader.batches(segment, number, replica) for replica in self._replicas]
                    for number in range(len(self.plan.shapes))
                ]
                if not self._deliver(_OpenSegment(segment, iterators)):
                    return
        except (
            BaseException
        ) as error:  # whatever it is, the reader of the feed must hear of it instead of waiting forever
            self._deliver(error)

    def _deliver(self, item: _OpenSegment | BaseException) -> bool:
        """Hand over, or return False when the feed was closed meanwhile."""
        while not self._is_closed.is_set():
            try:
                self._opened.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False


def validation_batches(
    cache: ClipTable,
    plan: Plan,
    config: DataConfig,
    strategy: tf.distribute.Strategy | None = None,
    device: str | None = None,
    tables: Tables | None = None,
) -> Iterator[Batch]:
    """Every clip of the plan exactly once; what is missing in the last batch of a shape is empty rows.

    References may come from any clip of the cache. `tables`: those of a feed over the same cache, so that they are opened once.
    """
    replicas = [Replica(device=device)] if strategy is None else local_replicas(strategy)
    check_rows_split_evenly(plan, replicas[0].count)
    reader = SegmentReader(cache, plan, config, np.arange(len(cache.frame_counts)), tables)
    segment = plan.single_pass()
    for number in range(len(plan.shapes)):
        if not len(segment.rows[number]):
            continue
        iterators = [reader.batches(segment, number, replica) for replica in replicas]
        for _ in range(len(segment.rows[number])):
            parts = [next(iterator) for iterator in iterators]
            if strategy is None:
                yield parts[0]
            else:
                upcoming = iter(parts)
                yield strategy.experimental_distribute_values_from_function(lambda _, upcoming=upcoming: next(upcoming))


def local_replicas(strategy: tf.distribute.Strategy) -> list[Replica]:
    """The replicas of this process, with their numbers among all replicas of all workers."""
    numbers: list[int] = []

    def note_number(context: tf.distribute.experimental.ValueContext) -> tf.Tensor:
        numbers.append(context.replica_id_in_sync_group)
        return tf.zeros(())

    strategy.experimental_distribute_values_from_function(note_number)
    count = strategy.num_replicas_in_sync
    return [
        Replica(number, count, device) for number, device in zip(numbers, strategy.extended.worker_devices, strict=True)
    ]


def check_rows_split_evenly(plan: Plan, replicas: int) -> None:
    """Every replica gets the same number of rows of every batch, or there is no plan."""
    for shape in plan.shapes:
        if shape.rows % replicas:
            raise PlanError(
                f"A batch of {shape} cannot be split among {replicas} replicas. Expected: a plan built with "
                f"replicas={replicas}, or rows that are a multiple of it, such as {-(-shape.rows // replicas) * replicas}."
            )
