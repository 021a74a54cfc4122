"""`verify`: a cache folder in, everything that is wrong with it out; with `fix`, a repaired cache.

Checking changes nothing and waits for a running `prepare`. What an interrupted one left is no damage: the next one continues from
it. Repairing drops the damaged clips from the index (all of them, if the index itself cannot be trusted) and lets `prepare` make
them again, so that there is one way in which a record comes into being.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.cache.changes import read_notes
from myxtts.cache.format import (
    FORMAT_VERSION,
    HEADER_NAME,
    Cache,
    canonical_json,
    column_offsets,
    fingerprint_of,
    load_cache,
    map_bytes,
    settings_differences,
)
from myxtts.cache.journal import read_journal, record_checksum
from myxtts.cache.location import ignore_progress
from myxtts.cache.prepare import PrepareReport, prepare_corpus
from myxtts.cache.writer import JOURNAL_NAME, cache_lock, ignore_line, publish, unnamed_files
from myxtts.config.config import DataConfig
from myxtts.errors import CacheError
from myxtts.runtime.workers import Progress

HEADER_DAMAGED = "damaged header"
STALE = "stale fingerprint"
TRUNCATED = "truncated file"
FLIPPED = "flipped bits"
LEFT_OVER = "left-over file"
INDEX_WITHOUT_DATA = "index without data"
DATA_WITHOUT_INDEX = "data without index"
INDEX_DAMAGED = "damaged index"

BEYOND_TRUST = (HEADER_DAMAGED, STALE, INDEX_DAMAGED, INDEX_WITHOUT_DATA)
"""With one of these no record can be told from another: the whole cache is made again."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong."""

    kind: str
    file: str
    detail: str
    clips: tuple[int, ...] = ()
    """Numbers of the clips that it damages."""


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


