"""Pack whole clips into rows of a fixed number of frames and tokens, nearly full and still in random order.

Pure arithmetic, linear in the number of clips. A row is filled with the next clips of the shuffled order while there is plenty
of room. For its end, the clip is chosen among the next few that leaves the fewest frames empty together with the best-fitting
clip of the window. Clips of one length are in one queue, and the lengths of non-empty queues are the bits of one integer, so that
the best fit is a mask and a bit length.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

import numpy as np

from myxtts.batch import NO_CLIP

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
