"""The file of a pronunciation model: a `.npz` archive without pickle, with the letter tagger, the lexicon and the homographs.

A voice from an untrusted source may bring its own: the arrays of a file are checked before they are read.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from myxtts.errors import TextError
from myxtts.runtime.atomic import write_atomically
from myxtts.runtime.untrusted_files import read_array_header, read_regular_file
from myxtts.text.context_models import EZAFE_TABLE_SIZE as ezafe_size
from myxtts.text.context_models import HOMOGRAPH_TABLE_SIZE as homographs_size
from myxtts.text.context_models import EzafeModel, HomographModel, Reading
from myxtts.text.letter_tagger import LetterTagger, pack_tagger, unpack_tagger

LARGEST_FILE = 64 << 20
LARGEST_CONTENT = 256 << 20
"""Bytes of all arrays; a compressed file may hold much more than its size."""
_ITEM_BYTES = {"|i1": 1, "|u1": 1, "<f4": 4}


class G2PModel(NamedTuple):
    """What is in the file."""

    tagger: LetterTagger
    lexicon: Mapping[str, str]
    homographs: HomographModel
    ezafe: EzafeModel | None = None
    """Persian only."""


def save_model(path: str | Path, model: G2PModel) -> None:
    """Write a model; the same model always gives the same arrays."""
    readings = {word: [list(reading) for reading in each] for word, each in sorted(model.homographs.readings.items())}
    arrays = pack_tagger(model.tagger) | {
        "lexicon": _bytes_array(_rows_of(model.lexicon)),
        "homograph_readings": _bytes_array(json.dumps(readings, ensure_ascii=False)),
        "homograph_table": model.homographs.table,
        "homograph_scale": np.array(model.homographs.scale, np.float32),
    }
    if model.ezafe is not None:
        arrays |= {
            "ezafe_table": model.ezafe.table,
            "ezafe_scale": np.array(model.ezafe.scale, np.float32),
            "ezafe_classes": _bytes_array(_rows_of(model.ezafe.classes)),
        }
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, **arrays)
    write_atomically(path, content.getvalue())


def load_model(path: str | Path) -> G2PModel:
    """Read a model; a file that is not one raises `TextError`."""
    try:
        content = io.BytesIO(read_regular_file(path, LARGEST_FILE))
        _check_arrays(content)
        with np.load(content, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        readings = {
            word: [Reading(*each) for each in listed]
            for word, listed in json.loads(_text(arrays["homograph_readings"])).items()
        }
        homographs = HomographModel(
            readings, _table(arrays, "homograph_table", homographs_size), float(arrays["homograph_scale"])
        )
        ezafe = None
        if "ezafe_table" in arrays:
            classes = _from_rows(arrays["ezafe_classes"])
            ezafe = EzafeModel(_table(arrays, "ezafe_table", ezafe_size), float(arrays["ezafe_scale"]), classes)
        return G2PModel(unpack_tagger(arrays), _from_rows(arrays["lexicon"]), homographs, ezafe)
    # zipfile raises a RuntimeError for entries marked as encrypted.
    except (
        OSError, EOFError, LookupError, ValueError, TypeError, AttributeError, RuntimeError, zipfile.BadZipFile
    ) as error:  # fmt: skip
        raise TextError(f"{path} is not a pronunciation model of this version ({error}).") from error


def _check_arrays(content: io.BytesIO) -> None:
    """Raise a ValueError unless every array has exactly the bytes of its shape, and all of them are of a bearable size."""
    with zipfile.ZipFile(content) as archive:
        entries = archive.infolist()
        if sum(entry.file_size for entry in entries) > LARGEST_CONTENT:
            raise ValueError("its arrays are too large")
        for entry in entries:
            with archive.open(entry) as file:
                number_type, shape = read_array_header(file)
                if math.prod(shape) * _ITEM_BYTES[number_type] + file.tell() != entry.file_size:
                    raise ValueError(f"{entry.filename!r:.60} does not have the size of its shape")
    content.seek(0)


def _table(arrays: Mapping[str, np.ndarray], name: str, size: int) -> np.ndarray:
    table = arrays[name]
    if table.shape != (size,) or table.dtype != np.int8:
        raise ValueError(f"{name} of shape {table.shape}")
    return table


def _rows_of(words: Mapping[str, str]) -> str:
    return "\n".join(f"{word}\t{value}" for word, value in sorted(words.items()))


def _from_rows(array: np.ndarray) -> dict[str, str]:
    return {word: value for word, _, value in (row.partition("\t") for row in _text(array).splitlines())}


def _bytes_array(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), np.uint8)


def _text(array: np.ndarray) -> str:
    return array.tobytes().decode()
