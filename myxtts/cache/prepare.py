"""`prepare_cache`: brings the cache of a corpus up to date, doing only what is not done yet, and returns it open.

A run can be stopped in any way; the next one continues. Limits of length (`max_text_length`, `max_mel_frames`) belong to the plan
(`myxtts.batches.plan`): changing them prepares nothing again.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from myxtts.audio.pitch import load_pyworld
from myxtts.cache.format import Cache
from myxtts.cache.location import CacheLocation, locate_cache, locate_shared_cache
from myxtts.cache.prepared_language import with_prepared_language
from myxtts.cache.update import Outcome, unchanged_cache, update_cache
from myxtts.cache.worker import worker_count, worker_setup
from myxtts.cache.writer import cache_lock, ignore_line, ignore_progress
from myxtts.config.config import DataConfig
from myxtts.corpus.corpus import read_corpus
from myxtts.corpus.utterance import Rejection, summarize_rejections, write_rejected_csv
from myxtts.errors import CorpusError
from myxtts.runtime.workers import Progress, WorkerPool
from myxtts.text.tokenizer import build_front_end, letters_notices

REJECTED_NAME = "rejected.csv"


@dataclass(frozen=True, eq=False)
class PrepareReport:
    """What a run of `prepare_cache` found and did; the clips themselves are in the cache."""

    data_folder: Path
    outcome: Outcome
    """How many clips were added, changed, removed, kept."""
    rejections: tuple[Rejection, ...]
    """Clips whose metadata, recording or text cannot be used. Clips that are too long for a plan are not among them."""
    unknown_symbols: Mapping[str, int]
    """Characters that have no symbol, with their counts."""
    recorded_rates: np.ndarray
    """int32 (utterances,): Hz of each recording, 0 where it cannot be read."""
    rejected_path: Path
    """The CSV file of the rejections."""
    elapsed_seconds: float


def prepare_cache(
    data: DataConfig,
    folder: str | Path | None = None,
    *,
    progress: Progress | None = None,
    announce: Callable[[str], None] | None = None,
    workers: int | None = None,
    retry: bool = False,
    with_sound: bool = False,
) -> Cache:
    """Bring the cache of a corpus up to date, and open it; `Cache.report` says what was done.

    Args:
        folder: the corpus; by default `data.train_data`, then the bundled prompts.
        progress: called often, as `progress(stage, done, total)`.
        announce: called with lines for the user: guesses about the corpus, the disk estimate, which process is waited for.
        workers: processes; by default `data.num_workers`.
        retry: try clips again that an earlier run rejected.
        with_sound: also prepare the samples and the pitch of every clip (`Cache.clip_samples`, `clip_pitch`); clips that were
            prepared without them are decoded once more.

    A `KeyboardInterrupt` leaves what is done in the journal, for the next run. A cache that another user made next to recordings
    that cannot be written is used as it is while it is up to date.
    """
    started = time.monotonic()
    progress, announce = progress or ignore_progress, announce or ignore_line
    if with_sound:
        load_pyworld()
    data = with_prepared_language(data, folder, announce)
    front_end = build_front_end(data.text_symbols, data.lexicon, data.language)
    _announce_all(letters_notices(data.text_symbols, front_end.kind), announce)
    corpus = read_corpus(data, folder)
    _announce_all(corpus.notices, announce)
    shared = None if retry else locate_shared_cache(data, corpus, front_end)
    if shared is not None and (found := unchanged_cache(shared, with_sound)) is not None:
        cache, outcome = found
        return _with_report(cache, shared, outcome, _rejections(shared, outcome), started)
    with WorkerPool(worker_setup(data, front_end), worker_count(data, workers)) as pool:
        location = locate_cache(data, corpus, front_end, pool, progress, announce)
        with cache_lock(location.folder, announce):
            cache, outcome = update_cache(data, location, pool, progress, announce, retry, with_sound)
            rejections, rejected_path = _rejections(location, outcome), location.folder / REJECTED_NAME
            write_rejected_csv(rejected_path, rejections)
    if cache is None:
        raise CorpusError(
            f"No clip of {corpus.folder} can be used: {summarize_rejections(rejections)}. "
            f"The reasons are in {rejected_path}."
        )
    return _with_report(cache, location, outcome, rejections, started)


def _with_report(
    cache: Cache, location: CacheLocation, outcome: Outcome, rejections: tuple[Rejection, ...], started: float
) -> Cache:
    """The cache with its report, and with the corpus as it is now: a moved one, or one whose cache has no license yet."""
    corpus = location.corpus
    report = PrepareReport(
        data_folder=corpus.folder,
        outcome=outcome,
        rejections=rejections,
        unknown_symbols=outcome.memory.unknown_symbols(),
        recorded_rates=location.rates["rate"],
        rejected_path=location.folder / REJECTED_NAME,
        elapsed_seconds=time.monotonic() - started,
    )
    return dataclasses.replace(
        cache, data_folder=corpus.folder, license=corpus.license, attribution=corpus.attribution, _report=report
    )


def _rejections(location: CacheLocation, outcome: Outcome) -> tuple[Rejection, ...]:
    """Clips that cannot be used because of their metadata, recording or text, in the order of the metadata."""
    reasons = {**outcome.memory.rejected, **outcome.failed}
    found = [
        Rejection(one.id, str(one.path), reasons[one.id].reason, reasons[one.id].detail)
        for one in location.corpus.utterances
        if one.id in reasons
    ]
    return (*location.corpus.rejections, *found)


def _announce_all(lines: Iterable[str], announce: Callable[[str], None]) -> None:
    for line in lines:
        announce(line)
