"""The limits that a plan sets: opened cache and lengths in, the clips that fit and those that are skipped out.

`max_text_length` and `max_mel_frames` are not part of a cache's fingerprint: changing them decodes nothing again.
"""

from __future__ import annotations

import numpy as np

from myxtts.config.config import DataConfig
from myxtts.data.cache import Cache
from myxtts.data.manifest import Rejection
from myxtts.data.plan import fitting_clips, plan_kind

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


def resolved_max_mel_frames(
    cache: Cache, configured: int | str, max_text_length: int, plan_kind: str = "packed"
) -> int:
    """`data.max_mel_frames` as a number; `auto` is derived from the lengths of the clips whose text fits."""
    if configured != "auto":
        return configured
    return automatic_max_mel_frames(cache.frame_counts[cache.token_counts <= max_text_length], plan_kind)


def describe_sound(cache: Cache, config: DataConfig, recorded_rates: np.ndarray) -> str:
    """One line: rate of the recordings (Hz, one for each) and of the voice, its frames, and what the limits drop."""
    mel, max_text_length = cache.mel, config.max_text_length
    max_mel_frames = resolved_max_mel_frames(cache, config.max_mel_frames, max_text_length, plan_kind(config))
    rates, counts = np.unique(recorded_rates[recorded_rates > 0], return_counts=True)
    recorded = ", ".join(f"{rates[place]}" for place in np.argsort(-counts, kind="stable")[:3])
    more = " and other rates" if len(rates) > 3 else ""
    longest_seconds = (max_mel_frames * mel.hop_length - 1) / mel.sample_rate  # the inverse of `num_frames`
    dropped = int((~fitting_clips(cache.frame_counts, cache.token_counts, max_text_length, max_mel_frames)).sum())
    return (
        f"recordings at {recorded} Hz{more} → voice at {mel.sample_rate} Hz; hop {mel.hop_length}, frames of "
        f"{1000 / mel.frames_per_second:.1f} ms; clips up to {longest_seconds:.1f} s fit ({max_mel_frames} frames, "
        f"{max_text_length} symbols); {dropped} of {len(cache.frame_counts)} clips are longer and dropped"
    )


def automatic_max_mel_frames(frame_counts: np.ndarray, plan_kind: str = "packed") -> int:
    """Frames of the longest clip, unless a few outliers are much longer than the rest; a multiple of 32.

    A packed row holds at least four clips of mean length, so that its end can be filled well.
    """
    wanted = automatic_limit(frame_counts)
    if plan_kind == "packed" and len(frame_counts):
        wanted = max(wanted, 4 * float(frame_counts.mean()))
    return _multiple_of_32(wanted)


def automatic_limit(lengths: np.ndarray) -> int:
    """The longest of the lengths, or, if that is far beyond the others, what 99.5 % of them stay below."""
    if not len(lengths):
        return 1
    longest, usual = int(lengths.max()), float(np.percentile(lengths, 99.5))
    return longest if longest <= 1.5 * usual else int(np.ceil(usual))


def _multiple_of_32(frames: float) -> int:
    return int(-(-frames // 32) * 32)