def verify_and_fix_cache(
    folder: str | Path,
    fix: bool = False,
    *,
    config: DataConfig | None = None,
    data_folder: str | Path | None = None,
    expected_settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    workers: int | None = None,
    announce: Callable[[str], None] = ignore_line,
) -> VerifyReport:
    """Check the cache in `folder` (`…/<fingerprint>`) record by record; repair it with `fix`.

    `config` and `data_folder` are what it is prepared from; by default what its header names. `expected_settings` are those that
    it must have been prepared with, if the caller knows them. `announce(line)` says which process is waited for.
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
    prepared = prepare_corpus(config, data_folder, progress=progress, announce=announce, workers=workers)
    with cache_lock(prepared.folder, announce):
        for path in unnamed_files(prepared.folder, _read_json(prepared.folder)):
            path.unlink()
        left, _ = find_problems(prepared.folder, expected_settings, progress)
    if left:
        raise CacheError(
            f"The cache in {folder} could not be repaired: {left[0].kind} in {left[0].file} ({left[0].detail}). "
            "Is the disk failing? Remove the folder and run `myxtts prepare`."
        )
    return VerifyReport(folder, tuple(problems), checked, damaged_ids, True, prepared)


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
    folder: Path, expected_settings: Mapping[str, Any] | None = None, progress: Progress = ignore_progress
) -> tuple[list[Problem], Cache | None]:
    """Everything that is wrong, and the cache itself if its index can be trusted. Nothing is changed."""
    header = _read_json(folder)
    if header is None and not (folder / HEADER_NAME).exists():
        return _problems_without_header(folder), None
    problem = _problem_of_header(folder, header, expected_settings)
    if problem:
        return [problem], None
    is_unfinished = unfinished_clips(folder) is not None
    problems = [
        Problem(LEFT_OVER, path.name, f"{path.stat().st_size} bytes that the cache does not name")
        for path in unnamed_files(folder, header)
        if not (is_unfinished and path.name == JOURNAL_NAME)
    ]
    unusable = _problems_of_index(folder, header)
    if unusable:
        return problems + unusable, None
    sizes = {
        header["frames_file"]: header["rows"] * header["mel"]["n_mels"] * 4,
        header["tokens_file"]: header["tokens"] * 4,
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


def _problem_of_header(
    folder: Path, header: dict[str, Any] | None, expected_settings: Mapping[str, Any] | None
) -> Problem | None:
    if header is None:
        return Problem(HEADER_DAMAGED, HEADER_NAME, "it is not what was written (checksum)")
    settings, fingerprint = header["settings"], header["fingerprint"]
    if settings["format"] != FORMAT_VERSION:
        return Problem(STALE, HEADER_NAME, f"format {settings['format']}, this version writes {FORMAT_VERSION}")
    if fingerprint != fingerprint_of(settings):
        return Problem(STALE, HEADER_NAME, f"fingerprint {fingerprint} is not that of its settings")
    if expected_settings is not None and fingerprint != fingerprint_of(expected_settings):
        return Problem(STALE, HEADER_NAME, "; ".join(settings_differences(settings, expected_settings)))
    if folder.name != fingerprint:
        return Problem(STALE, HEADER_NAME, f"fingerprint {fingerprint} in a folder named {folder.name}")
    return None


def _problems_of_index(folder: Path, header: Mapping[str, Any]) -> list[Problem]:
    """Missing files, and strings or columns that are not what was written."""
    problems = []
    for field in ("frames_file", "tokens_file"):
        if not (folder / header[field]).exists():
            problems.append(Problem(INDEX_WITHOUT_DATA, header[field], "the file is missing"))
    for name, size, checksum in (
        (header["index_file"], column_offsets(header["clips"])[1], header["index_checksum"]),
        (header["strings_file"], header["strings_bytes"], header["strings_checksum"]),
    ):
        if not (folder / name).exists():
            problems.append(Problem(INDEX_DAMAGED, name, "the file is missing"))
            continue
        data = map_bytes(folder / name)
        if len(data) != size:
            problems.append(Problem(INDEX_DAMAGED, name, f"{len(data)} bytes, expected {size}"))
        elif zlib.crc32(data) != checksum:
            problems.append(Problem(INDEX_DAMAGED, name, "it is not what was written (checksum)"))
    return problems


def _problems_of_records(cache: Cache, progress: Progress) -> list[Problem]:
    """Records that are not what was written, told apart by whether they lie beyond the end of a file."""
    all_frames = _available(cache.frames_path, "<f4", cache.mel.n_mels)
    all_tokens = _available(cache.tokens_path, "<i4", 1)[:, 0]
    cut_off, flipped = [], []
    for clip in range(cache.num_clips):
        frame_start, token_start = int(cache.frame_starts[clip]), int(cache.token_starts[clip])
        frames = all_frames[frame_start : frame_start + int(cache.frame_counts[clip])]
        tokens = all_tokens[token_start : token_start + int(cache.token_counts[clip])]
        if len(frames) < cache.frame_counts[clip] or len(tokens) < cache.token_counts[clip]:
            cut_off.append(clip)
        elif record_checksum(frames, tokens) != cache.checksums[clip]:
            flipped.append(clip)
        progress("checking records", clip + 1, cache.num_clips)
    problems = []
    names = f"{cache.frames_path.name}, {cache.tokens_path.name}"
    if cut_off:
        problems.append(Problem(TRUNCATED, names, f"{len(cut_off)} clips lie beyond the end", tuple(cut_off)))
    if flipped:
        problems.append(Problem(FLIPPED, names, f"{len(flipped)} clips do not match their checksum", tuple(flipped)))
    if all_frames[:1].any() or all_tokens[:1].any():
        everything = tuple(range(cache.num_clips))
        problems.append(Problem(FLIPPED, names, "the zero row that padding points at is not zero", everything))
    return problems


def _available(path: Path, dtype: str, width: int) -> np.ndarray:
    """The whole rows of a data file, (rows, width), however long it is."""
    data = map_bytes(path)
    return data[: len(data) // (4 * width) * 4 * width].view(dtype).reshape(-1, width)


def _drop_clips(cache: Cache, damaged: list[int]) -> None:
    """Publish the cache without the damaged clips; `prepare` then finds them missing."""
    header = cache.header
    kept = np.setdiff1d(np.arange(cache.num_clips), damaged)
    columns = {name: column[kept] for name, column in cache.columns().items() if not name.endswith("_ends")}
    tables = {
        name: header[name]
        for name in ("symbols", "speakers", "languages", "frames_file", "tokens_file", "data_folder", "config")
    }
    tables |= {
        "generation": header["generation"] + 1,
        "rows": min(header["rows"], len(_available(cache.frames_path, "<f4", cache.mel.n_mels))),
        "tokens": min(header["tokens"], len(_available(cache.tokens_path, "<i4", 1))),
    }
    ids, texts = ([strings[clip] for clip in kept.tolist()] for strings in (cache.ids, cache.texts))
    notes = read_notes(cache.folder / header["notes_file"])
    publish(cache.folder, header["settings"], columns, ids, texts, tables, notes.to_bytes())


def _recorded_origin(folder: Path) -> tuple[DataConfig, str]:
    """Configuration and corpus that the header names."""
    header = _read_json(folder)
    if header is None:
        raise CacheError(
            f"The header of the cache in {folder} is missing or damaged, so it does not say what it was prepared from. "
            "Give the corpus: `myxtts verify DATA --fix`."
        )
    return DataConfig(**header["config"]), header["data_folder"]


def _read_json(folder: Path) -> dict[str, Any] | None:
    """The header if it is what was written, whatever it says."""
    try:
        header = json.loads((folder / HEADER_NAME).read_bytes())
    except (OSError, ValueError):
        return None
    is_whole = isinstance(header, dict) and header.pop("checksum", None) == zlib.crc32(canonical_json(header))
    return header if is_whole else None


def _remove_all(folder: Path) -> None:
    (folder / HEADER_NAME).unlink(missing_ok=True)
    for path in unnamed_files(folder, None):
        path.unlink()
