"""`verify`: finds everything that is wrong with a cache folder, and repairs it with `fix`.

Checking changes nothing and waits for a running `prepare`. Files of an interrupted `prepare` are no damage: the next one
continues from them. Repairing drops the damaged clips from the index (all of them, if the index itself cannot be trusted) and
lets `prepare` make them again, so that records are written in one way only.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.cache.changes import read_rejection_memory
from myxtts.cache.clip_table import Cache, load_cache
from myxtts.cache.format import (
    HEADER_NAME,
    HeaderError,
    Sound,
    column_offsets,
    map_bytes,
    read_header,
    read_unchecked_header,
    record_checksum,
    sound_files,
)
from myxtts.cache.joint import locate_joint_cache
from myxtts.cache.journal import read_journal
from myxtts.cache.location import CacheLocation, locate_cache, locate_shared_cache, with_prepared_language
from myxtts.cache.prepare import PrepareReport, prepare_cache
from myxtts.cache.worker import open_workers
from myxtts.cache.writer import JOURNAL_NAME, cache_lock, publish, unnamed_files
from myxtts.config.config import DataConfig
from myxtts.config.load import parse_config
from myxtts.corpus.corpus import read_corpus
from myxtts.errors import CacheError
from myxtts.runtime.progress import ProgressCallback, ignore_line, ignore_progress
from myxtts.text.tokenizer import build_front_end

HEADER_DAMAGED = "damaged header"
STALE = "stale fingerprint"
TRUNCATED = "truncated file"
FLIPPED = "flipped bits"
LEFT_OVER = "left-over file"
INDEX_WITHOUT_DATA = "index without data"
DATA_WITHOUT_INDEX = "data without index"
INDEX_DAMAGED = "damaged index"

BEYOND_TRUST = (HEADER_DAMAGED, STALE, INDEX_DAMAGED, INDEX_WITHOUT_DATA)
"""Problems after which no record can be trusted: the whole cache is made again."""


TABLES_KEPT = ("symbols", "speakers", "languages", "data_folder", "license", "attribution", "config")
"""Header fields that dropping clips does not change."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong."""

    kind: str
    file: str
    detail: str
    clips: tuple[int, ...] = ()
    """The clips that it damages."""


@dataclass(frozen=True)
class VerifyReport:
    """What was found, and what was done about it."""

    folder: Path
    problems: tuple[Problem, ...]
    """As found, before anything was repaired."""
    checked_clips: int
    damaged_ids: tuple[str, ...] = ()
    is_repaired: bool = False
    prepared: PrepareReport | None = None
    """What preparing the damaged clips again did."""
    unfinished_clips: int | None = None
    """Clips that an interrupted `prepare` finished but did not publish; None: none was interrupted."""

    @property
    def is_clean(self) -> bool:
        """Nothing was wrong."""
        return not self.problems


def find_cache(
    config: DataConfig,
    data_folder: str | Path | None = None,
    progress: ProgressCallback = ignore_progress,
    announce: Callable[[str], None] = ignore_line,
) -> CacheLocation:
    """Where the cache of a corpus is or will be; only recordings that were never probed are opened."""
    config = with_prepared_language(config, data_folder, announce)
    front_end = build_front_end(config.text_symbols, config.lexicon, config.language)
    corpus = read_corpus(config, data_folder)
    shared = locate_shared_cache(config, corpus, front_end)
    try:
        with open_workers(config, front_end) as pool:
            location = locate_cache(config, corpus, front_end, pool, progress, announce)
    except CacheError:  # this user has no folder for caches
        if shared is None:
            raise
        return shared
    return shared if shared is not None and not (location.folder / HEADER_NAME).exists() else location


