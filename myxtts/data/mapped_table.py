"""A file as a tensor without reading it: raw numbers on disk in, a tensor over mapped pages out.

The pages are read-only and belong to the system's page cache: what is in use stays in memory, what is not is given up when memory
is short. (TensorFlow's own ImmutableConst maps a file, too, but its first use evaluates it as a constant, which reads
and copies the whole file.)
"""

from __future__ import annotations

import math
import mmap
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.errors import CacheError


def mapped_table(path: Path, dtype: type, row_shape: tuple[int, ...]) -> tf.Tensor:
    """The whole file as (rows, *row_shape). It stays mapped as long as the tensor, or anything made with it, is alive."""
    row_bytes = np.dtype(dtype).itemsize * math.prod(row_shape)
    rows, remainder = divmod(file_bytes(path), row_bytes)
    if remainder or not rows:
        raise CacheError(
            f"{path} is damaged: {file_bytes(path)} bytes are not a whole number of rows of {row_bytes} bytes. "
            "Run `myxtts verify --fix`."
        )
    array = np.asarray(_MappedPages(path, dtype, (rows, *row_shape)))
    return tf.experimental.dlpack.from_dlpack(array.__dlpack__())


def file_bytes(path: Path) -> int:
    """The size of one of the cache's files."""
    try:
        return path.stat().st_size
    except OSError as error:
        raise CacheError(
            f"The cache's file {path} cannot be read ({error.strerror}). Run `myxtts prepare` again."
        ) from None


class _MappedPages:
    """Gives an array over a read-only mapping, and keeps the mapping open as long as the array is alive."""

    def __init__(self, path: Path, dtype: type, shape: tuple[int, ...]):
        with open(path, "rb") as file:
            self._pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        address = np.frombuffer(self._pages, np.uint8).ctypes.data
        # NumPy lends only arrays that it takes for writable. Nobody writes; whoever did would fault, not change the cache.
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "shape": shape,
            "typestr": np.dtype(dtype).str,
            "data": (address, False),
        }
