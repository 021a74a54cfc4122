"""Bounded reading of files that a user or an untrusted voice names: it never blocks and never fills the memory.

Every failure is an `OSError` whose `strerror` is a short cause for an error message, including the cases in which plain Python
raises a `ValueError` or blocks: a NUL character in the name, a named pipe, a device.
"""

from __future__ import annotations

import errno
import os
import re
import stat
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


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _size(count: int) -> str:
    for unit, bytes_per_unit in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= bytes_per_unit:
            return f"{count / bytes_per_unit:g} {unit}"
    return f"{count} bytes"