def verify_and_fix_cache(
    folder: str | Path,
    fix: bool = False,
    *,
    config: DataConfig | None = None,
    data_folder: str | Path | None = None,
    expected_settings: Mapping[str, Any] | None = None,
    progress: ProgressCallback | None = None,
    workers: int | None = None,
    announce: Callable[[str], None] = ignore_line,
) -> VerifyReport:
    """Check the cache in `folder` (`…/<fingerprint>`) record by record; repair it with `fix`.

    Args:
        config: with `data_folder`, what the cache is prepared from; by default what its header names.
        expected_settings: those that it must have been prepared with; None: any.
        announce: called with a line that says which process is waited for.
    """
    folder, progress = Path(folder), progress or ignore_progress
    with _checking_lock(folder, announce):
        problems, cache = find_problems(folder, expected_settings, progress)
        unfinished = unfinished_clips(folder)
    checked = cache.num_clips if cache else 0
    damaged = sorted({clip for problem in problems for clip in problem.clips})
    damaged_ids = tuple(cache.ids[clip] for clip in damaged) if cache else ()
    if not problems or not fix:
        return VerifyReport(folder, tuple(problems), checked, damaged_ids, unfinished_clips=unfinished)
    if config is None:
        config, data_folder = _recorded_origin(folder)
    with cache_lock(folder, announce):
        if any(problem.kind in BEYOND_TRUST for problem in problems) or (cache and len(damaged) == cache.num_clips):
            _remove_all(folder)
        elif cache and damaged:
            _drop_clips(cache, damaged)
    with_sound = cache is not None and bool(cache.sample_starts.any())
    prepared = prepare_cache(
        config, data_folder, progress=progress, announce=announce, workers=workers, with_sound=with_sound
    )
    with cache_lock(prepared.folder, announce):
        for path in unnamed_files(prepared.folder, prepared.header):
            path.unlink()
        left, _ = find_problems(prepared.folder, expected_settings, progress)
    if left:
        raise CacheError(
            f"The cache in {folder} could not be repaired: {left[0].kind} in {left[0].file} ({left[0].detail}). "
            "The disk may be failing. Remove the folder and run `myxtts prepare`."
        )
    return VerifyReport(folder, tuple(problems), checked, damaged_ids, True, prepared.report)


def verify_joint_cache(
    config: DataConfig,
    fix: bool = False,
    *,
    progress: ProgressCallback = ignore_progress,
    announce: Callable[[str], None] = ignore_line,
) -> list[VerifyReport]:
    """Check the caches of all corpora of a configuration and their joint cache; repair them with `fix`."""
    location = locate_joint_cache(config, progress, announce)
    settings = {part.folder: part.settings.to_dict() for part in location.parts.values()}
    reports = []
    for folder in (*settings, location.folder):
        with _checking_lock(folder, announce):
            problems, cache = find_problems(folder, settings.get(folder), progress)
            unfinished = unfinished_clips(folder)
            damaged = sorted({clip for problem in problems for clip in problem.clips})
            if fix and problems:  # the parts hold everything that is in the joint cache
                if cache and damaged and len(damaged) < cache.num_clips and folder in settings:
                    _drop_clips(cache, damaged)
                else:
                    _remove_all(folder)
        damaged_ids = tuple(cache.ids[clip] for clip in damaged) if cache else ()
        checked = cache.num_clips if cache else 0
        reports.append(VerifyReport(folder, tuple(problems), checked, damaged_ids, unfinished_clips=unfinished))
    if not fix or all(report.is_clean for report in reports):
        return reports
    prepared = prepare_cache(config, progress=progress, announce=announce)
    return [
        report if report.is_clean else replace(report, is_repaired=True, prepared=prepared.report) for report in reports
    ]


@contextlib.contextmanager
def _checking_lock(folder: Path, announce: Callable[[str], None]) -> Iterator[None]:
    """The lock of an existing folder; one that this user may not write cannot be changed by this user's `prepare` either."""
    if not os.access(folder, os.W_OK):
        yield
        return
    with cache_lock(folder, announce):
        yield


def unfinished_clips(folder: Path) -> int | None:
    """Clips in the journal of an interrupted `prepare`; None without a usable journal."""
    head, records = read_journal(folder / JOURNAL_NAME)
    return None if head is None else len(records)


