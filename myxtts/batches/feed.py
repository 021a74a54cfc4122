"""The feed: an endless stream of batches, each on its device before it is needed, with a position to resume from.

Under a distribution strategy a batch holds per-replica values: each replica has its rows of the same global batch. The stream is
made in segments of many batches. While one segment is read, a thread plans and opens the next, so that the end of an epoch takes
no longer than any other batch.
"""

from __future__ import annotations

import dataclasses
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from myxtts.batch import Batch
from myxtts.batches.gather import ClipQuality, ReferenceChooser, batch_runs, clip_quality
from myxtts.batches.loader import (
    HostBatches,
    LoaderOptions,
    Tables,
    batch_dataset,
    empty_tables,
    open_tables,
    part_of_shape,
    prefetched,
)
from myxtts.batches.on_the_fly import PythonFrames, decoded_dataset, find_recordings
from myxtts.batches.order import Plan, Position, Segment
from myxtts.cache.clip_table import PreparedTable
from myxtts.cache.recordings import RecordingTable
from myxtts.config.config import DataConfig
from myxtts.errors import PlanError

FIRST_SEGMENT_BATCHES = 32
"""Few, so that the first batch is ready soon; each segment is longer than the one before, up to the largest."""
LARGEST_SEGMENT_BATCHES = 8192
"""A few kilobytes for each batch. Opening a segment takes about as long as 500 batches."""


@dataclass(frozen=True)
class Replica:
    """A part of every batch: the rows of one replica, and the device it runs on."""

    index: int = 0
    count: int = 1
    device: str | None = None


WHOLE_BATCH = Replica()


def open_feed(
    table: PreparedTable | RecordingTable,
    plan: Plan,
    config: DataConfig,
    position: Position = (0, 0),
    strategy: tf.distribute.Strategy | None = None,
) -> Feed:
    """Open the stream of a plan's batches. Close it after use: `with open_feed(...) as feed`.

    Args:
        table: the clips, prepared or to be decoded while training.
        plan: shapes and order.
        config: threads, prefetching and memory.
        position: where to begin, as reported by an earlier feed of the same plan.
        strategy: splits every batch among its replicas; None: they are used on the first GPU, or on the host.
    """
    replicas = _replicas(plan, strategy)
    feed = Feed(open_reader(table, plan, config, plan.clips), replicas, position, strategy)
    feed.start()
    return feed


