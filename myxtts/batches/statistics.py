"""Statistics of a prepared corpus as plain numbers, and their histograms.

Lengths, what each candidate limit would drop, how much of each plan's batches would be padding, and settings to paste.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from myxtts.batches.order import shuffled
from myxtts.batches.plan import (
    automatic_limit,
    automatic_max_mel_frames,
    build_plan,
    plan_kind,
    plan_sizes,
    resolved_max_mel_frames,
    usable_clips,
)
from myxtts.cache.changes import read_rejection_memory
from myxtts.cache.clip_table import Cache, ClipTable
from myxtts.config.config import DataConfig
from myxtts.errors import CorpusError
from myxtts.runtime.safe_files import cause_of, replacing

BAR = "█"
PARTS = " ▏▎▍▌▋▊▉█"
Subset = Literal["train", "validation", "all"]
PERCENTILES = (50, 90, 95, 99)
TEXT_CANDIDATES = (50, 100, 150, 200, 300, 400)
MEL_CANDIDATES = (200, 400, 600, 800, 1000, 1200, 1600)
BUCKET_COUNTS = (4, 8, 12)
"""Reported: percentiles of the lengths, limits with what each would drop, plans with their padding."""
PLANNED_CLIPS = 20_000
"""Plans of larger corpora are tried on a sample of this size: the fraction of padding hardly changes, the time does."""


def subset_clips(cache: ClipTable, subset: Subset) -> np.ndarray:
    """Indices of the clips of a subset, ascending."""
    if subset == "all":
        return np.arange(cache.num_clips, dtype=np.int32)
    return np.flatnonzero(cache.is_validation == (subset == "validation")).astype(np.int32)


def get_statistics(cache: Cache, config: DataConfig, subset: Subset = "all") -> dict[str, Any]:
    """The statistics of a subset; lengths are those of every prepared clip, plans those of the clips within the limits."""
    clips = subset_clips(cache, subset)
    if not len(clips):
        raise CorpusError(
            f"The subset {subset!r} of {cache.folder} has no clips. Choose another one with --subset: train, validation or all."
        )
    frames, tokens = cache.frame_counts[clips], cache.token_counts[clips]
    max_mel_frames = resolved_max_mel_frames(cache, config.max_mel_frames, config.max_text_length, plan_kind(config))
    usable, _ = usable_clips(cache, config.max_text_length, max_mel_frames)
    usable = np.intersect1d(usable, clips)
    memory = read_rejection_memory(cache)
    return {
        "clips": len(clips),
        "usable_clips": len(usable),
        "hours": float(frames.sum(dtype=np.int64)) / cache.mel.frames_per_second / 3600,
        "sample_rate": cache.mel.sample_rate,
        "frames_per_second": cache.mel.frames_per_second,
        "symbols": len(cache.symbols),
        "speakers": _counted(cache.speakers, cache.speaker_numbers[clips]),
        "languages": _counted(cache.languages, cache.language_numbers[clips]),
        "text_length": length_statistics(tokens),
        "mel_length": length_statistics(frames),
        "dropped": {
            "max_text_length": dropped_by(tokens, (*TEXT_CANDIDATES, config.max_text_length)),
            "max_mel_frames": dropped_by(frames, (*MEL_CANDIDATES, max_mel_frames)),
        },
        "padding_waste": padding_waste(cache, usable, config, max_mel_frames),
        "recommended": recommended_settings(tokens, frames),
        "set_aside": dict(Counter(each.reason for each in memory.rejected.values()).most_common()),
        "unknown_symbols": memory.unknown_symbols(),
    }


def length_statistics(lengths: np.ndarray) -> dict[str, float | int]:
    """Smallest, mean and largest length, and the lengths at `PERCENTILES`."""
    percentiles = np.percentile(lengths, PERCENTILES)
    return {
        "min": int(lengths.min()),
        "mean": float(lengths.mean()),
        "max": int(lengths.max()),
        **{
            f"percentile_{percentile}": float(value) for percentile, value in zip(PERCENTILES, percentiles, strict=True)
        },
    }


def dropped_by(lengths: np.ndarray, candidates: Sequence[int]) -> dict[int, int]:
    """Candidate limit → clips that are longer."""
    return {limit: int((lengths > limit).sum()) for limit in sorted(set(candidates))}


def padding_waste(cache: Cache, clips: np.ndarray, config: DataConfig, max_mel_frames: int) -> dict[str, float]:
    """Plan → fraction of its frames that would be padding; empty without a usable clip."""
    if not len(clips):
        return {}
    chosen = np.sort(clips[shuffled(len(clips), 0, 0)[:PLANNED_CLIPS]])
    plans = {"fixed": ("fixed", 1), "dynamic": ("dynamic", 1)}
    plans |= {f"buckets_{count}": ("buckets", count) for count in BUCKET_COUNTS}
    plans["packed"] = ("packed", 1)
    waste = {}
    for name, (kind, num_buckets) in plans.items():
        sizes: dict[str, Any] = plan_sizes(config) | {"num_buckets": num_buckets}
        plan = build_plan(
            kind,
            cache.frame_counts,
            cache.token_counts,
            clips=chosen,
            max_mel_frames=max_mel_frames,
            n_mels=cache.mel.n_mels,
            **sizes,
        )
        waste[name] = 1.0 - plan.useful_fraction()
    return waste


def recommended_settings(tokens: np.ndarray, frames: np.ndarray) -> dict[str, Any]:
    """Settings of the section `data` that fit the corpus: nothing is dropped but far outliers."""
    return {
        "plan": "packed",
        "max_text_length": -(-automatic_limit(tokens) // 8) * 8,
        "max_mel_frames": automatic_max_mel_frames(frames),
    }


def settings_to_paste(recommended: dict[str, Any]) -> str:
    """The recommended settings as lines of a configuration file."""
    return "\n".join(["data:", *(f"  {name}: {value}" for name, value in recommended.items())])


def _counted(names: Sequence[str], numbers: np.ndarray) -> dict[str, int]:
    counts = np.bincount(numbers, minlength=len(names))
    return {name: int(count) for name, count in zip(names, counts, strict=True) if count}


def histogram_lines(lengths: np.ndarray, bins: int = 12, width: int = 40) -> list[str]:
    """One line per bin: its range, a bar, its count."""
    counts, edges = np.histogram(lengths, bins=min(bins, max(1, int(lengths.max() - lengths.min()))))
    digits = len(str(int(edges[-1])))
    lines = []
    for count, low, high in zip(counts.tolist(), edges[:-1], edges[1:], strict=True):
        eighths = round(8 * width * count / max(1, counts.max()))
        if count and not eighths:
            eighths = 1  # a bin with few clips is not empty
        bar = BAR * (eighths // 8) + (PARTS[eighths % 8] if eighths % 8 else "")
        lines.append(f"{int(low):>{digits}}–{int(high):<{digits}} {bar:<{width}} {count}")
    return lines


def save_histograms(path: str | Path, charts: Mapping[str, np.ndarray]) -> None:
    """Write a PNG with one histogram for each title; the median and the 99th percentile are marked."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6 * len(charts), 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(charts), squeeze=False)[0]
    for axis, (title, lengths) in zip(axes, charts.items(), strict=True):
        axis.hist(lengths, bins=40, color="#4878a8")
        for percentile, style in ((50, "--"), (99, ":")):
            value = float(np.percentile(lengths, percentile))
            axis.axvline(value, color="#b04030", linestyle=style, label=f"{percentile} %: {value:.0f}")
        axis.set(title=title, xlabel="length", ylabel="clips")
        axis.legend()
    try:
        with replacing(path) as temporary:
            figure.savefig(temporary, format="png", dpi=100)
    except OSError as error:
        raise CorpusError(f"The histogram cannot be written: {path} ({cause_of(error)}). Name another file.") from None
