"""`prepare`: a folder of recordings in, a complete cache out, doing only what is not done yet.

Texts are spelled first (they give the symbol table), then recordings are decoded, resampled, trimmed, levelled and turned into
mels, both in worker processes; each finished clip is journalled, so that a run can be stopped in any way and continues where it
was (`myxtts.data.preparation`). At the end the index of all usable clips is published.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from myxtts.config.config import DataConfig
from myxtts.data.cache import Cache, open_cache
from myxtts.data.cache_location import (
    CacheLocation,
    Progress,
    ignore_progress,
    locate_cache,
    worker_count,
    worker_setup,
)
from myxtts.data.cache_writer import cache_lock
from myxtts.data.limits import describe_sound, resolved_max_mel_frames, usable_clips
from myxtts.data.manifest import Rejection, summarise_rejections, write_rejected_csv
from myxtts.data.notes import Notes
from myxtts.data.plan import plan_kind
from myxtts.data.preparation import Outcome, Preparation
from myxtts.data.worker_pool import WorkerPool
from myxtts.errors import CorpusError
from myxtts.text.tokenizer import build_front_end

REJECTED_NAME = "rejected.csv"


@dataclass(frozen=True)
class PrepareReport:
    """What a run of `prepare` found and did."""

    data_folder: Path
    folder: Path
    """The cache folder."""
    fingerprint: str
    sample_rate: int
    sound: str
    """One line: rate of the recordings and of the voice, frames, and what the limits drop."""
    clips: int
    """In the cache, training and validation."""
    validation_clips: int
    speech_seconds: float
    outcome: Outcome
    """How many clips were added, changed, removed, kept."""
    rejections: tuple[Rejection, ...]
    """Of metadata, recordings and texts, and of `max_text_length` and `max_mel_frames`."""
    unknown_symbols: Mapping[str, int]
    """Characters that have no symbol, with their counts."""
    elapsed_seconds: float

    @property
    def rejected_path(self) -> Path:
        """The CSV file of everything that was set aside."""
        return self.folder / REJECTED_NAME

    def summary_of_rejections(self) -> str:
        """One line, by reason."""
        return summarise_rejections(self.rejections)


def prepare_corpus(
    config: DataConfig,
    folder: str | Path | None = None,
    *,
    progress: Progress | None = None,
    announce: Callable[[str], None] | None = None,
    workers: int | None = None,
) -> PrepareReport:
    """Bring the cache of the corpus in `folder` (default: `config.train_data`, then the bundled prompts) up to date.

    `progress(stage, done, total)` is called often, `announce(line)` once with the disk estimate. A `KeyboardInterrupt`
    leaves what is done in the journal, for the next run.
    """
    started = time.monotonic()
    front_end = build_front_end(config.text_symbols, config.lexicon)
    with WorkerPool(worker_setup(config, front_end), worker_count(config, workers)) as pool:
        location = locate_cache(config, folder, front_end, pool, progress or ignore_progress)
        with cache_lock(location.folder):
            preparation = Preparation(config, location, pool, progress or ignore_progress, announce or _ignore_line)
            try:
                outcome = preparation.finish()
            finally:
                preparation.writer.close()
            set_aside = _rejections_of_clips(location, outcome.notes)
            if not preparation.is_ready.any():
                write_rejected_csv(location.folder / REJECTED_NAME, set_aside)
                raise CorpusError(
                    f"No clip of {location.source.folder} can be used: {summarise_rejections(set_aside)}. "
                    f"The reasons are in {location.folder / REJECTED_NAME}."
                )
            cache = open_cache(location.folder, location.settings.fingerprint)
            rejections = (*set_aside, *_rejections_of_limits(cache, config))
            write_rejected_csv(location.folder / REJECTED_NAME, rejections)
    return PrepareReport(
        data_folder=location.source.folder,
        folder=location.folder,
        fingerprint=cache.fingerprint,
        sample_rate=cache.mel.sample_rate,
        sound=describe_sound(cache, config, location.rates["rate"]),
        clips=cache.num_clips,
        validation_clips=int(cache.is_validation.sum()),
        speech_seconds=float(cache.frame_counts.sum(dtype=np.int64)) / cache.mel.frames_per_second,
        outcome=outcome,
        rejections=rejections,
        unknown_symbols=outcome.notes.unknown_symbols(),
        elapsed_seconds=time.monotonic() - started,
    )


def _rejections_of_clips(location: CacheLocation, notes: Notes) -> tuple[Rejection, ...]:
    """What the metadata, the recordings and the texts gave away, in the order of the metadata."""
    found = [
        Rejection(one.id, str(one.path), notes.set_aside[one.id].reason, notes.set_aside[one.id].detail)
        for one in location.source.utterances
        if one.id in notes.set_aside
    ]
    return (*location.source.rejections, *found)


def _rejections_of_limits(cache: Cache, config: DataConfig) -> list[Rejection]:
    max_mel_frames = resolved_max_mel_frames(cache, config.max_mel_frames, config.max_text_length, plan_kind(config))
    return usable_clips(cache, config.max_text_length, max_mel_frames)[1]


def _ignore_line(line: str) -> None:
    """For callers that show nothing."""
