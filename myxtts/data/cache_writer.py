"""Publishing a cache: columns, strings and tables in; a folder that `myxtts.data.cache.open_cache` opens out.

Every file is written beside and renamed, `cache.json` last. Nothing that a published header names is ever overwritten, so
that a failed write, a full disk or a power cut leaves the old cache as it was.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import platform
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from myxtts.data.cache import (
    COLD_COLUMNS,
    HEADER_NAME,
    HOT_COLUMNS,
    canonical_json,
    column_offsets,
    fingerprint_of,
)
from myxtts.errors import CacheError
from myxtts.runtime.disk import is_full
from myxtts.runtime.progress import duration

JOURNAL_NAME = "journal.bin"
LOCK_NAME = "lock"
HOLDER_NAME = "lock-holder.txt"
"""Who has the lock: process and machine."""
LOCK_POLL_SECONDS = 1.0
LOCK_REMINDER_SECONDS = 60.0
"""Between two announcements of a process that waits."""
TEMPORARY_SUFFIX = ".tmp"
_NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.ENOENT, errno.ELOOP)
"""Errors of a place, not of a disk: another folder helps, another try does not."""


def ignore_line(line: str) -> None:
    """For callers that print nothing."""


@contextlib.contextmanager
def cache_lock(folder: Path, announce: Callable[[str], None] = ignore_line) -> Iterator[None]:
    """Only one process writes into a cache folder; others wait for it, and announce for whom.

    The system releases the lock however its process ends, so that a dead process blocks nobody.
    """
    lock = FileLock(folder / LOCK_NAME)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _acquire(lock, folder, announce)
    except OSError as error:
        raise write_error(folder, error) from None
    try:
        with contextlib.suppress(OSError):  # only for the message of those who wait
            (folder / HOLDER_NAME).write_text(f"process {os.getpid()} on {platform.node()}", encoding="utf-8")
        yield
    finally:
        lock.release()


def _acquire(lock: FileLock, folder: Path, announce: Callable[[str], None]) -> None:
    started, reminder_seconds = time.monotonic(), 0.0
    while True:
        try:
            lock.acquire(timeout=LOCK_POLL_SECONDS, poll_interval=0.05)
            return
        except Timeout:
            waited = time.monotonic() - started
            if waited < reminder_seconds:
                continue
            announce(
                f"Waiting for {_holder(folder)}, which is preparing or checking the cache in {folder}"
                + (f" ({duration(waited)} so far)." if reminder_seconds else ".")
            )
            reminder_seconds = waited + LOCK_REMINDER_SECONDS


def _holder(folder: Path) -> str:
    try:
        return (folder / HOLDER_NAME).read_text(encoding="utf-8", errors="replace")[:100] or "another process"
    except OSError:
        return "another process"


def write_atomically(path: Path, data: bytes) -> None:
    """Write next to the file, bring to the disk, rename: a reader sees the old file or the whole new one."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}{TEMPORARY_SUFFIX}")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def write_array_atomically(path: Path, array: np.ndarray) -> None:
    """An array as .npy, whole or not at all."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    write_atomically(path, buffer.getvalue())


def write_error(folder: Path, error: OSError) -> CacheError:
    """What a failed write means to the user."""
    if is_full(error):
        return CacheError(
            f"The disk is full (or a quota is reached): {folder} cannot grow. What is prepared so far is kept, and the cache "
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
    notes: bytes = b"{}",
) -> None:
    """Write the index of a new generation and rename `cache.json` last; files that nobody names any more are removed.

    `columns` are those of `HOT_COLUMNS` and `COLD_COLUMNS` except id_ends and text_ends. `tables` are the header's other
    fields: symbols, speakers, languages, generation, frames_file, tokens_file, rows, tokens, data_folder, config.
    `notes` are the bytes of `myxtts.data.notes.Notes`.
    """
    generation = tables["generation"]
    id_bytes, text_bytes = ([value.encode("utf-8") for value in values] for values in (ids, texts))
    strings = b"".join(id_bytes) + b"".join(text_bytes)
    ends = np.cumsum([len(value) for value in id_bytes + text_bytes], dtype="<i8")
    columns = {**columns, "id_ends": ends[: len(ids)], "text_ends": ends[len(ids) :]}
    offsets, index_bytes = column_offsets(len(ids))
    index = np.zeros(index_bytes, np.uint8)
    for name, dtype in (HOT_COLUMNS | COLD_COLUMNS).items():
        data = np.ascontiguousarray(columns[name], dtype).view(np.uint8) if len(ids) else np.zeros(0, np.uint8)
        index[offsets[name] : offsets[name] + data.size] = data
    header = {
        "fingerprint": fingerprint_of(settings),
        "settings": dict(settings),
        "mel": dict(settings["mel"]),
        "clips": len(ids),
        "index_file": f"index-{generation}.bin",
        "strings_file": f"strings-{generation}.bin",
        "notes_file": f"notes-{generation}.json",
        "strings_bytes": len(strings),
        "hot_checksum": zlib.crc32(index[: offsets["id_ends"]]),
        "index_checksum": zlib.crc32(index),
        "strings_checksum": zlib.crc32(strings),
        **tables,
    }
    try:
        write_atomically(folder / header["index_file"], index.tobytes())
        write_atomically(folder / header["strings_file"], strings)
        write_atomically(folder / header["notes_file"], notes)
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
        "index-*.bin",
        "strings-*.bin",
        "notes-*.json",
        JOURNAL_NAME,
        f"*{TEMPORARY_SUFFIX}",
    )
    return sorted(path for pattern in patterns for path in folder.glob(pattern) if path.name not in named)
