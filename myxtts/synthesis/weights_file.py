"""Weights on disk: named arrays → one uncompressed npz, and back, from a file that a stranger may have made.

Nothing in it is run or unpickled. Names, shapes, number types and sizes are checked against what the network has *before* any
content is read; the checksums of the zip container are checked by reading.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from myxtts.errors import VoiceError
from myxtts.runtime.printable import printable

HIGHEST_FLOAT16 = 6e4
MOST_ENTRIES = 10_000
_NUMBER_TYPES = (np.dtype("<f2"), np.dtype("<f4"))


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
        try:
            version = np.lib.format.read_magic(file)
            read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
            found_shape, is_fortran, number_type = read_header[version](file)
        except (ValueError, KeyError) as error:
            raise VoiceError(f"The weight {name!r:.80} is not an array of numbers ({error!s:.80}).") from None
        if found_shape != shape or is_fortran or number_type not in _NUMBER_TYPES:
            raise VoiceError(
                f"The weight {name!r:.80} does not fit the network. Received: {number_type} {found_shape}. "
                f"Expected: float16 or float32 {shape}."
            )
        expected_bytes = int(np.prod(shape)) * number_type.itemsize
        content = file.read(expected_bytes + 1)
    if len(content) != expected_bytes:
        raise VoiceError(f"The weight {name!r:.80} has {len(content)} bytes; expected {expected_bytes}.")
    values = np.frombuffer(content, number_type).reshape(shape).astype(np.float32)
    if not np.isfinite(values).all():
        raise VoiceError(f"The weight {name!r:.80} holds values that are not finite numbers.")
    return values
