"""`prepare`: a folder of recordings in, a complete cache out, doing only what is not done yet.

Finds the cache (`myxtts.cache.location`), locks it, runs a `myxtts.cache.preparation.Preparation` on it, and reports what was
done and which clips were rejected. A run can be stopped in any way; the next one continues.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from myxtts.batches.plan import describe_sound, plan_kind, resolved_max_mel_frames, usable_clips
from myxtts.cache.corpus_state import language_notices
from myxtts.cache.format import Cache, open_cache
from myxtts.cache.location import (
    CacheLocation,
    ignore_line,
    ignore_progress,
    locate_cache,
    locate_shared_cache,
    with_prepared_language,
    worker_count,
    worker_setup,
)
from myxtts.cache.preparation import Outcome, Preparation, unchanged_outcome
from myxtts.cache.writer import cache_lock
from myxtts.config.config import DataConfig
from myxtts.corpus.manifest import Rejection, summarise_rejections, write_rejected_csv
from myxtts.errors import CorpusError
from myxtts.runtime.workers import Progress, WorkerPool
from myxtts.text.tokenizer import build_front_end, letters_notices

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
    retry: bool = False,
) -> PrepareReport:
    """Bring the cache of the corpus in `folder` (default: `config.train_data`, then the bundled prompts) up to date.

    `progress(stage, done, total)` is called often, `announce(line)` with the disk estimate and when another process is waited
    for. `retry`: try clips again that an earlier run rejected. A `KeyboardInterrupt` leaves what is done in the journal, for the
    next run. A cache that another user made next to recordings that cannot be written is used as it is while it is up to date.
    """
    started = time.monotonic()
    progress, announce = progress or ignore_progress, announce or ignore_line
    config = with_prepared_language(config, folder, announce)
    front_end = build_front_end(config.text_symbols, config.lexicon, config.language)
    _announce_all(letters_notices(config.text_symbols, front_end.kind), announce)
    shared = None if retry else locate_shared_cache(config, folder, front_end)
    outcome = unchanged_outcome(shared) if shared is not None else None
    if shared is not None and outcome is not None:
        _announce_all(shared.source.notices, announce)
        cache = open_cache(shared.folder, shared.settings.fingerprint)
        rejections = (*_rejections_of_clips(shared, outcome), *_rejections_of_limits(cache, config))
        return _report(config, shared, cache, outcome, rejections, started)
    with WorkerPool(worker_setup(config, front_end), worker_count(config, workers)) as pool:
        location = locate_cache(config, folder, front_end, pool, progress, announce)
        _announce_all(location.source.notices, announce)
        with cache_lock(location.folder, announce):
            preparation = Preparation(config, location, pool, progress, announce, retry)
            if preparation.base is not None:
                _announce_all(language_notices(preparation.base.languages, location.source.utterances), announce)
            try:
                outcome = preparation.finish()
            finally:
                preparation.writer.close()
            rejected = _rejections_of_clips(location, outcome)
            if not preparation.is_ready.any():
                write_rejected_csv(location.folder / REJECTED_NAME, rejected)
                raise CorpusError(
                    f"No clip of {location.source.folder} can be used: {summarise_rejections(rejected)}. "
                    f"The reasons are in {location.folder / REJECTED_NAME}."
                )
            cache = open_cache(location.folder, location.settings.fingerprint)
            rejections = (*rejected, *_rejections_of_limits(cache, config))
            write_rejected_csv(location.folder / REJECTED_NAME, rejections)
    return _report(config, location, cache, outcome, rejections, started)


def _report(
    config: DataConfig,
    location: CacheLocation,
    cache: Cache,
    outcome: Outcome,
    rejections: tuple[Rejection, ...],
    started: float,
) -> PrepareReport:
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


def _rejections_of_clips(location: CacheLocation, outcome: Outcome) -> tuple[Rejection, ...]:
    """Clips that the metadata, the recordings and the texts do not allow to use, in the order of the metadata."""
    why = {**outcome.notes.set_aside, **outcome.failed}
    found = [
        Rejection(one.id, str(one.path), why[one.id].reason, why[one.id].detail)
        for one in location.source.utterances
        if one.id in why
    ]
    return (*location.source.rejections, *found)


def _rejections_of_limits(cache: Cache, config: DataConfig) -> list[Rejection]:
    max_mel_frames = resolved_max_mel_frames(cache, config.max_mel_frames, config.max_text_length, plan_kind(config))
    return usable_clips(cache, config.max_text_length, max_mel_frames)[1]


def _announce_all(lines: Iterable[str], announce: Callable[[str], None]) -> None:
    for line in lines:
        announce(line)
