"""Writing a cache folder: its lock, publishing a new generation, and taking out dead space.

Every file is written by `myxtts.runtime.safe_files`, `cache.json` last. Nothing that a published header names is ever
overwritten, so that a failed write, a full disk or a power cut leaves the old cache as it was.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.cache.format import (
    ADDED_COLUMNS,
    COLUMN_TYPES,
    FIRST_COLD_COLUMN,
    HEADER_NAME,
    canonical_json,
    column_offsets,
    fingerprint_of,
)
from myxtts.errors import CacheError
from myxtts.runtime.locks import FolderLock
from myxtts.runtime.progress import ignore_line
from myxtts.runtime.safe_files import TEMPORARY_SUFFIX, is_full, write_atomically

JOURNAL_NAME = "journal.bin"
LOCK_NAME = "lock"
DEAD_FRACTION = 0.25
"""Fraction of dead rows below which the files are left as they are. Chosen; not measured."""
_NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.ENOENT, errno.ELOOP)
"""Errors that another folder fixes, and another attempt does not."""


@contextlib.contextmanager
def cache_lock(folder: Path, announce: Callable[[str], None] = ignore_line) -> Iterator[None]:
    """Hold the lock of a cache folder. While another process has it, wait, and announce which one."""
    lock = FolderLock(folder, LOCK_NAME)

    def announce_waiting(line: str) -> None:
        announce(f"{line} It is preparing or checking the cache in {folder}.")

    try:
        lock.wait(announce_waiting)
    except OSError as error:
        raise write_error(folder, error) from None
    try:
        yield
    finally:
        lock.release()


def write_array_atomically(path: Path, array: np.ndarray) -> None:
    """Write an array as .npy, whole or not at all."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    write_atomically(path, buffer.getvalue())


def write_error(folder: Path, error: OSError) -> CacheError:
    """The error of a failed write, with what to do about it."""
    if is_full(error):
        return CacheError(
            f"The disk is full (or a quota is reached): {folder} cannot grow. The clips prepared so far are kept, and the cache "
            "that was there before is intact. Free some space, or set data.cache_dir to another disk, and run `myxtts prepare` "
            "again: it continues where it stopped."
        )
    if error.errno in _NOT_ALLOWED:
        return CacheError(
            f"The cache cannot be written. Received: {folder} ({error.strerror}). Name a folder that can be written: "
            "--cache-dir FOLDER, or data.cache_dir in the configuration file."
        )
    return CacheError(f"Writing the cache in {folder} failed: {error.strerror or error}. Run `myxtts prepare` again.")


def publish(
    folder: Path,
    settings: Mapping[str, Any],
    columns: Mapping[str, np.ndarray],
    ids: Sequence[str],
    texts: Sequence[str],
    tables: Mapping[str, Any],
    memory: bytes = b"{}",
) -> None:
    """Write the index of a new generation and rename `cache.json` last; files that the new header does not name are removed.

    Args:
        columns: those of `HOT_COLUMNS` and `COLD_COLUMNS` except id_ends and text_ends; `ADDED_COLUMNS` may be missing.
        tables: the header's other fields: symbols, speakers, languages, generation, frames_file, tokens_file, rows, tokens,
            samples_file, pitch_file, samples, pitches, data_folder, license, attribution, config.
        memory: the content of `myxtts.cache.changes.RejectionMemory`.
    """
    generation = tables["generation"]
    id_bytes, text_bytes = ([value.encode("utf-8") for value in values] for values in (ids, texts))
    strings = b"".join(id_bytes) + b"".join(text_bytes)
    ends = np.cumsum([len(value) for value in id_bytes + text_bytes], dtype="<i8")
    columns = {**columns, "id_ends": ends[: len(ids)], "text_ends": ends[len(ids) :]}
    offsets, index_bytes = column_offsets(COLUMN_TYPES, len(ids))
    index = np.zeros(index_bytes, np.uint8)
    for name, dtype in COLUMN_TYPES.items():
        if name in ADDED_COLUMNS and name not in columns:
            continue
        data = np.ascontiguousarray(columns[name], dtype).view(np.uint8) if len(ids) else np.zeros(0, np.uint8)
        index[offsets[name] : offsets[name] + data.size] = data
    header = {
        "fingerprint": fingerprint_of(settings),
        "settings": dict(settings),
        "mel": dict(settings["mel"]),
        "clips": len(ids),
        "columns": COLUMN_TYPES,
        "index_file": f"index-{generation}.bin",
        "strings_file": f"strings-{generation}.bin",
        "notes_file": f"notes-{generation}.json",
        "strings_bytes": len(strings),
        "hot_checksum": zlib.crc32(index[: offsets[FIRST_COLD_COLUMN]].data),
        "index_checksum": zlib.crc32(index.data),
        "strings_checksum": zlib.crc32(strings),
        **tables,
    }
    try:
        write_atomically(folder / header["index_file"], index.tobytes())
        write_atomically(folder / header["strings_file"], strings)
        write_atomically(folder / header["notes_file"], memory)
        text = json.dumps(header | {"checksum": zlib.crc32(canonical_json(header))}, indent=1, ensure_ascii=False)
        write_atomically(folder / HEADER_NAME, text.encode("utf-8"))
    except OSError as error:
        raise write_error(folder, error) from None
    for path in unnamed_files(folder, header):
        path.unlink()