def find_problems(
    folder: Path, expected_settings: Mapping[str, Any] | None = None, progress: ProgressCallback = ignore_progress
) -> tuple[list[Problem], Cache | None]:
    """Everything that is wrong, and the cache itself if its index can be trusted. Nothing is changed."""
    try:
        header = read_header(folder, expected_settings)
    except HeaderError as error:
        if error.fault == "missing":
            return _problems_without_header(folder), None
        return [Problem(HEADER_DAMAGED if error.fault == "damaged" else STALE, HEADER_NAME, error.detail)], None
    if folder.name != header["fingerprint"] and "joint" not in header["settings"]:
        detail = f"fingerprint {header['fingerprint']} in a folder named {folder.name}"
        return [Problem(STALE, HEADER_NAME, detail)], None
    is_unfinished = unfinished_clips(folder) is not None
    problems = [
        Problem(LEFT_OVER, path.name, f"{path.stat().st_size} bytes that do not belong to the cache")
        for path in unnamed_files(folder, header)
        if not (is_unfinished and path.name == JOURNAL_NAME)
    ]
    unusable = _problems_of_index(folder, header)
    if unusable:
        return problems + unusable, None
    sizes = {
        header["frames_file"]: header["rows"] * header["mel"]["n_mels"] * 4,
        header["tokens_file"]: header["tokens"] * 4,
        **sound_files(header),
    }
    for name, expected in sizes.items():
        received = (folder / name).stat().st_size
        if received < expected:
            problems.append(Problem(TRUNCATED, name, f"{received} bytes, expected {expected}"))
        elif received > expected and not is_unfinished:
            problems.append(Problem(DATA_WITHOUT_INDEX, name, f"{received - expected} bytes after the last record"))
    cache = load_cache(folder, header)
    return problems + _problems_of_records(cache, progress), cache


def _problems_without_header(folder: Path) -> list[Problem]:
    orphans = unnamed_files(folder, None)
    if not orphans:
        raise CacheError(f"There is no prepared cache in {folder}. Run `myxtts prepare`.")
    unfinished = unfinished_clips(folder)
    if unfinished is not None:
        raise CacheError(
            f"The cache in {folder} is not finished: `myxtts prepare` was interrupted after {unfinished} clips. "
            "Run it again: it continues from there."
        )
    return [
        Problem(DATA_WITHOUT_INDEX, path.name, f"{path.stat().st_size} bytes, but there is no {HEADER_NAME}")
        for path in orphans
    ]


def _problems_of_index(folder: Path, header: Mapping[str, Any]) -> list[Problem]:
    """Missing files, and strings or columns that are not what was written."""
    problems = []
    for name in (header["frames_file"], header["tokens_file"], *sound_files(header)):
        if not (folder / name).exists():
            problems.append(Problem(INDEX_WITHOUT_DATA, name, "the file is missing"))
    for name, size, checksum in (
        (header["index_file"], column_offsets(header["columns"], header["clips"])[1], header["index_checksum"]),
        (header["strings_file"], header["strings_bytes"], header["strings_checksum"]),
    ):
        if not (folder / name).exists():
            problems.append(Problem(INDEX_DAMAGED, name, "the file is missing"))
            continue
        data = map_bytes(folder / name)
        if len(data) != size:
            problems.append(Problem(INDEX_DAMAGED, name, f"{len(data)} bytes, expected {size}"))
        elif zlib.crc32(data.data) != checksum:
            problems.append(Problem(INDEX_DAMAGED, name, "it does not match its checksum"))
    return problems


