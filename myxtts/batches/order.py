"""The order of a plan's rows, which is pure arithmetic: clip indices, batch after batch, from any position.

The rows of epoch e follow from (seed, e) alone. The stream is epoch after epoch; a position in it is (epoch, row), and starting
at a position gives exactly the remaining batches. Plans are made by `myxtts.batches.plan`; `myxtts.batches.feed` turns the
indices into batches. No TensorFlow, no files.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

import numpy as np

from myxtts.batch import NO_CLIP, BatchShape
from myxtts.batches.packing import RowSize, pack_rows
from myxtts.errors import PlanError

Position = tuple[int, int]
"""(epoch, row): the first row that has not been delivered. Valid only with the `Plan.fingerprint` that it was saved with."""
ORDER_VERSION = 1
"""To be raised with every change of the arithmetic that gives the same settings another order."""
COUNTED_CLIPS = 20_000
"""Packed rows are counted in as many epochs as hold this many clips (about 0.3 s); later epochs are assumed to be as long."""
SEGMENT_GROWTH = 4
"""Factor between the batches of a segment and of the next one. Chosen; not measured."""


@dataclass(frozen=True)
class EpochRows:
    """The rows of one epoch, in order."""

    rows: np.ndarray
    """int32 (rows, slots): clip indices, `NO_CLIP` for an empty slot."""
    epochs: np.ndarray
    """int32 (rows,): the epoch of each row; a batch of a bucket may begin with rows of the epoch before."""
    batch_rows: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """int64 (batches,): rows of each batch of `buckets` and `dynamic`. Empty for the others: cut every `shape.rows` rows."""
    shape_indices: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """int64 (batches,): index in `Plan.shapes` of each batch of `buckets` and `dynamic`."""


@dataclass(frozen=True)
class Segment:
    """Consecutive batches of the stream, grouped by shape."""

    shape_indices: np.ndarray
    """int64 (batches,): the shape of each batch, in order."""
    rows: tuple[np.ndarray, ...]
    """For each shape of the plan: int32 (its batches, rows, slots), clip indices."""
    epochs: tuple[np.ndarray, ...]
    """For each shape of the plan: int32 (its batches, rows), the epoch of each row."""
    next_positions: np.ndarray
    """int64 (batches, 2): the position after each batch."""


@dataclass(eq=False)
class _LastEpoch:
    """The rows of the epoch computed last. Packing takes seconds for a large corpus, and several threads ask for epoch 0."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    epoch: int = -1
    rows: EpochRows | None = None


