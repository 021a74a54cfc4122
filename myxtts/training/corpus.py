"""The corpus of a run: configuration in, opened cache and the plans of training and validation out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from myxtts.config.config import DataConfig, TrainingConfig
from myxtts.data.cache import Cache, open_cache
from myxtts.data.limits import resolved_max_mel_frames, usable_clips
from myxtts.data.manifest import Rejection
from myxtts.data.plan import Plan, build_plan, plan_kind, with_clips
from myxtts.data.prepare import PrepareReport, prepare_corpus
from myxtts.errors import CorpusError

STATISTICS_ROWS = 500_000
"""Frames from which the mean and deviation of each band are taken (2 hours at 62 frames/s)."""
AUTOMATIC_BATCH_SIZE = 16
"""`batch_size: auto` until it has been measured."""


@dataclass(frozen=True)
class TrainingCorpus:
    """What the trainer needs to know of its data."""

    cache: Cache
    plan: Plan
    validation_plan: Plan | None
    """None if no clip is held out."""
    max_mel_frames: int
    left_out: list[Rejection]
    report: PrepareReport


def open_corpus(
    data: DataConfig,
    training: TrainingConfig,
    replicas: int = 1,
    progress: Callable[[str, int, int], None] | None = None,
    announce: Callable[[str], None] | None = None,
    batch_size: int | None = None,
) -> TrainingCorpus:
    """Prepare what is not prepared, open the cache, and plan. `batch_size` is what `auto` was measured to be."""
    report = prepare_corpus(data, progress=progress, announce=announce)
    cache = open_cache(report.folder)
    max_mel_frames = resolved_max_mel_frames(cache, data.max_mel_frames, data.max_text_length, plan_kind(data))
    clips, left_out = usable_clips(cache, data.max_text_length, max_mel_frames)
    held_out = cache.is_validation[clips]
    if data.batch_size != "auto":
        batch_size = data.batch_size
    sizes = {
        "batch_size": batch_size or AUTOMATIC_BATCH_SIZE,
        "max_text_length": data.max_text_length,
        "max_mel_frames": max_mel_frames,
        "num_buckets": data.num_buckets,
        "gap_frames": data.gap_frames,
        "gap_tokens": data.gap_tokens,
        "n_mels": cache.mel.n_mels,
        "reference_frames": data.reference_frames if len(cache.speakers) > 1 else 0,
        "seed": training.seed,
        "replicas": replicas,
    }
    if not (~held_out).any():
        raise CorpusError(
            f"No clip of {report.data_folder} is left for training: {len(clips)} usable clips are all held out. "
            "Add recordings, or lower data.validation_share."
        )
    lengths = (cache.frame_counts, cache.token_counts)
    plan = build_plan(plan_kind(data), *lengths, clips=clips[~held_out], other_clips=clips[held_out], **sizes)
    # In the same shapes: one size of batches fits all replicas, and one compilation less.
    validation_plan = with_clips(plan, clips[held_out], *lengths) if held_out.any() else None
    return TrainingCorpus(cache, plan, validation_plan, max_mel_frames, left_out, report)


def mel_statistics(cache: Cache, clips: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of each band over the training clips (an even sample of them, if they are very many)."""
    total_rows = int(cache.frame_counts[clips].sum())
    every = max(1, total_rows // STATISTICS_ROWS)
    count, total, squares = 0, np.zeros(cache.mel.n_mels), np.zeros(cache.mel.n_mels)
    for clip in clips[::every]:
        rows = cache.clip_frames(int(clip)).astype(np.float64)
        count += len(rows)
        total += rows.sum(axis=0)
        squares += np.square(rows).sum(axis=0)
    mean = total / count
    deviation = np.sqrt(np.maximum(squares / count - mean**2, 1e-8))
    return mean.astype(np.float32), np.maximum(deviation, 1e-2).astype(np.float32)
