"""How clips fill static shapes: packed rows, and shapes of rows and buckets with little padding. No TensorFlow, no files.

Packing puts whole clips into rows of a fixed number of frames and tokens, nearly full and still in random order. It is pure
arithmetic, linear in the number of clips. A row is filled with the next clips of the shuffled order while there is plenty
of room. For its end, the clip is chosen among the next few that leaves the fewest frames empty together with the best-fitting
clip of the window. Clips of one length are in one queue, and the lengths of non-empty queues are the bits of one integer, so that
the best fit is a mask and a bit length.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

import numpy as np

from myxtts.batch import NO_CLIP, BatchShape
from myxtts.errors import PlanError

WINDOW_CLIPS = 2048
"""Clips of the order from which a row's end is chosen: enough to fit closely, few compared with a large corpus."""
END_CANDIDATES = 12
"""Next clips of the order that are tried in pairs with a best fit. Chosen; not measured."""
ROWS_BETWEEN_PAUSES = 8
"""An epoch is packed in a thread during training, which yields to other threads 1,000 times as often as Python does by itself."""


@dataclass(frozen=True)
class RowSize:
    """Capacity of a packed row."""

    frames: int
    tokens: int
    slots: int
    gap_frames: int
    gap_tokens: int


def pack_rows(frame_counts: np.ndarray, token_counts: np.ndarray, size: RowSize) -> np.ndarray:
    """Which clips share a row.

    Args:
        frame_counts: (clips,), in shuffled order.
        token_counts: (clips,), in the same order.
        size: capacity of a row; every clip must fit into an empty row (`myxtts.batches.plan` checks that).

    Returns:
        int32 (rows, slots): positions in the given order, `NO_CLIP` where a slot is empty; each clip is in one row.
    """
    positions, row_lengths = _placed_clips(frame_counts, token_counts, size)
    rows = np.full((len(row_lengths), size.slots), NO_CLIP, np.int32)
    row_indices = np.repeat(np.arange(len(row_lengths)), row_lengths)
    first_of_row = np.cumsum(row_lengths) - row_lengths
    rows[row_indices, np.arange(len(positions)) - first_of_row[row_indices]] = positions
    return rows


