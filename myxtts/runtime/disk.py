"""Writing to a disk that may be full: what failed is told in words, and no torn line or record stays behind."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


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
            with contextlib.suppress(OSError):  # the first error is the one to tell
                file.truncate(size)
            raise


def is_full(error: OSError) -> bool:
    """Whether a write failed because there is no space: on the disk, in a quota, or in the largest file allowed."""
    return error.errno in _FULL


def cause_of(error: OSError) -> str:
    """Why something could not be written, in words."""
    return "the disk is full" if is_full(error) else error.strerror or str(error)
