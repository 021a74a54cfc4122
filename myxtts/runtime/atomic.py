"""The one atomic writer: a reader sees the old file or folder, or the whole new one.

New content is written next to its target under a temporary name, synced to the disk, and renamed to the target. An error,
including a full disk, removes the temporary file and leaves the target unchanged. Log files, which only grow, are appended to.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path

TEMPORARY_SUFFIX = ".partial"

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_count = itertools.count()


def temporary_path(path: Path) -> Path:
    """A name next to `path` that no other process, thread or target uses; short, however long the name of the target is."""
    checksum = zlib.crc32(os.fsencode(path.name))
    return path.with_name(f".{checksum:08x}.{os.getpid()}.{next(_count)}{TEMPORARY_SUFFIX}")


@contextlib.contextmanager
def replacing(path: str | Path, *, is_durable: bool = True) -> Iterator[Path]:
    """Yield a temporary path to write to; at the end of the block the file there replaces `path`.

    Args:
        path: the target. It stays unchanged if the block raises.
        is_durable: wait until the content is on the disk. Not needed for files that are written every second.
    """
    path = Path(path)
    temporary = temporary_path(path)
    try:
        yield temporary
        if is_durable:
            sync_file(temporary)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_atomically(path: str | Path, content: bytes | str, *, is_durable: bool = True) -> None:
    """Write a whole file (text as UTF-8); see `replacing`."""
    with replacing(path, is_durable=is_durable) as temporary:
        temporary.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)


@contextlib.contextmanager
def replacing_folder(path: str | Path) -> Iterator[Path]:
    """Yield a new empty folder to fill; at the end of the block it replaces the folder `path`, if there is one.

    Between the two renames of a replacement there is no folder `path`; if the second one fails, the old folder is put back.
    """
    path = Path(path)
    # `voice/../voice` would lead nowhere while there is no folder `voice`.
    path = path.resolve() if path.name == ".." else path.parent.resolve() / path.name
    temporary = temporary_path(path)
    old = temporary.with_suffix(".old" + TEMPORARY_SUFFIX)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                sync_file(file)
        if path.exists():
            path.rename(old)
        temporary.rename(path)
    except BaseException:
        if old.exists() and not path.exists():
            old.rename(path)
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def recover_folder(path: str | Path) -> None:
    """Repair what a killed `replacing_folder` left: put the old folder back if `path` is missing, and remove the rest.

    Only for a folder that no other process writes at the moment.
    """
    path = Path(path)
    pattern = f".{zlib.crc32(os.fsencode(path.name)):08x}.*"
    for old in path.parent.glob(f"{pattern}.old{TEMPORARY_SUFFIX}"):
        if not path.exists():
            old.rename(path)
    for left in path.parent.glob(f"{pattern}{TEMPORARY_SUFFIX}"):
        shutil.rmtree(left, ignore_errors=True)


def sync_file(path: Path) -> None:
    """Wait until the content of a file is on the disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def append_whole(path: Path, content: bytes, header: bytes = b"") -> None:
    """Append `content`, after `header` if the file is new; raises OSError, and then the file is as it was before.

    The file is opened for every call: a file that could not be written once is written again when there is space.
    """
    with open(path, "ab", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        rest = memoryview(content if size else header + content)
        try:
            while rest:
                rest = rest[file.write(rest) :]
        except OSError:
            with contextlib.suppress(OSError):  # the first error is the one to report
                file.truncate(size)
            raise


def is_full(error: OSError) -> bool:
    """Whether a write failed because there is no space: on the disk, in a quota, or in the largest file allowed."""
    return error.errno in _FULL


def cause_of(error: OSError) -> str:
    """A short reason why something could not be written, for an error message."""
    return "the disk is full" if is_full(error) else error.strerror or str(error)