def _placed_clips(frame_counts: np.ndarray, token_counts: np.ndarray, size: RowSize) -> tuple[np.ndarray, np.ndarray]:
    """The clips' positions, row after row, and the number of clips of each row."""
    # A gap follows every clip but the last one: lengths and room both include one gap, and the last gap is beyond the end.
    lengths: list[int] = (np.asarray(frame_counts, np.int64) + size.gap_frames).tolist()
    texts: list[int] = (np.asarray(token_counts, np.int64) + size.gap_tokens).tolist()
    row_room = size.frames + size.gap_frames
    row_token_room = size.tokens + size.gap_tokens
    plenty = 2 * (sum(lengths) // max(1, len(lengths)))
    num_clips = len(lengths)

    waiting_by_length: list[deque[int]] = [deque() for _ in range(row_room + 1)]
    waiting_bits = 0
    up_to = [(1 << (length + 1)) - 1 for length in range(row_room + 1)]
    is_placed = bytearray(num_clips)
    entered = 0  # clips of the order that have come into the window
    oldest = 0  # every clip before this one is placed
    placed: list[int] = []
    row_lengths: list[int] = []

    while len(placed) < num_clips:
        row_start = len(placed)
        room, token_room = row_room, row_token_room
        while True:
            while entered < num_clips and entered - len(placed) < WINDOW_CLIPS:
                length = lengths[entered]
                waiting_by_length[length].append(entered)
                waiting_bits |= 1 << length
                entered += 1
            while oldest < num_clips and is_placed[oldest]:
                oldest += 1
            if oldest == num_clips or len(placed) - row_start == size.slots:
                break
            if room == row_room or (room > plenty and lengths[oldest] <= room and texts[oldest] <= token_room):
                length = lengths[oldest]
            else:
                fitting = waiting_bits & up_to[room]
                if not fitting:
                    break
                length = _ending_length(lengths, is_placed, oldest, entered, fitting, room, up_to)
                while texts[waiting_by_length[length][0]] > token_room:
                    fitting &= up_to[length - 1]
                    if not fitting:
                        length = 0
                        break
                    length = fitting.bit_length() - 1
                if not length:
                    break
            queue = waiting_by_length[length]
            clip = queue.popleft()
            if not queue:
                waiting_bits ^= 1 << length
            is_placed[clip] = 1
            placed.append(clip)
            room -= length
            token_room -= texts[clip]
        row_lengths.append(len(placed) - row_start)
        if len(row_lengths) % ROWS_BETWEEN_PAUSES == 0:
            time.sleep(0)
    return np.array(placed, np.int64), np.array(row_lengths, np.int64)


def _ending_length(
    lengths: list[int],
    is_placed: bytearray,
    oldest: int,
    entered: int,
    fitting: int,
    room: int,
    up_to: list[int],
) -> int:
    """The length to place next so that, with one best fit after it, the fewest frames of the row stay empty."""
    best = fitting.bit_length() - 1
    least_left = room - best
    if least_left == 0:
        return best
    tried = 0
    position = oldest
    while tried < END_CANDIDATES and position < entered:
        if not is_placed[position]:
            tried += 1
            length = lengths[position]
            if length < room:
                rest = fitting & up_to[room - length]
                left = room - length - (rest.bit_length() - 1) if rest else room - length
                if left < least_left:
                    best, least_left = length, left
                    if left == 0:
                        break
        position += 1
    return best


SAMPLE_CLIPS = 20_000
"""Clips from which the sizes of a packed row are derived."""
SPARE_ROWS = 0.005
"""How many more rows, as a fraction, may be needed because rows hold fewer tokens. Chosen; not measured."""
MOST_CANDIDATES = 1024
"""Lengths that may become the length of a bucket; more distinct lengths are rounded up to multiples of several frames."""


def packed_row_size(
    frames: np.ndarray, tokens: np.ndarray, order: np.ndarray, row_frames: int, gap_frames: int, gap_tokens: int
) -> tuple[RowSize, float]:
    """The fewest tokens, and the slots, with which as few rows hold the clips as without a limit; and the mean clips per row.

    Tokens that no clip fills are computed as well: on the bundled prompts 208 tokens hold what 232 do.

    Args:
        frames: of each clip, (clips,).
        tokens: of each clip, (clips,).
        order: the clips in shuffled order; the first `SAMPLE_CLIPS` are packed.
    """
    sample_frames, sample_tokens = frames[order[:SAMPLE_CLIPS]], tokens[order[:SAMPLE_CLIPS]]
    most_clips = max(1, (row_frames + gap_frames) // (int(sample_frames.min()) + gap_frames))
    all_tokens = int(sample_tokens.sum()) + gap_tokens * len(sample_tokens)
    rows = pack_rows(sample_frames, sample_tokens, RowSize(row_frames, all_tokens, most_clips, gap_frames, gap_tokens))
    clips_of_rows = (rows != NO_CLIP).sum(axis=1)
    tokens_of_clips = np.append(sample_tokens + gap_tokens, 0)
    tokens_of_rows = tokens_of_clips[rows].sum(axis=1) - gap_tokens
    slots = int(np.ceil(np.percentile(clips_of_rows, 99)))

    def size_with(row_tokens: int) -> RowSize:
        return RowSize(row_frames, row_tokens, slots, gap_frames, gap_tokens)

    fewest = multiple_of(8, max(int(tokens_of_rows.mean()), int(tokens.max())))
    enough = max(fewest, multiple_of(8, int(tokens_of_rows.max())))
    most_rows = len(rows) * (1 + SPARE_ROWS)
    while fewest < enough:
        middle = (fewest + enough) // 2 // 8 * 8
        if len(pack_rows(sample_frames, sample_tokens, size_with(middle))) <= most_rows:
            enough = middle
        else:
            fewest = middle + 8
    return size_with(enough), float(clips_of_rows.mean())


def packed_shape(row_size: RowSize, clips_per_row: float, batch_size: int, replicas: int) -> BatchShape:
    """The shape whose rows hold about `batch_size` clips. Raises `PlanError` if they cannot be split among the replicas."""
    rows = max(1, round(batch_size / clips_per_row))
    if rows % replicas:
        suggested = round(multiple_of(replicas, rows) * clips_per_row)
        raise PlanError(
            f"The {rows} packed rows that hold {batch_size} clips cannot be split among {replicas} replicas. "
            f"Try data.batch_size={suggested}."
        )
    return BatchShape(rows, row_size.tokens, row_size.frames, row_size.slots)


def bucket_shapes(
    frames: np.ndarray, tokens: np.ndarray, num_buckets: int, batch_size: int, replicas: int
) -> list[BatchShape]:
    """Shapes of the best lengths. A longer bucket holds at least the tokens of a shorter one, so that the longest holds all."""
    bounds = best_bucket_lengths(frames, num_buckets)
    budget = batch_size * float(frames.mean())
    shapes, most_tokens, shorter = [], 1, 0
    for bound in bounds.tolist():
        members = (frames > shorter) & (frames <= bound)
        most_tokens = max(most_tokens, int(tokens[members].max()))
        most_rows = max(1, int(members.sum()) // replicas)
        rows = replicas * min(most_rows, max(1, round(budget / bound / replicas)))
        shapes.append(BatchShape(rows, multiple_of(8, most_tokens), bound))
        shorter = bound
    return shapes


def best_bucket_lengths(frame_counts: np.ndarray, num_buckets: int) -> np.ndarray:
    """The lengths of at most `num_buckets` buckets that need the fewest padded frames.

    Found by dynamic programming on the histogram of the lengths. int64, ascending; a clip belongs to the first bucket that is
    long enough, and the last one holds all clips.
    """
    frame_counts = np.asarray(frame_counts, np.int64)
    longest = int(frame_counts.max())
    step = -(-longest // MOST_CANDIDATES)
    rounded = -(-frame_counts // step) * step
    lengths, counts = np.unique(rounded, return_counts=True)
    lengths[-1] = longest
    clips_up_to = np.concatenate([[0], np.cumsum(counts)])

    # padded[i, j]: frames of a bucket that holds the candidates i … j-1, all padded to the longest of them.
    padded = (clips_up_to[None, :] - clips_up_to[:, None]) * np.concatenate([[0], lengths])[None, :].astype(np.float64)
    padded[np.tril_indices(len(lengths) + 1)] = np.inf
    least = padded[0].copy()  # padded frames of the first j candidates in the buckets used so far
    starts_of_last_bucket = []
    for _ in range(min(num_buckets, len(lengths)) - 1):
        totals = least[:, None] + padded
        starts = np.argmin(totals, axis=0)
        starts_of_last_bucket.append(starts)
        least = np.take_along_axis(totals, starts[None, :], axis=0)[0]

    end = len(lengths)
    bounds = [int(lengths[-1])]
    for starts in reversed(starts_of_last_bucket):
        end = int(starts[end])
        bounds.append(int(lengths[end - 1]))
    return np.array(bounds[::-1], np.int64)


def multiple_of(factor: int, number: float) -> int:
    """The smallest positive multiple of `factor` that is at least `number`."""
    return int(-(-max(1, number) // factor) * factor)