class Feed:
    """An endless iterator of batches, made by `open_feed`. `position` is where a new feed continues after the last batch."""

    def __init__(
        self,
        reader: SegmentReader,
        replicas: list[Replica],
        position: Position,
        strategy: tf.distribute.Strategy | None,
    ):
        self.reader = reader
        self.plan = reader.plan
        self.position: Position = (int(position[0]), int(position[1]))
        self._replicas, self._strategy = replicas, strategy
        self._opened: queue.Queue[_OpenSegment | BaseException] = queue.Queue(maxsize=1)
        self._is_closed = threading.Event()
        self._stream = self._batches()
        self._thread = threading.Thread(target=self._open_segments, name="myxtts-feed", daemon=True)

    def start(self) -> None:
        """Start the thread that opens segments."""
        self._thread.start()

    def __iter__(self) -> Feed:
        return self

    def __next__(self) -> Batch:
        batch, self.position = next(self._stream)
        return batch

    def __enter__(self) -> Feed:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the thread and drop what is prefetched; the position stays."""
        self._is_closed.set()
        while self._thread.is_alive():
            try:
                self._opened.get_nowait()
            except queue.Empty:
                self._thread.join(timeout=0.05)
        self._stream.close()

    def _batches(self):
        while not self._is_closed.is_set():
            opened = self._opened.get()
            if isinstance(opened, BaseException):
                raise opened
            positions = opened.segment.next_positions.tolist()
            for shape_index, (epoch, row) in zip(opened.segment.shape_indices.tolist(), positions, strict=True):
                parts = [next(iterator) for iterator in opened.iterators[shape_index]]
                yield _distributed(parts, self._strategy), (epoch, row)

    def _open_segments(self) -> None:
        try:
            for segment in self.plan.segments(self.position, FIRST_SEGMENT_BATCHES, LARGEST_SEGMENT_BATCHES):
                iterators = [
                    [self.reader.batches(segment, index, replica) for replica in self._replicas]
                    for index in range(len(self.plan.shapes))
                ]
                if not self._deliver(_OpenSegment(segment, iterators)):
                    return
        except (
            BaseException
        ) as error:  # any error must reach the reader of the feed, which would wait forever otherwise
            self._deliver(error)

    def _deliver(self, item: _OpenSegment | BaseException) -> bool:
        """Hand over, or return False if the feed was closed meanwhile."""
        while not self._is_closed.is_set():
            try:
                self._opened.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False


def validation_batches(
    table: PreparedTable | RecordingTable,
    plan: Plan,
    config: DataConfig,
    strategy: tf.distribute.Strategy | None = None,
    tables: Tables | None = None,
) -> Iterator[Batch]:
    """Every clip of the plan exactly once; the last batch of a shape is filled up with empty rows.

    References may come from any clip of the table. `tables`: those of a feed over the same table, so that they are opened once.
    """
    replicas = _replicas(plan, strategy)
    reader = open_reader(table, plan, config, np.arange(len(table.frame_counts)), tables)
    segment = plan.single_epoch()
    for index in range(len(plan.shapes)):
        if not len(segment.rows[index]):
            continue
        iterators = [reader.batches(segment, index, replica) for replica in replicas]
        for _ in range(len(segment.rows[index])):
            yield _distributed([next(iterator) for iterator in iterators], strategy)


def open_reader(
    table: PreparedTable | RecordingTable,
    plan: Plan,
    config: DataConfig,
    reference_clips: np.ndarray,
    tables: Tables | None = None,
) -> SegmentReader:
    """Open the tables of a corpus for reading segments of a plan; `reference_clips` are the candidates for references."""
    python_frames = None
    if table.frames_path is None:
        tables = empty_tables(table.mel.n_mels)
    else:
        tables = open_tables(table, config.cache_memory_mb, plan.shapes[0].has_pitch) if tables is None else tables
        if not config.use_tf_native_loading:
            python_frames = find_recordings(table, config)
    references = None
    if plan.shapes[0].reference_frames:
        references = ReferenceChooser(table, reference_clips, plan.seed)
    quality = clip_quality(table, config.bandwidth_aware)
    return SegmentReader(table, plan, config, tables, references, quality, python_frames)


@dataclass(frozen=True, eq=False)
class SegmentReader:
    """Turns segments of a plan into datasets, one for each shape, over one set of tables. Made by `open_reader`.

    Frames come from the cache; from the recordings through Python with `use_tf_native_loading: false`; and from the recordings
    by TensorFlow ops if there is no cache (`preprocessing_mode: runtime`).
    """

    table: PreparedTable | RecordingTable
    plan: Plan
    config: DataConfig
    tables: Tables
    references: ReferenceChooser | None
    quality: ClipQuality
    python_frames: PythonFrames | None

    def without_corpus(self) -> SegmentReader:
        """The same datasets over empty tables, for inspecting their graph, which would contain the tables."""
        return dataclasses.replace(self, tables=empty_tables(self.table.mel.n_mels))

    def host_dataset(self, segment: Segment, shape_index: int, replica: Replica = WHOLE_BATCH) -> tf.data.Dataset:
        """The segment's batches of one shape, in order, on the host: the whole graph but the copy to the device."""
        table, plan, is_static = self.table, self.plan, self.plan.is_static
        whole_shape = plan.shapes[shape_index]
        shape = part_of_shape(whole_shape, replica.count)
        part = slice(replica.index * shape.rows, (replica.index + 1) * shape.rows)
        runs = batch_runs(
            table,
            whole_shape,
            segment.rows[shape_index],
            segment.epochs[shape_index],
            gap_frames=plan.row_size.gap_frames,
            gap_tokens=plan.row_size.gap_tokens,
            references=self.references,
            quality=self.quality,
            is_static=is_static,
            part=part,
        )
        options = self._options(replica)
        if table.frames_path is None:
            epochs = segment.epochs[shape_index][:, part]
            return decoded_dataset(
                table, shape, runs, epochs, options, seed=plan.seed, references=self.references, is_static=is_static
            )
        fill_frames = self.python_frames.fill_frames(shape, is_static) if self.python_frames is not None else None
        return batch_dataset(self.tables, shape, runs, options, is_static=is_static, fill_frames=fill_frames)

    def dataset(self, segment: Segment, shape_index: int, replica: Replica = WHOLE_BATCH) -> tf.data.Dataset:
        """The same batches, prefetched to the replica's device."""
        return prefetched(self.host_dataset(segment, shape_index, replica), self._options(replica))

    def batches(self, segment: Segment, shape_index: int, replica: Replica = WHOLE_BATCH) -> Iterator[Batch]:
        """The same batches, one after the other."""
        dataset = self.dataset(segment, shape_index, replica)
        return HostBatches(dataset) if self._options(replica).device is None else iter(dataset)

    def _options(self, replica: Replica) -> LoaderOptions:
        return LoaderOptions.from_config(self.config, replica.device)


@dataclass(frozen=True)
class _OpenSegment:
    """A segment whose datasets are already running."""

    segment: Segment
    iterators: list[list[Iterator[Batch]]]
    """For each shape, for each local replica."""


def _replicas(plan: Plan, strategy: tf.distribute.Strategy | None) -> list[Replica]:
    """The replicas of this process. Raises `PlanError` if the plan's rows cannot be split evenly among all replicas."""
    replicas = [WHOLE_BATCH] if strategy is None else _local_replicas(strategy)
    count = replicas[0].count
    for shape in plan.shapes:
        if shape.rows % count:
            raise PlanError(
                f"A batch of {shape} cannot be split among {count} replicas. Expected: a plan built with "
                f"replicas={count}, or rows that are a multiple of it, such as {-(-shape.rows // count) * count}."
            )
    return replicas


def _local_replicas(strategy: tf.distribute.Strategy) -> list[Replica]:
    """The replicas of this process, with their indices among all replicas of all workers."""
    indices: list[int] = []

    def note_index(context: tf.distribute.experimental.ValueContext) -> tf.Tensor:
        indices.append(context.replica_id_in_sync_group)
        return tf.zeros(())

    strategy.experimental_distribute_values_from_function(note_index)
    count = strategy.num_replicas_in_sync
    return [
        Replica(index, count, device) for index, device in zip(indices, strategy.extended.worker_devices, strict=True)
    ]


def _distributed(parts: list[Batch], strategy: tf.distribute.Strategy | None) -> Batch:
    """The parts of the local replicas as per-replica values; without a strategy, the one part."""
    if strategy is None:
        return parts[0]
    upcoming = iter(parts)
    return strategy.experimental_distribute_values_from_function(lambda _: next(upcoming))
