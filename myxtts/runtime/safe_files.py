"""Files, safely: reading what a user or an untrusted voice names, and the one atomic writer.

Reading never blocks and never fills the memory. Every failure is an `OSError` whose `strerror` is a short cause for an error
message, including the cases in which plain Python raises a `ValueError` or blocks: a NUL character in the name, a named pipe, a
device.

Writing: a reader sees the old file or folder, or the whole new one. New content is written next to its target under a temporary
name, synced to the disk, and renamed to the target. An error, including a full disk, removes the temporary file and leaves the
target unchanged. Log files, which only grow, are appended to.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import shutil
import stat
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, BinaryIO

LONGEST_HEADER = 1024
"""Bytes of an npy header; NumPy writes 118 for arrays of up to four dimensions."""
_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(r"\{'descr': '([^']{1,20})', 'fortran_order': False, 'shape': \(([0-9, ]{0,200})\), \} *\n")
"""What NumPy writes in format version 1.0. Its own reader parses the header as Python and fails in many ways on hostile ones."""
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def read_regular_file(path: str | Path, largest_bytes: int) -> bytes:
    """The content of a regular file of at most `largest_bytes`; raises OSError for anything else."""
    with open_regular_file(path) as file:
        content = file.read(largest_bytes + 1)
    if len(content) > largest_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {_size(largest_bytes)}", os.fspath(path))
    return content


def open_regular_file(path: str | Path) -> BinaryIO:
    """Open a regular file for reading bytes; raises OSError for pipes, devices, folders and impossible names."""
    check_regular_file(path)
    # The file may have been replaced by a pipe since the check: opening it must not wait for a writer.
    file = open(path, "rb", opener=_open_without_waiting)  # noqa: SIM115 - the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        check_regular_file(path)
        raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))
    return file


def check_regular_file(path: str | Path) -> None:
    """Raise OSError unless `path` is a regular file (or a link to one), without opening it."""
    try:
        mode = os.stat(path).st_mode
    except ValueError:
        raise OSError(errno.EINVAL, "its name contains a NUL character", os.fspath(path)) from None
    if not stat.S_ISREG(mode):
        kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "a special file")
        raise OSError(errno.EINVAL, f"it is {kind}, not a regular file", os.fspath(path))


def read_array_header(file: IO[bytes]) -> tuple[str, tuple[int, ...]]:
    """The number type (`<f4`) and shape of an npy file, which stands at its first value then; ValueError if it is none."""
    start = file.read(len(_MAGIC) + 2)
    length = int.from_bytes(start[len(_MAGIC) :], "little")
    header = file.read(length) if start[: len(_MAGIC)] == _MAGIC and length <= LONGEST_HEADER else b""
    match = _HEADER.fullmatch(header.decode("latin-1"))
    if match is None:
        raise ValueError("it is not an array that MyXTTS wrote")
    return match[1], tuple(int(part) for part in match[2].replace(",", " ").split())


def visible_subfolders(folder: Path) -> list[Path]:
    """Folders in `folder` that are not hidden, by name; none where it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return sorted(folder / each.name for each in entries if each.name[0] != "." and each.is_dir())
    except OSError:
        return []


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _size(count: int) -> str:
    for unit, bytes_per_unit in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= bytes_per_unit:
            return f"{count / bytes_per_unit:g} {unit}"
    return f"{count} bytes"


TEMPORARY_SUFFIX = ".partial"

_TEMPORARY = re.compile(rf"\.([0-9a-f]{{8}})\.([0-9]+)\.[0-9]+{re.escape(TEMPORARY_SUFFIX)}")
"""Checksum of the target's name and id of the process, in a name by `temporary_path`; the old folder of a replacement differs."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_count = itertools.count()


def temporary_path(path: Path) -> Path:
    """A name next to `path` that no other process, thread or target uses; short, however long the name of the target is."""
    return path.with_name(f".{_checksum(path.name)}.{os.getpid()}.{next(_count)}{TEMPORARY_SUFFIX}")


def _checksum(name: str) -> str:
    return f"{zlib.crc32(os.fsencode(name)):08x}"


def remove_unfinished(folder: Path, names: Iterable[str]) -> None:
    """Remove what killed processes left of writing the files `names` of a folder; what a living process writes stays."""
    checksums = set(map(_checksum, names))
    for path in folder.glob(f".*{TEMPORARY_SUFFIX}"):
        match = _TEMPORARY.fullmatch(path.name)
        with contextlib.suppress(OSError):  # renamed or removed meanwhile, a folder, or not ours to remove
            if match and match[1] in checksums and not _was_alive(int(match[2]), path.stat().st_mtime):
                path.unlink()


def _was_alive(process_id: int, unix_seconds: float) -> bool:
    """Whether a process that is alive had been started by then; a younger one only has the id of one that ended."""
    import psutil  # the diagnosis as a distribution of its own comes without it

    try:
        return psutil.Process(process_id).create_time() <= unix_seconds
    except psutil.NoSuchProcess:
        return False
    except (psutil.Error, OverflowError):
        return True


@contextlib.contextmanager
def replacing(path: str | Path, *, is_durable: bool = True) -> Iterator[Path]:
    """Yield a temporary path to write to; at the end of the block the file there replaces `path`.

    Args:
        path: the target. It stays unchanged if the block raises.
        is_durable: wait until the content is on the disk. Not needed for files that are written every second.
    """
    path = Path(path)
    with contextlib.suppress(FileNotFoundError):
        check_regular_file(path)  # a pipe or a device such as /dev/null would be replaced by a file
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
    pattern = f".{_checksum(path.name)}.*"
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
