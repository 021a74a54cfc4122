"""Bucket lengths that waste the least: dynamic programming on the histogram of clip lengths.

In: frames of each clip and a number of buckets. Out: the upper lengths, ascending; each clip belongs to the first that holds it.
"""

from __future__ import annotations

import numpy as np

MAX_CANDIDATES = 1024
"""Lengths that may become an upper bound; a corpus with more distinct lengths is looked at in steps of several frames."""


def best_bucket_lengths(frame_counts: np.ndarray, num_buckets: int) -> np.ndarray:
    """At most `num_buckets` upper lengths (int64, ascending) with the smallest sum of padded frames; the last holds all clips."""
    frame_counts = np.asarray(frame_counts, np.int64)
    longest = int(frame_counts.max())
    step = -(-longest // MAX_CANDIDATES)
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
