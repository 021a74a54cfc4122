"""Voices of formats 1 and 2, whose weights are in weights.npz: read safely from an untrusted file, and converted.

Nothing in the file is run, evaluated or unpickled: arrays are uncompressed floats with the header that NumPy writes, so a file
cannot expand to more than its size. The checksums of the zip container are checked while reading.
"""

from __future__ import annotations

import math
import struct
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import IO

import numpy as np

from myxtts.errors import VoiceError
from myxtts.export.voice_writer import save_voice
from myxtts.runtime.console import printable
from myxtts.runtime.safe_files import open_regular_file, read_array_header
from myxtts.synthesis.onnx_file import LARGEST_FILE
from myxtts.synthesis.voice_folder import (
    FORMAT_VERSION,
    OLD_WEIGHTS_NAME,
    SPEAKER_VECTORS,
    file_checksum,
    license_file,
    parse_description,
)

MOST_ENTRIES = 10_000
_NUMBER_TYPES = (np.dtype("<f2"), np.dtype("<f4"))


def convert_voice(old: Path, folder: Path) -> Path:
    """Write the voice in `old` (format 1 or 2) as a voice folder of the present format; both may be the same folder."""
    description = parse_description(old)
    path = old / OLD_WEIGHTS_NAME
    if description.format_version >= 3:
        raise VoiceError(f"{old} already has the current voice format ({FORMAT_VERSION}). Use it as it is.")
    weights = read_old_weights(path)
    vectors = weights.pop(SPEAKER_VECTORS, None)
    full_license = license_file(old)
    license_text = full_license.read_text(encoding="utf-8", errors="replace") if full_license is not None else ""
    description = replace(description, format_version=FORMAT_VERSION, identity=file_checksum(path))
    try:
        return save_voice(folder, description, weights, vectors, license_text)
    except ValueError as error:  # a kernel with another number of dimensions
        raise VoiceError(
            f"{path} does not have the weights that voice.json describes: {error!s:.100}. Copy the whole voice folder again."
        ) from None


def read_old_weights(path: Path) -> dict[str, np.ndarray]:
    """The named arrays as float32; anything cut off or not written by MyXTTS is a `VoiceError`."""
    try:
        with open_regular_file(path) as file:
            if (size := path.stat().st_size) > LARGEST_FILE:
                raise VoiceError(f"{path} has {size:,} bytes; expected {LARGEST_FILE:,} at most.")
            with zipfile.ZipFile(file) as archive:
                entries = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()[:MOST_ENTRIES]}
                return {name: _read_array(archive, entry, name) for name, entry in entries.items()}
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


def _read_array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, name: str) -> np.ndarray:
    if entry.compress_type != zipfile.ZIP_STORED:
        raise VoiceError(
            f"The weight {name!r:.80} is compressed; MyXTTS writes weights uncompressed. Export the voice again."
        )
    with archive.open(entry) as file:
        number_type, shape = _read_header(file, name)
        expected_bytes = math.prod(shape) * number_type.itemsize
        if expected_bytes > entry.file_size:
            raise VoiceError(
                f"The weight {name!r:.80} has {entry.file_size:,} bytes; its shape {shape!r:.80} needs more. "
                "Copy the whole voice folder again."
            )
        content = file.read(expected_bytes + 1)
    if len(content) != expected_bytes:
        raise VoiceError(
            f"The weight {name!r:.80} has {len(content)} bytes; expected {expected_bytes}. Copy the whole voice folder again."
        )
    values = np.frombuffer(content, number_type).reshape(shape).astype(np.float32)
    if not np.isfinite(values).all():
        raise VoiceError(f"The weight {name!r:.80} has values that are not finite. Train the voice again.")
    return values


def _read_header(file: IO[bytes], name: str) -> tuple[np.dtype, tuple[int, ...]]:
    """The number type and shape of an npy file; a `VoiceError` unless it is an array of floats that MyXTTS wrote."""
    try:
        found, shape = read_array_header(file)
        return next(each for each in _NUMBER_TYPES if each.str == found), shape
    except (ValueError, StopIteration):
        raise VoiceError(
            f"The weight {name!r:.80} is not an array that MyXTTS wrote. Copy the whole voice folder again."
        ) from None