def _problems_of_records(cache: Cache, progress: ProgressCallback) -> list[Problem]:
    """Records that are not what was written: those beyond the end of a file, and those that do not match their checksum."""
    all_frames = _available(cache.frames_path, "<f4", cache.mel.n_mels)
    all_tokens = _available(cache.tokens_path, "<i4", 1)[:, 0]
    names = [cache.frames_path.name, cache.tokens_path.name, *sound_files(cache.header)]
    all_samples, all_pitches = _available_sound(cache)
    cut_off, flipped = [], []
    for clip in range(cache.num_clips):
        frame_start, token_start = int(cache.frame_starts[clip]), int(cache.token_starts[clip])
        frames = all_frames[frame_start : frame_start + int(cache.frame_counts[clip])]
        tokens = all_tokens[token_start : token_start + int(cache.token_counts[clip])]
        sample_start, pitch_start = int(cache.sample_starts[clip]), int(cache.pitch_starts[clip])
        has_sound = sample_start > 0
        pitch_count = cache.frame_counts[clip] if has_sound else 0
        samples = all_samples[sample_start : sample_start + int(cache.sample_counts[clip])]
        pitch = all_pitches[pitch_start : pitch_start + int(pitch_count)]
        if (
            len(frames) < cache.frame_counts[clip]
            or len(tokens) < cache.token_counts[clip]
            or len(samples) < cache.sample_counts[clip]
            or len(pitch) < pitch_count
        ):
            cut_off.append(clip)
        elif record_checksum(frames, tokens) != cache.checksums[clip] or (
            has_sound and Sound(samples, pitch).checksum() != cache.cold["sound_checksums"][clip]
        ):
            flipped.append(clip)
        progress("checking records", clip + 1, cache.num_clips)
    problems, listed = [], ", ".join(names)
    if cut_off:
        problems.append(
            Problem(TRUNCATED, listed, f"{len(cut_off)} clips are beyond the end of the file", tuple(cut_off))
        )
    if flipped:
        problems.append(Problem(FLIPPED, listed, f"{len(flipped)} clips do not match their checksum", tuple(flipped)))
    if all_frames[:1].any() or all_tokens[:1].any():
        everything = tuple(range(cache.num_clips))
        problems.append(Problem(FLIPPED, listed, "row 0, which padding reads, is not zero", everything))
    return problems


def _available(path: Path, dtype: str, width: int) -> np.ndarray:
    """The whole rows of a data file, (rows, width), however long it is."""
    data, row_bytes = map_bytes(path), np.dtype(dtype).itemsize * width
    return data[: len(data) // row_bytes * row_bytes].view(dtype).reshape(-1, width)


def _available_sound(cache: Cache) -> tuple[np.ndarray, np.ndarray]:
    """The samples and pitches of all clips, however long their files are."""
    if not sound_files(cache.header):
        return np.zeros(0, np.int16), np.zeros(0, np.float32)
    samples, pitch = (cache.folder / cache.header[name] for name in ("samples_file", "pitch_file"))
    return _available(samples, "<i2", 1)[:, 0], _available(pitch, "<f4", 1)[:, 0]


def _drop_clips(cache: Cache, damaged: list[int]) -> None:
    """Publish the cache without the damaged clips; `prepare` then finds them missing."""
    header = cache.header
    kept = np.setdiff1d(np.arange(cache.num_clips), damaged)
    columns = {name: column[kept] for name, column in cache.columns().items() if not name.endswith("_ends")}
    tables = {name: header[name] for name in (*TABLES_KEPT, "frames_file", "tokens_file", "samples_file", "pitch_file")}
    samples, pitches = _available_sound(cache)
    tables |= {
        "generation": header["generation"] + 1,
        "rows": min(header["rows"], len(_available(cache.frames_path, "<f4", cache.mel.n_mels))),
        "tokens": min(header["tokens"], len(_available(cache.tokens_path, "<i4", 1))),
        "samples": min(header["samples"], len(samples)),
        "pitches": min(header["pitches"], len(pitches)),
    }
    ids, texts = ([strings[clip] for clip in kept.tolist()] for strings in (cache.ids, cache.texts))
    memory = read_rejection_memory(cache)
    publish(cache.folder, header["settings"], columns, ids, texts, tables, memory.to_bytes())


def _recorded_origin(folder: Path) -> tuple[DataConfig, str]:
    """Configuration and corpus that the header names, also one of other settings."""
    try:
        header = read_unchecked_header(folder)
    except HeaderError:
        raise CacheError(
            f"The header of the cache in {folder} is missing or damaged, so it does not say what it was prepared from. "
            "Give the corpus: `myxtts verify DATA --fix`."
        ) from None
    return parse_config({"data": header["config"]}, source=str(folder / HEADER_NAME)).data, header["data_folder"]


def _remove_all(folder: Path) -> None:
    (folder / HEADER_NAME).unlink(missing_ok=True)
    for path in unnamed_files(folder, None):
        path.unlink()
