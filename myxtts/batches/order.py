"""The stream of rows that a plan describes: an order that is pure arithmetic.

In: a `Plan` (made by `myxtts.batches.plan.build_plan`) and a position. Out: clip numbers, batch after batch. The rows of pass p
follow from (seed, p) alone; the stream is pass after pass, a position in it is (pass, row), and whoever starts at a position
gets exactly the batches that were left. No TensorFlow, no files: `myxtts.batches.feed` turns the numbers into batches.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np

from myxtts.batch import NO_CLIP, BatchShape
from myxtts.batches.packing import RowSize, pack_rows
from myxtts.errors import PlanError

# MERGED: Random order without hidden state: numbers that follow from (seed, pass, clip) alone, on every machine and NumPy
# version.
#
# In: integers. Out: 64-bit numbers that look random (the finaliser of the SplitMix64 generator), and orders sorted by them.


def mixed(*keys: int | np.ndarray) -> np.ndarray:
    """One uint64 for each combination of the keys, which are broadcast against each other."""
    state = np.uint64(0)
    with np.errstate(over="ignore"):
        for key in keys:
            state = _finalised(state ^ np.asarray(key).astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        return _finalised(np.asarray(state))


def shuffled(count: int, *keys: int) -> np.ndarray:
    """The numbers 0 … count-1 in the order that belongs to the keys: int64 (count,)."""
    return np.argsort(mixed(*keys, np.arange(count)), kind="stable")


def _finalised(numbers: np.ndarray) -> np.ndarray:
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


Position = tuple[int, int]
"""(pass, row): the first row that has not been delivered. It has a meaning only with the `Plan.fingerprint` it belongs to."""
ORDER_VERSION = 1
"""To be raised with every change of the arithmetic that gives the same settings another order."""
COUNTED_CLIPS = 20_000
"""Packed rows are counted in as many epochs as hold so many clips (about 0.3 s); later epochs are taken to be as long."""


@dataclass(frozen=True)
class PassRows:
    """The rows of one pass, in order."""

    rows: np.ndarray
    """int32 (rows, slots): clip numbers, `NO_CLIP` for an empty slot."""
    passes: np.ndarray
    """int32 (rows,): the pass that each row belongs to; a bucket's batch may begin with rows of the pass before."""
    batch_rows: np.ndarray | None = None
    """int64 (batches,): rows of each batch, for plans of several shapes. None: the stream is cut every `shape.rows` rows."""
    shape_numbers: np.ndarray | None = None
    """int64 (batches,): index in `Plan.shapes`, for plans of several shapes."""


@dataclass(frozen=True)
class Segment:
    """Consecutive batches of the stream, gathered by shape."""

    shape_numbers: np.ndarray
    """int64 (batches,): the shape of each batch, in order."""
    rows: tuple[np.ndarray, ...]
    """For each shape of the plan: int32 (its batches, rows, slots), clip numbers."""
    passes: tuple[np.ndarray, ...]
    """For each shape of the plan: int32 (its batches, rows), the pass of each row."""
    next_positions: np.ndarray
    """int64 (batches, 2): the position after each batch."""