@dataclass(frozen=True, eq=False)
class Plan:
    """Static shapes and the order of the clips. Made by `myxtts.batches.plan.build_plan`."""

    kind: str
    seed: int
    shapes: tuple[BatchShape, ...]
    """Every shape that a batch can have; for `dynamic` the single largest one."""
    clips: np.ndarray
    """int32 (clips,): indices in the table of the clips that the plan visits."""
    frame_counts: np.ndarray
    """int32 (clips,): frames of each of them."""
    token_counts: np.ndarray
    """int32 (clips,): tokens of each of them."""
    buckets: np.ndarray
    """int64 (clips,): index in `shapes` of each of them."""
    row_size: RowSize
    """Capacity of a row of `packed`."""
    rates: np.ndarray | None = None
    """float64 (clips,): mean copies of each clip in an epoch of `packed` or `fixed`; None: every clip once."""
    _last_epoch: _LastEpoch = field(default_factory=_LastEpoch, init=False, repr=False)

    @property
    def is_static(self) -> bool:
        """Whether every batch has exactly one of `shapes`."""
        return self.kind != "dynamic"

    def rows_of_epoch(self, epoch: int) -> EpochRows:
        """The rows of an epoch: a pure function of the seed and the epoch. The last answer is kept."""
        last = self._last_epoch
        with last.lock:
            if last.rows is None or last.epoch != epoch:
                last.rows, last.epoch = self._ordered_rows(epoch), epoch
            return last.rows

    def visits(self, epoch: int) -> np.ndarray:
        """Indices in `clips` of the clips of an epoch, shuffled; with `rates`, a clip occurs several times or not at all.

        A clip of rate r has floor(r) copies, and one more with the probability of the rest.
        """
        if self.rates is None:
            return shuffled(len(self.clips), self.seed, epoch)
        whole = np.floor(self.rates)
        drawn = random_bits(self.seed, epoch, self.clips, 5).astype(np.float64) / 2.0**64
        copies = whole.astype(np.int64) + (drawn < self.rates - whole)
        members = np.repeat(np.arange(len(self.clips)), copies)
        return members[shuffled(len(members), self.seed, epoch)]

    def segments(self, position: Position, batches: int, most_batches: int | None = None) -> Iterator[Segment]:
        """The endless stream from a position on: `batches` batches, then `SEGMENT_GROWTH` times as many, up to `most_batches`."""
        most_batches = batches if most_batches is None else most_batches
        if self.kind in ("packed", "fixed"):
            return self._segments_of_one_shape(position, batches, most_batches)
        return self._segments_of_buckets(position, batches, most_batches)

    def batches(self, position: Position = (0, 0)) -> Iterator[tuple[np.ndarray, BatchShape, Position]]:
        """The endless stream batch by batch: clip indices (rows, slots), the shape, the position after the batch."""
        for segment in self.segments(position, batches=64):
            upcoming = [iter(rows) for rows in segment.rows]
            for shape_index, (epoch, row) in zip(segment.shape_indices, segment.next_positions.tolist(), strict=True):
                yield next(upcoming[shape_index]), self.shapes[shape_index], (epoch, row)

    def single_epoch(self, epoch: int = 0) -> Segment:
        """Every clip exactly once, for validation: the last batch of each shape is filled up with empty rows."""
        if self.kind == "packed":
            rows_by_shape = [self.rows_of_epoch(epoch).rows]
        else:
            order = shuffled(len(self.clips), self.seed, epoch)
            in_bucket = [order[self.buckets[order] == index] for index in range(len(self.shapes))]
            rows_by_shape = [self.clips[members][:, None] for members in in_bucket]
        batches, epochs, indices = [], [], []
        for index, (rows, shape) in enumerate(zip(rows_by_shape, self.shapes, strict=True)):
            missing = -len(rows) % shape.rows
            filled = np.concatenate([rows, np.full((missing, shape.slots), NO_CLIP, np.int32)])
            batches.append(filled.reshape(-1, shape.rows, shape.slots))
            epochs.append(np.full(batches[-1].shape[:2], epoch, np.int32))
            indices.append(np.full(len(batches[-1]), index, np.int64))
        shape_indices = np.concatenate(indices)
        ends = np.stack([np.zeros(len(shape_indices), np.int64), np.arange(1, len(shape_indices) + 1)], axis=1)
        return Segment(shape_indices, tuple(batches), tuple(epochs), ends)

    def useful_fraction(self, epochs: int = 3) -> float:
        """Fraction of the batches' frames that belong to clips, in the first epochs (fewer of them for a large corpus)."""
        if self.kind == "fixed":
            return float(np.average(self.frame_counts, weights=self.rates) / self.shapes[0].frames)
        if self.kind == "buckets":
            lengths = np.array([shape.frames for shape in self.shapes])
            return float(self.frame_counts.sum() / lengths[self.buckets].sum())
        useful = total = 0
        for epoch in range(self._counted_epochs(epochs)):
            order = self.rows_of_epoch(epoch)
            if self.kind == "packed":
                useful += int(self.frame_counts[self.visits(epoch)].sum())
                total += len(order.rows) * self.shapes[0].frames
            else:  # clips that are left over at the end of an epoch are in no batch of it
                for batch in order.rows.reshape(-1, self.shapes[0].rows):
                    lengths = self.frame_counts[np.searchsorted(self.clips, batch)]
                    useful += int(lengths.sum())
                    total += len(batch) * int(lengths.max())
        return useful / max(1, total)

    def mean_clips_per_batch(self) -> float:
        """Mean number of clips of a batch, without empty slots."""
        order = self.rows_of_epoch(0)
        if self.kind in ("buckets", "dynamic"):
            return float(order.batch_rows.mean()) if len(order.batch_rows) else 0.0
        return float((order.rows != NO_CLIP).sum(axis=1).mean() * self.shapes[0].rows)

    def batches_in(self, epochs: int) -> float:
        """Batches that hold every row of the first `epochs` epochs; not whole where the last one reaches into the next epoch."""
        if self.kind == "packed":
            counted = self._counted_epochs(epochs)
            rows = sum(len(self.rows_of_epoch(epoch).rows) for epoch in range(counted))
            return rows * epochs / counted / self.shapes[0].rows
        clips_of_shapes = np.bincount(self.buckets, self.rates, minlength=len(self.shapes)).tolist()
        return sum(epochs * clips / shape.rows for clips, shape in zip(clips_of_shapes, self.shapes, strict=True))

    def fingerprint(self, content_id: str) -> str:
        """Hash of everything that decides which clips of the cache `content_id` are in which rows and batches.

        Another number of replicas changes it only for `buckets`, whose rows per batch are a multiple of the replicas.
        """
        settings = {
            "version": ORDER_VERSION,
            "cache": content_id,
            "kind": self.kind,
            "seed": self.seed,
            "shapes": [(shape.rows, shape.tokens, shape.frames, shape.slots) for shape in self.shapes],
            "row": asdict(self.row_size) if self.kind == "packed" else None,
        }
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        for numbers in (self.clips, self.frame_counts, self.token_counts, self.buckets):
            digest.update(np.ascontiguousarray(numbers, "<i8").tobytes())
        if self.rates is not None:
            digest.update(np.ascontiguousarray(self.rates, "<f8").tobytes())
        return digest.hexdigest()

    def _counted_epochs(self, epochs: int) -> int:
        """How many of the first `epochs` epochs are counted: all, or as many as hold `COUNTED_CLIPS` clips."""
        return min(epochs, max(1, COUNTED_CLIPS // len(self.clips)))

    def _ordered_rows(self, epoch: int) -> EpochRows:
        if self.kind == "packed":
            return self._packed_rows(epoch)
        if self.kind == "fixed":
            rows = self.clips[self.visits(epoch)][:, None]
            return EpochRows(rows, np.full(len(rows), epoch, np.int32))
        return self._batches_that_end_in(epoch)

    def _packed_rows(self, epoch: int) -> EpochRows:
        order = self.visits(epoch)
        packed = pack_rows(self.frame_counts[order], self.token_counts[order], self.row_size)
        clips_in_order = np.append(self.clips[order], np.int32(NO_CLIP))
        rows = clips_in_order[packed][shuffled(len(packed), self.seed, epoch, 1)]
        return EpochRows(rows, np.full(len(rows), epoch, np.int32))

    def _batches_that_end_in(self, epoch: int) -> EpochRows:
        """Each bucket is a stream of its own, cut every `shape.rows` clips; an epoch holds the batches that are full in it."""
        rows, epochs, keys, sizes, indices = [], [], [], [], []
        for index, shape in enumerate(self.shapes):
            members = np.flatnonzero(self.buckets == index)
            first = epoch * len(members) // shape.rows
            last = (epoch + 1) * len(members) // shape.rows
            offsets = np.arange(first * shape.rows, last * shape.rows)  # in the bucket's stream
            epoch_of_row = offsets // len(members)
            clips = np.empty(len(offsets), np.int32)
            for source in np.unique(epoch_of_row):
                chosen = epoch_of_row == source
                order = members[shuffled(len(members), self.seed, int(source), index)]
                clips[chosen] = self.clips[order[offsets[chosen] % len(members)]]
            rows.append(clips)
            epochs.append(epoch_of_row)
            keys.append(random_bits(self.seed, epoch, index, np.arange(first, last), 2))
            sizes.append(np.full(last - first, shape.rows, np.int64))
            indices.append(np.full(last - first, index, np.int64))
        sizes, indices = np.concatenate(sizes), np.concatenate(indices)
        batch_order = np.argsort(np.concatenate(keys), kind="stable")
        starts = np.cumsum(sizes) - sizes
        sizes_in_order = sizes[batch_order]
        starts_in_order = np.cumsum(sizes_in_order) - sizes_in_order
        row_order = np.repeat(starts[batch_order] - starts_in_order, sizes_in_order) + np.arange(int(sizes.sum()))
        return EpochRows(
            np.concatenate(rows)[row_order][:, None],
            np.concatenate(epochs)[row_order].astype(np.int32),
            sizes_in_order,
            indices[batch_order],
        )

    def _segments_of_one_shape(self, position: Position, batches: int, most_batches: int) -> Iterator[Segment]:
        shape = self.shapes[0]
        epoch, row = position
        order = self.rows_of_epoch(epoch)
        _check_row(row, len(order.rows), position)
        while True:
            missing = batches * shape.rows
            rows, epochs, ends = [], [], []
            while missing:
                if row == len(order.rows):
                    epoch, row = epoch + 1, 0
                    order = self.rows_of_epoch(epoch)
                taken = min(missing, len(order.rows) - row)
                rows.append(order.rows[row : row + taken])
                epochs.append(order.epochs[row : row + taken])
                row += taken
                missing -= taken
                end = np.stack([np.full(taken, epoch), np.arange(row - taken + 1, row + 1)], axis=1)
                if row == len(order.rows):
                    end[-1] = (epoch + 1, 0)
                ends.append(end)
            yield Segment(
                np.zeros(batches, np.int64),
                (np.concatenate(rows).reshape(batches, shape.rows, shape.slots),),
                (np.concatenate(epochs).reshape(batches, shape.rows),),
                np.concatenate(ends)[shape.rows - 1 :: shape.rows],
            )
            batches = min(SEGMENT_GROWTH * batches, most_batches)

    def _segments_of_buckets(self, position: Position, batches: int, most_batches: int) -> Iterator[Segment]:
        epoch, row = position
        collected: list[_BucketBatch] = []
        while True:
            order = self.rows_of_epoch(epoch)
            boundaries = np.concatenate([[0], np.cumsum(order.batch_rows)])
            _check_row(row, int(boundaries[-1]), position)
            first_batch = int(np.searchsorted(boundaries, row))
            if boundaries[first_batch] != row:
                raise PlanError(
                    f"No batch begins at position {position}. Expected: a position reported by a feed of this plan."
                )
            for batch in range(first_batch, len(order.batch_rows)):
                start, end = int(boundaries[batch]), int(boundaries[batch + 1])
                after = (epoch + 1, 0) if end == boundaries[-1] else (epoch, end)
                shape_index = int(order.shape_indices[batch])
                collected.append((order.rows[start:end], order.epochs[start:end], shape_index, after))
                if len(collected) == batches:
                    yield self._grouped_by_shape(collected)
                    collected = []
                    batches = min(SEGMENT_GROWTH * batches, most_batches)
            epoch, row = epoch + 1, 0

    def _grouped_by_shape(self, collected: list[_BucketBatch]) -> Segment:
        rows, epochs = [], []
        for index, shape in enumerate(self.shapes):
            mine = [batch for batch in collected if batch[2] == index]
            rows.append(np.array([batch[0] for batch in mine], np.int32).reshape(-1, shape.rows, shape.slots))
            epochs.append(np.array([batch[1] for batch in mine], np.int32).reshape(-1, shape.rows))
        indices = np.array([batch[2] for batch in collected], np.int64)
        return Segment(indices, tuple(rows), tuple(epochs), np.array([batch[3] for batch in collected], np.int64))


_BucketBatch = tuple[np.ndarray, np.ndarray, int, Position]
"""Rows, their epochs, index of the shape, position after the batch."""


def _check_row(row: int, rows_of_epoch: int, position: Position) -> None:
    if not 0 <= row <= rows_of_epoch:
        raise PlanError(
            f"Position {position} is not in this plan: its epoch has {rows_of_epoch} rows. Was it saved with other data "
            "or settings? Start again with --reset-training."
        )


def shuffled(count: int, *keys: int) -> np.ndarray:
    """The integers 0 … count-1 in the order that belongs to the keys: int64 (count,)."""
    return np.argsort(random_bits(*keys, np.arange(count)), kind="stable")


def random_bits(*keys: int | np.ndarray) -> np.ndarray:
    """One pseudorandom uint64 for each combination of the keys, which are broadcast against each other.

    A pure function of the keys, the same on every machine and with every NumPy version: the finalizer of SplitMix64 (Steele, Lea
    and Flood, "Fast splittable pseudorandom number generators", 2014) applied key by key.
    """
    state = np.asarray(np.uint64(0))
    with np.errstate(over="ignore"):
        for key in keys:
            state = _finalized(state ^ np.asarray(key).astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        return _finalized(np.asarray(state))


def _finalized(numbers: np.ndarray) -> np.ndarray:
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))
