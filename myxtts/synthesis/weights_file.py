"""Weights on disk: named arrays → one uncompressed npz, and back, from an untrusted file.

Nothing in it is run, evaluated or unpickled. Names, shapes, number types and sizes are checked against what the network has
*before* any content is read; the checksums of the zip container are checked by reading.
"""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import numpy as np

from myxtts.errors import VoiceError
from myxtts.runtime.console import printable

HIGHEST_FLOAT16 = 6e4
MOST_ENTRIES = 10_000
ENTRY_BYTES = 4096
"""More than the zip and npy headers of one array take."""
LONGEST_HEADER = 1024
"""Bytes of an npy header; NumPy writes 118 for arrays of up to four dimensions."""
_NUMBER_TYPES = (np.dtype("<f2"), np.dtype("<f4"))
_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(r"\{'descr': '([^']{1,20})', 'fortran_order': (True|False), 'shape': \(([0-9, ]{0,200})\), \} *\n")
"""What NumPy writes in format version 1.0. Its own reader parses the header as Python and fails in many ways on hostile ones."""


def write_weights(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Matrices as float16 (half the size; a change of 0.05 % at most), vectors and statistics as float32."""
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **{name: _stored(name, array) for name, array in arrays.items()})


def _stored(name: str, array: np.ndarray) -> np.ndarray:
    array = np.asarray(array, np.float32)
    if not np.isfinite(array).all():
        raise VoiceError(f"The weight {name!r} holds values that are not finite. Use an earlier checkpoint.")
    is_narrow = array.ndim >= 2 and float(np.abs(array).max(initial=0.0)) < HIGHEST_FLOAT16
    return np.ascontiguousarray(array, "<f2" if is_narrow else "<f4")


def count_weights(path: Path) -> int:
    """Numbers in the file (its bytes halved, at most): how large a network it can belong to."""
    try:
        return path.stat().st_size // _NUMBER_TYPES[0].itemsize
    except OSError as error:
        raise VoiceError(
            f"{path} is missing or cannot be read ({error.strerror}). Copy the whole voice folder."
        ) from None


def read_weights(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Exactly the named arrays, as float32; anything missing, cut off, foreign or of another shape is a `VoiceError`."""
    try:
        most_bytes = sum(4 * int(np.prod(shape)) + ENTRY_BYTES for shape in shapes.values()) + ENTRY_BYTES
        if (size := path.stat().st_size) > most_bytes:
            raise VoiceError(
                f"{path} does not hold the weights that voice.json describes: it has {size:,} bytes, and those have at most "
                f"{most_bytes:,}. Export the voice again."
            )
        with zipfile.ZipFile(path) as archive:
            entries = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()[:MOST_ENTRIES]}
            _check_names(path, set(entries), set(shapes))
            return {name: _read_array(archive, entry, name, shapes[name]) for name, entry in entries.items()}
    # zipfile raises a RuntimeError for entries marked as encrypted and a ValueError for names that are not UTF-8.
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError, struct.error) as error:
        reason = printable(str(error), keeps_lines=False)
        raise VoiceError(
            f"{path} is cut off or damaged ({reason:.120}). Copy the whole voice folder again, or export it again."
        ) from None
    except OSError as error:
        raise VoiceError(
            f"{path} is missing or cannot be read ({error.strerror}). Copy the whole voice folder."
        ) from None


def _check_names(path: Path, found: set[str], expected: set[str]) -> None:
    if found != expected:
        differing = sorted(found ^ expected)
        raise VoiceError(
            f"{path} does not hold the weights that voice.json describes: {len(expected - found)} are missing and "
            f"{len(found - expected)} are not its own (such as {differing[0]!r:.80}). Export the voice again."
        )


def _read_array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, name: str, shape: tuple[int, ...]) -> np.ndarray:
    if entry.compress_type != zipfile.ZIP_STORED:
        raise VoiceError(
            f"The weight {name!r:.80} is compressed; MyXTTS writes weights uncompressed. Export the voice again."
        )
    with archive.open(entry) as file:
        number_type = _check_header(file, name, shape)
        expected_bytes = int(np.prod(shape)) * number_type.itemsize
        content = file.read(expected_bytes + 1)
    if len(content) != expected_bytes:
        raise VoiceError(f"The weight {name!r:.80} has {len(content)} bytes; expected {expected_bytes}.")
    values = np.frombuffer(content, number_type).reshape(shape).astype(np.float32)
    if not np.isfinite(values).all():
        raise VoiceError(f"The weight {name!r:.80} holds values that are not finite numbers.")
    return values


def _check_header(file: IO[bytes], name: str, shape: tuple[int, ...]) -> np.dtype:
    """The number type of an npy file that is at its start; a `VoiceError` unless it is an array of floats of this shape."""
    start = file.read(len(_MAGIC) + 2)
    length = int.from_bytes(start[len(_MAGIC) :], "little")
    header = file.read(length) if start[: len(_MAGIC)] == _MAGIC and length <= LONGEST_HEADER else b""
    match = _HEADER.fullmatch(header.decode("latin-1"))
    if match is None:
        raise VoiceError(f"The weight {name!r:.80} is not an array that MyXTTS wrote. Export the voice again.")
    number_type = next((each for each in _NUMBER_TYPES if each.str == match[1]), None)
    found_shape = tuple(int(part) for part in match[3].replace(",", " ").split())
    if found_shape != shape or match[2] == "True" or number_type is None:
        order = " in Fortran order" if match[2] == "True" else ""
        raise VoiceError(
            f"The weight {name!r:.80} does not fit the network. Received: {match[1]!r} ({match[3]:.80}){order}. "
            f"Expected: float16 or float32 {shape}."
        )
    return number_type
