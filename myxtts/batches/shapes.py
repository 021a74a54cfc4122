"""Static shapes from the lengths of clips: packed rows and buckets with little padding. No TensorFlow, no files."""

from __future__ import annotations

import numpy as np

from myxtts.batch import NO_CLIP, BatchShape
from myxtts.batches.order import shuffled
from myxtts.batches.packing import RowSize, pack_rows
from myxtts.errors import PlanError

SAMPLE_CLIPS = 20_000
"""Clips from which the sizes of a packed row are derived."""
SPARE_ROWS = 0.005
"""How many more rows, as a fraction, may be needed because rows hold fewer tokens. Chosen; not measured."""
MOST_CANDIDATES = 1024
"""Lengths that may become the length of a bucket; more distinct lengths are rounded up to multiples of several frames."""


def packed_row_size(
    frames: np.ndarray, tokens: np.ndarray, row_frames: int, gap_frames: int, gap_tokens: int, seed: int
) -> tuple[RowSize, float]:
    """The fewest tokens, and the slots, with which as few rows hold the clips as without a limit; and the mean clips per row.

    Tokens that no clip fills are computed as well: on the bundled prompts 208 tokens hold what 232 do.
    """
    sample = shuffled(len(frames), seed, 0)[:SAMPLE_CLIPS]
    most_clips = max(1, (row_frames + gap_frames) // (int(frames[sample].min()) + gap_frames))
    free = RowSize(row_frames, int(tokens[sample].sum()) + gap_tokens * len(sample), most_clips, gap_frames, gap_tokens)
    rows = pack_rows(frames[sample], tokens[sample], free)
    clips_of_rows = (rows != NO_CLIP).sum(axis=1)
    tokens_of_clips = np.append(tokens[sample] + gap_tokens, 0)
    tokens_of_rows = tokens_of_clips[rows].sum(axis=1) - gap_tokens
    slots = int(np.ceil(np.percentile(clips_of_rows, 99)))

    def size_with(row_tokens: int) -> RowSize:
        return RowSize(row_frames, row_tokens, slots, gap_frames, gap_tokens)

    fewest = multiple_of(8, max(int(tokens_of_rows.mean()), int(tokens.max())))
    enough = max(fewest, multiple_of(8, int(tokens_of_rows.max())))
    most_rows = len(rows) * (1 + SPARE_ROWS)
    while fewest < enough:
        middle = (fewest + enough) // 2 // 8 * 8
        if len(pack_rows(frames[sample], tokens[sample], size_with(middle))) <= most_rows:
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
