"""The limits that a plan sets: opened cache and lengths in, the clips that fit and those that are set aside out.

`max_text_length` and `max_mel_frames` are not part of a cache's fingerprint: changing them decodes nothing again.
"""

from __future__ import annotations

import numpy as np

from myxtts.data.cache import Cache
from myxtts.data.manifest import Rejection
from myxtts.data.plan import fitting_clips

LONG_TEXT = "longer than max_text_length"
LONG_CLIP = "longer than max_mel_frames"


def usable_clips(cache: Cache, max_text_length: int, max_mel_frames: int) -> tuple[np.ndarray, list[Rejection]]:
    """Numbers of the clips that fit as a whole, int32 ascending, and a rejection for each of the others."""
    fits = fitting_clips(cache.frame_counts, cache.token_counts, max_text_length, max_mel_frames)
    rejections = []
    for clip in np.flatnonzero(~fits).tolist():
        symbols, frames = int(cache.token_counts[clip]), int(cache.frame_counts[clip])
        if symbols > max_text_length:
            reason, detail = LONG_TEXT, f"{symbols} symbols, data.max_text_length is {max_text_length}"
        else:
            reason, detail = LONG_CLIP, f"{frames} frames, data.max_mel_frames is {max_mel_frames}"
        rejections.append(Rejection(cache.ids[clip], "", reason, detail))
    return np.flatnonzero(fits).astype(np.int32), rejections


def resolved_max_mel_frames(cache: Cache, configured: int | str, max_text_length: int) -> int:
    """`data.max_mel_frames` as a number; `auto` is derived from the lengths of the clips."""
    if configured != "auto":
        return configured
    frames = cache.frame_counts[cache.token_counts <= max_text_length]
    return automatic_max_mel_frames(frames)


def automatic_max_mel_frames(frame_counts: np.ndarray) -> int:
    """Frames of the longest clip, unless a few outliers are much longer than the rest; rounded up to a multiple of 32.

    At least six mean clips long, so that packed rows can be filled well.
    """
    if not len(frame_counts):
        return 32
    longest, usual = int(frame_counts.max()), float(np.percentile(frame_counts, 99.5))
    wanted = longest if longest <= 1.5 * usual else usual
    return int(-(-max(wanted, 6 * float(frame_counts.mean())) // 32) * 32)