def unnamed_files(folder: Path, header: Mapping[str, Any] | None) -> list[Path]:
    """Files of a cache folder that its header does not name: left over from interrupted runs."""
    named = {value for name, value in header.items() if name.endswith("_file")} if header else set()
    patterns = (
        "frames-*.f32",
        "tokens-*.i32",
        "samples-*.i16",
        "pitch-*.f32",
        "index-*.bin",
        "strings-*.bin",
        "notes-*.json",
        JOURNAL_NAME,
        f"*{TEMPORARY_SUFFIX}",
        "*.tmp",  # temporary files of 0.1.0
    )
    return sorted(path for pattern in patterns for path in folder.glob(pattern) if path.name not in named)


def is_worth_compacting(folder: Path, records: np.ndarray, data: Mapping[str, Any], n_mels: int) -> bool:
    """Whether changed and removed clips left much dead space (the files only grow), and the disk has room for a copy."""
    live_rows = 1 + int(records["frame_count"].sum(dtype=np.int64))
    is_wasteful = data["rows"] - live_rows > DEAD_FRACTION * data["rows"]
    return is_wasteful and shutil.disk_usage(folder).free > 2 * live_rows * n_mels * 4


def compact(
    folder: Path, records: np.ndarray, data: Mapping[str, Any], n_mels: int, generation: int
) -> tuple[np.ndarray, dict[str, Any]]:
    """Copy the live records, in the order of the clips, into files of the next generation, which `publish` then names.

    Returns the records with their new positions, and the header's names and sizes of the new files.
    """
    records = records.copy()
    new: dict[str, Any] = {}
    for field, size, name, dtype, width, start, count in (
        ("frames_file", "rows", f"frames-{generation}.f32", "<f4", n_mels, "frame_start", "frame_count"),
        ("tokens_file", "tokens", f"tokens-{generation}.i32", "<i4", 1, "token_start", "token_count"),
        ("samples_file", "samples", f"samples-{generation}.i16", "<i2", 1, "sample_start", "sample_count"),
        ("pitch_file", "pitches", f"pitch-{generation}.f32", "<f4", 1, "pitch_start", "frame_count"),
    ):
        table = np.memmap(folder / data[field], dtype, "r", shape=(data[size], width))
        new |= {field: name, size: _copy_live(folder / name, table, records, start, count)}
    return records, new


def _copy_live(target: Path, table: np.ndarray, records: np.ndarray, start_field: str, count_field: str) -> int:
    """Write the zero element and every record's part of `table`; returns the number of elements written."""
    starts = records[start_field].copy()
    counts = np.where(starts > 0, records[count_field].astype(np.int64), 0)
    try:
        with target.open("wb", buffering=1 << 20) as file:
            file.write(table[:1].tobytes())
            for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
                file.write(table[start : start + count].tobytes())
    except OSError as error:
        target.unlink(missing_ok=True)
        raise write_error(target.parent, error) from None
    records[start_field] = np.where(starts > 0, 1 + np.cumsum(counts) - counts, 0)
    return 1 + int(counts.sum())
