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

from myxtts.audio.clips import load_pyworld
from myxtts.cache.changes import UpdateOutcome, join_outcomes
from myxtts.cache.clip_table import Cache
from myxtts.cache.joint import JoinedCorpus, is_joint, join_caches, locate_joint_cache
from myxtts.cache.location import CacheLocation, locate_cache, locate_shared_cache, with_prepared_language
from myxtts.cache.update import unchanged_cache, update_cache
from myxtts.cache.worker import open_workers
from myxtts.cache.writer import cache_lock
from myxtts.config.config import DataConfig
from myxtts.corpus.corpus import read_corpus
from myxtts.corpus.utterance import Rejection, summarize_rejections, write_rejected_csv
from myxtts.errors import CorpusError
from myxtts.runtime.progress import ProgressCallback, ignore_line, ignore_progress
from myxtts.text.tokenizer import FrontEnd, build_front_end, letters_notices

REJECTED_NAME = "rejected.csv"


@dataclass(frozen=True, eq=False)
class PrepareReport:
    """What a run of `prepare_cache` found and did; the clips themselves are in the cache."""

    data_folder: Path
    outcome: UpdateOutcome
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
    progress: ProgressCallback | None = None,
    announce: Callable[[str], None] | None = None,
    workers: int | None = None,
    retry: bool = False,
    with_sound: bool = False,
) -> Cache:
    """Bring the cache of a corpus up to date, and open it; `Cache.report` says what was done.

    With `data.corpora` or `data.held_out_speakers` it is the joint cache of all corpora (`myxtts.cache.joint`).

    Args:
        folder: the corpus; by default those of `data`, then the bundled prompts.
        progress: called often, as `progress(stage, done, total)`.
        announce: called with lines for the user: guesses about the corpus, the disk estimate, which process is waited for.
        workers: processes; by default `data.num_workers`.
        retry: try clips again that an earlier run rejected.
        with_sound: also prepare the samples and the pitch of every clip (`Cache.clip_samples`, `clip_pitch`); clips that were
            prepared without them are decoded once more.

    A `KeyboardInterrupt` leaves what is done in the journal, for the next run. A cache that another user made next to recordings
    that cannot be written is used as it is while it is up to date.
    """
    run = _Run(progress or ignore_progress, announce or ignore_line, workers, retry, with_sound)
    if with_sound:
        load_pyworld()
    if folder is None and is_joint(data):
        return _prepare_joint(data, run)
    data = with_prepared_language(data, folder, run.announce)
    front_end = build_front_end(data.text_symbols, data.lexicon, data.language)
    _announce_all(letters_notices(data.text_symbols, front_end.kind), run.announce)
    return _prepare_one(data, folder, front_end, run)


@dataclass(frozen=True)
class _Run:
    """The arguments of `prepare_cache` that every part of it needs."""

    progress: ProgressCallback
    announce: Callable[[str], None]
    workers: int | None
    retry: bool
    with_sound: bool


def _prepare_joint(data: DataConfig, run: _Run) -> Cache:
    """Prepare every corpus in its own cache, and join the caches."""
    started = time.monotonic()
    location = locate_joint_cache(data, run.progress, run.announce, run.workers)
    front_end = next(iter(location.parts.values())).front_end
    _announce_all(letters_notices(data.text_symbols, front_end.kind), run.announce)
    prepared = []
    for name, part in location.parts.items():
        cache = _prepare_one(location.configs[name], None, part.front_end, run)
        prepared.append(JoinedCorpus(name, cache))
        run.announce(
            f"Corpus {name}: {cache.num_clips} clips, {cache.speech_seconds / 60:.1f} minutes, "
            f"{', '.join(cache.languages)}, {len(cache.speakers)} speakers"
        )
    reports = [part.cache.report for part in prepared]
    rejections = tuple(rejection for report in reports for rejection in report.rejections)
    rejected_path = location.folder / REJECTED_NAME
    with cache_lock(location.folder, run.announce):
        joint = join_caches(location.folder, prepared, data, run.progress, run.announce, run.with_sound)
        write_rejected_csv(rejected_path, rejections)
    outcome = join_outcomes([report.outcome for report in reports])
    report = PrepareReport(
        data_folder=location.folder,
        outcome=outcome,
        rejections=rejections,
        unknown_symbols=outcome.memory.unknown_symbols(),
        recorded_rates=np.concatenate([report.recorded_rates for report in reports]),
        rejected_path=rejected_path,
        elapsed_seconds=time.monotonic() - started,
    )
    return dataclasses.replace(joint, _report=report, _front_end=front_end)


def _prepare_one(data: DataConfig, folder: str | Path | None, front_end: FrontEnd, run: _Run) -> Cache:
    """Bring the cache of one corpus up to date, and open it."""
    started = time.monotonic()
    progress, announce, retry, with_sound = run.progress, run.announce, run.retry, run.with_sound
    corpus = read_corpus(data, folder)
    _announce_all(corpus.notices, announce)
    shared = None if retry else locate_shared_cache(data, corpus, front_end)
    if shared is not None and (found := unchanged_cache(shared, with_sound)) is not None:
        cache, outcome = found
        return _with_report(cache, shared, outcome, _rejections(shared, outcome), started)
    with open_workers(data, front_end, run.workers) as pool:
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
    cache: Cache, location: CacheLocation, outcome: UpdateOutcome, rejections: tuple[Rejection, ...], started: float
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
        cache,
        data_folder=corpus.folder,
        license=corpus.license,
        attribution=corpus.attribution,
        _report=report,
        _front_end=location.front_end,
    )


def _rejections(location: CacheLocation, outcome: UpdateOutcome) -> tuple[Rejection, ...]:
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
