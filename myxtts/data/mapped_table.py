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


def mapped_table(path: Path, dtype: type, shape: tuple[int, ...]) -> tf.Tensor:
    """The beginning of a file as a tensor of this shape; what follows belongs to a `prepare` that runs or was interrupted.

    The file stays mapped as long as the tensor, or anything made with it, is alive.
    """
    expected_bytes = np.dtype(dtype).itemsize * math.prod(shape)
    received_bytes = _file_bytes(path)
    if received_bytes < expected_bytes:
        raise CacheError(
            f"{path} is damaged: it has {received_bytes} bytes, expected {expected_bytes}. Run `myxtts verify --fix`."
        )
    array = np.asarray(_MappedPages(path, dtype, shape, expected_bytes))
    return tf.experimental.dlpack.from_dlpack(array.__dlpack__())


def _file_bytes(path: Path) -> int:
    """The size of one of the cache's files."""
    try:
        return path.stat().st_size
    except OSError as error:
        raise CacheError(
            f"The cache's file {path} cannot be read ({error.strerror}). Run `myxtts prepare` again."
        ) from None


class _MappedPages:
    """Gives an array over a read-only mapping, and keeps the mapping open as long as the array is alive."""

    def __init__(self, path: Path, dtype: type, shape: tuple[int, ...], num_bytes: int):
        with open(path, "rb") as file:
            self._pages = mmap.mmap(file.fileno(), num_bytes, access=mmap.ACCESS_READ)
        address = np.frombuffer(self._pages, np.uint8).ctypes.data
        # NumPy lends only arrays that it takes for writable. Nobody writes; whoever did would fault, not change the cache.
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "shape": shape,
            "typestr": np.dtype(dtype).str,
            "data": (address, False),
        }