@dataclass(frozen=True, eq=False)
class Plan:
    """Static shapes and the order of the clips. Made by `build_plan`."""

    kind: str
    seed: int
    shapes: tuple[BatchShape, ...]
    """Every shape that a batch can have; for `dynamic` the single largest one."""
    clips: np.ndarray
    """int32 (clips,): numbers in the cache of the clips that the plan visits."""
    frame_counts: np.ndarray
    """int32 (clips,): frames of each of them."""
    token_counts: np.ndarray
    """int32 (clips,): tokens of each of them."""
    buckets: np.ndarray
    """int64 (clips,): index in `shapes` of each of them."""
    row_size: RowSize
    """What a row of `packed` can hold."""

    @property
    def is_static(self) -> bool:
        """Whether every batch has exactly one of `shapes`."""
        return self.kind != "dynamic"

    def rows_of_pass(self, pass_number: int) -> PassRows:
        """The rows of a pass: a pure function of the seed and the pass."""
        if self.kind == "packed":
            return self._packed_rows(pass_number)
        if self.kind == "fixed":
            rows = self.clips[shuffled(len(self.clips), self.seed, pass_number)][:, None]
            return PassRows(rows, np.full(len(rows), pass_number, np.int32))
        return self._batches_that_end_in_pass(pass_number)

    def segments(self, position: Position, batches: int, most_batches: int | None = None) -> Iterator[Segment]:
        """The stream from a position on, endlessly: `batches` batches, then four times as many, up to `most_batches`."""
        most_batches = batches if most_batches is None else most_batches
        if self.kind in ("packed", "fixed"):
            return self._segments_of_one_shape(position, batches, most_batches)
        return self._segments_of_buckets(position, batches, most_batches)

    def batches(self, position: Position = (0, 0)) -> Iterator[tuple[np.ndarray, BatchShape, Position]]:
        """The stream batch by batch, endlessly: clip numbers (rows, slots), the shape, the position after the batch."""
        for segment in self.segments(position, batches=64):
            upcoming = [iter(rows) for rows in segment.rows]
            for shape_number, next_position in zip(segment.shape_numbers, segment.next_positions, strict=True):
                yield next(upcoming[shape_number]), self.shapes[shape_number], tuple(next_position.tolist())

    def single_pass(self, pass_number: int = 0) -> Segment:
        """Every clip exactly once, for validation: the last batch of each shape is filled with empty rows."""
        if self.kind == "packed":
            rows_by_shape = [self._packed_rows(pass_number).rows]
        else:
            order = shuffled(len(self.clips), self.seed, pass_number)
            in_bucket = [order[self.buckets[order] == number] for number in range(len(self.shapes))]
            rows_by_shape = [self.clips[members][:, None] for members in in_bucket]
        batches, passes, numbers = [], [], []
        for number, (rows, shape) in enumerate(zip(rows_by_shape, self.shapes, strict=True)):
            missing = -len(rows) % shape.rows
            filled = np.concatenate([rows, np.full((missing, shape.slots), NO_CLIP, np.int32)])
            batches.append(filled.reshape(-1, shape.rows, shape.slots))
            passes.append(np.full(batches[-1].shape[:2], pass_number, np.int32))
            numbers.append(np.full(len(batches[-1]), number, np.int64))
        shape_numbers = np.concatenate(numbers)
        ends = np.stack([np.zeros(len(shape_numbers), np.int64), np.arange(1, len(shape_numbers) + 1)], axis=1)
        return Segment(shape_numbers, tuple(batches), tuple(passes), ends)

    def useful_share(self, passes: int = 3) -> float:
        """Frames of clips among all frames of the batches (a fraction), counted over the first passes."""
        if self.kind == "fixed":
            return float(self.frame_counts.mean() / self.shapes[0].frames)
        if self.kind == "buckets":
            lengths = np.array([shape.frames for shape in self.shapes])
            return float(self.frame_counts.sum() / lengths[self.buckets].sum())
        useful = total = 0
        for pass_number in range(passes):
            order = self.rows_of_pass(pass_number)
            if self.kind == "packed":
                useful += int(self.frame_counts.sum())
                total += len(order.rows) * self.shapes[0].frames
            else:  # clips that are left over at the end of an epoch are in no batch of it
                for batch in order.rows.reshape(-1, self.shapes[0].rows):
                    lengths = self.frame_counts[np.searchsorted(self.clips, batch)]
                    useful += int(lengths.sum())
                    total += len(batch) * int(lengths.max())
        return useful / max(1, total)

    def mean_clips_per_batch(self) -> float:
        """Clips of an average batch, empty slots not counted."""
        order = self.rows_of_pass(0)
        if order.batch_rows is not None:
            return float(order.batch_rows.mean()) if len(order.batch_rows) else 0.0
        return float((order.rows != NO_CLIP).sum(axis=1).mean() * self.shapes[0].rows)

    def batches_in(self, epochs: int) -> float:
        """Batches that hold every row of the first `epochs` epochs; a fraction where the last one reaches into the next epoch."""
        if self.kind == "packed":
            counted = min(epochs, max(1, COUNTED_CLIPS // len(self.clips)))
            rows = sum(len(self._packed_rows(number).rows) for number in range(counted))
            return rows * epochs / counted / self.shapes[0].rows
        clips_of_shapes = np.bincount(self.buckets, minlength=len(self.shapes)).tolist()
        return sum(epochs * clips / shape.rows for clips, shape in zip(clips_of_shapes, self.shapes, strict=True))

    def fingerprint(self, content_id: str) -> str:
        """Hash of everything that decides which clips of the cache `content_id` lie in which rows and batches.

        Another number of replicas changes it only for `buckets`, whose rows per batch are a multiple of them.
        """
        settings = {
            "version": ORDER_VERSION,
            "cache": content_id,
            "kind": self.kind,
            "seed": self.seed,
            "shapes": [(shape.rows, shape.tokens, shape.frames, shape.slots) for shape in self.shapes],
            "row": asdict(self.row_size) if self.kind == "packed" else None,
        }
        found = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        for numbers in (self.clips, self.frame_counts, self.token_counts, self.buckets):
            found.update(np.ascontiguousarray(numbers, "<i8"))
        return found.hexdigest()

    def _packed_rows(self, pass_number: int) -> PassRows:
        order = shuffled(len(self.clips), self.seed, pass_number)
        packed = pack_rows(self.frame_counts[order], self.token_counts[order], self.row_size)
        clips_in_order = np.append(self.clips[order], np.int32(NO_CLIP))
        rows = clips_in_order[packed][shuffled(len(packed), self.seed, pass_number, 1)]
        return PassRows(rows, np.full(len(rows), pass_number, np.int32))

    def _batches_that_end_in_pass(self, pass_number: int) -> PassRows:
        """Each bucket is a stream of its own, cut every `shape.rows` clips; a pass holds the batches that are full in it."""
        rows, passes, keys, sizes, numbers = [], [], [], [], []
        for number, shape in enumerate(self.shapes):
            members = np.flatnonzero(self.buckets == number)
            first = pass_number * len(members) // shape.rows
            last = (pass_number + 1) * len(members) // shape.rows
            places = np.arange(first * shape.rows, last * shape.rows)
            pass_of_place = places // len(members)
            clips = np.empty(len(places), np.int32)
            for source in np.unique(pass_of_place):
                chosen = pass_of_place == source
                order = members[shuffled(len(members), self.seed, int(source), number)]
                clips[chosen] = self.clips[order[places[chosen] % len(members)]]
            rows.append(clips)
            passes.append(pass_of_place)
            keys.append(mixed(self.seed, pass_number, number, np.arange(first, last), 2))
            sizes.append(np.full(last - first, shape.rows, np.int64))
            numbers.append(np.full(last - first, number, np.int64))
        sizes, numbers = np.concatenate(sizes), np.concatenate(numbers)
        batch_order = np.argsort(np.concatenate(keys), kind="stable")
        starts = np.cumsum(sizes) - sizes
        sizes_in_order = sizes[batch_order]
        starts_in_order = np.cumsum(sizes_in_order) - sizes_in_order
        row_order = np.repeat(starts[batch_order] - starts_in_order, sizes_in_order) + np.arange(int(sizes.sum()))
        return PassRows(
            np.concatenate(rows)[row_order][:, None],
            np.concatenate(passes)[row_order].astype(np.int32),
            sizes_in_order,
            numbers[batch_order],
        )

    def _segments_of_one_shape(self, position: Position, batches: int, most_batches: int) -> Iterator[Segment]:
        shape = self.shapes[0]
        pass_number, row = position
        order = self.rows_of_pass(pass_number)
        self._check_row(row, len(order.rows), position)
        while True:
            missing = batches * shape.rows
            rows, passes, ends = [], [], []
            while missing:
                if row == len(order.rows):
                    pass_number, row = pass_number + 1, 0
                    order = self.rows_of_pass(pass_number)
                taken = min(missing, len(order.rows) - row)
                rows.append(order.rows[row : row + taken])
                passes.append(order.passes[row : row + taken])
                row += taken
                missing -= taken
                end = np.stack([np.full(taken, pass_number), np.arange(row - taken + 1, row + 1)], axis=1)
                if row == len(order.rows):
                    end[-1] = (pass_number + 1, 0)
                ends.append(end)
            yield Segment(
                np.zeros(batches, np.int64),
                (np.concatenate(rows).reshape(batches, shape.rows, shape.slots),),
                (np.concatenate(passes).reshape(batches, shape.rows),),
                np.concatenate(ends)[shape.rows - 1 :: shape.rows],
            )
            batches = min(4 * batches, most_batches)

    def _segments_of_buckets(self, position: Position, batches: int, most_batches: int) -> Iterator[Segment]:
        pass_number, row = position
        collected: list[tuple[np.ndarray, np.ndarray, int, Position]] = []
        while True:
            order = self.rows_of_pass(pass_number)
            boundaries = np.concatenate([[0], np.cumsum(order.batch_rows)])
            self._check_row(row, int(boundaries[-1]), position)
            first_batch = int(np.searchsorted(boundaries, row))
            if boundaries[first_batch] != row:
                raise PlanError(
                    f"No batch begins at position {position}. Give a position that a feed of this plan reported."
                )
            for batch in range(first_batch, len(order.batch_rows)):
                start, end = int(boundaries[batch]), int(boundaries[batch + 1])
                after = (pass_number + 1, 0) if end == boundaries[-1] else (pass_number, end)
                collected.append(
                    (order.rows[start:end], order.passes[start:end], int(order.shape_numbers[batch]), after)
                )
                if len(collected) == batches:
                    yield self._gathered_by_shape(collected)
                    collected = []
                    batches = min(4 * batches, most_batches)
            pass_number, row = pass_number + 1, 0

    def _gathered_by_shape(self, collected: list[tuple[np.ndarray, np.ndarray, int, Position]]) -> Segment:
        rows, passes = [], []
        for number, shape in enumerate(self.shapes):
            mine = [batch for batch in collected if batch[2] == number]
            rows.append(np.array([batch[0] for batch in mine], np.int32).reshape(-1, shape.rows, shape.slots))
            passes.append(np.array([batch[1] for batch in mine], np.int32).reshape(-1, shape.rows))
        numbers = np.array([batch[2] for batch in collected], np.int64)
        return Segment(numbers, tuple(rows), tuple(passes), np.array([batch[3] for batch in collected], np.int64))

    def _check_row(self, row: int, rows_of_pass: int, position: Position) -> None:
        if not 0 <= row <= rows_of_pass:
            raise PlanError(
                f"Position {position} is not in this plan: its pass has {rows_of_pass} rows. Was it saved with other data "
                "or settings? Start again with --reset-training."
            )
