"""A pronunciation model: the letter tagger, and the file with it, the lexicon and the homographs.

The letter tagger is a small convolutional network that gives every letter of a text a tag: the phonemes that the letter stands
for. Seven residual blocks of gated dilated convolutions (Dauphin et al. 2017, "Language Modeling with Gated Convolutional
Networks") over the letters of a whole sentence, in NumPy; `myxtts.training.g2p_tagger` trains it.

The file is a `.npz` archive without pickle: int8 weights with one scale per column, and JSON. A voice from an untrusted source
may bring its own, so the arrays are checked before they are read.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from myxtts.errors import TextError
from myxtts.runtime.safe_files import read_array_header, read_regular_file, write_atomically
from myxtts.text.homographs import HOMOGRAPH_TABLE_SIZE as homographs_size
from myxtts.text.homographs import HomographModel, Reading
from myxtts.text.persian_ezafe import EZAFE_TABLE_SIZE as ezafe_size
from myxtts.text.persian_ezafe import EzafeModel

KERNEL_SIZE = 5
EPSILON = 1e-5
"""Epsilon of the layer normalization."""
_SERIAL_MULTIPLICATIONS = 1 << 18
"""Size of a product up to which OpenBLAS, NumPy's usual BLAS, starts no threads. With two threads and busy cores, reading a text
took ten times as long as with one."""
_TILE_ROWS = 16
_FORMAT = "myxtts-letter-tagger-1"


@dataclass(frozen=True)
class LetterTagger:
    """The network and what its outputs mean.

    Attributes:
        letters: the known input symbols; row i + 1 of the embedding belongs to letters[i], row 0 to anything else.
        tags: the outputs; `allowed[letter row]` lists which of them a letter can have.
        dilations: one per block.
        weights: float32 arrays by name.
        extra: further JSON values of the language (thresholds, word lists).
    """

    letters: str
    tags: tuple[str, ...]
    dilations: tuple[int, ...]
    allowed: np.ndarray
    weights: Mapping[str, np.ndarray]
    extra: Mapping[str, Any]

    def encode(self, letters: Sequence[str]) -> np.ndarray:
        """Embedding rows of letters, (length,) int."""
        return np.array([self.letters.find(letter) + 1 for letter in letters], np.int64)

    def run(
        self, rows: np.ndarray, marks: np.ndarray | None = None, lengths: Sequence[int] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Tag scores (letters, tags), with those that a letter cannot have at minus infinity, and end scores (letters,).

        Args:
            rows: from `encode`, (letters,).
            marks: which diacritics follow each letter, (letters, marks), for languages with diacritics.
            lengths: of the texts that `rows` holds one after another, each read alone; None if it is one text.
        """
        weights = self.weights
        size = -(-len(rows) // _TILE_ROWS) * _TILE_ROWS
        hidden = weights["embedding"][_padded(rows, size)]
        if marks is not None and marks.any():
            hidden = hidden + _product(_padded(marks.astype(np.float32), size), weights["marks"])
        texts = np.array([len(rows)] if lengths is None else lengths)
        neighbors = {dilation: _neighbors(texts, dilation, size) for dilation in set(self.dilations)}
        outside = np.zeros((1, hidden.shape[1]), np.float32)
        for block, dilation in enumerate(self.dilations):
            normalized = np.concatenate([_layer_norm(hidden, weights[f"norm_{block}"]), outside])
            taps = weights[f"kernel_{block}"].reshape(KERNEL_SIZE, hidden.shape[1], -1)
            gated = _product(normalized[neighbors[dilation]], taps).sum(axis=0) + weights[f"bias_{block}"]
            value, gate = np.split(gated, 2, axis=-1)
            hidden = hidden + value / (1.0 + np.exp(-gate))
        hidden = _layer_norm(hidden, weights["norm_out"])
        scores = _product(hidden, weights["tag_kernel"])[: len(rows)] + weights["tag_bias"]
        scores = np.where(self.allowed[rows], scores, -np.inf)
        return scores, (_product(hidden, weights["end_kernel"]) + weights["end_bias"])[: len(rows), 0]

    def run_each(
        self, rows: Sequence[np.ndarray], marks: Sequence[np.ndarray] | None = None
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """`run` of several texts at once, each read alone: scores of each."""
        lengths = [len(each) for each in rows]
        scores, ends = self.run(np.concatenate(rows), None if marks is None else np.concatenate(marks), lengths)
        cuts = np.cumsum(lengths)[:-1]
        return list(zip(np.split(scores, cuts), np.split(ends, cuts), strict=True))

    def best_tags(self, scores: np.ndarray) -> str:
        """The tags with the highest scores, (letters, tags), joined."""
        return "".join(self.tags[tag] for tag in scores.argmax(axis=-1))


def _padded(array: np.ndarray, size: int) -> np.ndarray:
    return np.concatenate([array, np.zeros((size - len(array), *array.shape[1:]), array.dtype)])


def _neighbors(lengths: np.ndarray, dilation: int, size: int) -> np.ndarray:
    """For each tap and letter the index of the letter that the tap reads, (KERNEL_SIZE, size); `size` outside of its text."""
    stops = np.repeat(np.cumsum(lengths), lengths)
    starts = stops - np.repeat(lengths, lengths)
    places = np.arange(len(stops)) + dilation * (np.arange(KERNEL_SIZE)[:, None] - KERNEL_SIZE // 2)
    found = np.full((KERNEL_SIZE, size), size)
    found[:, : len(stops)] = np.where((places >= starts) & (places < stops), places, size)
    return found


def _product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """`left @ right` in tiles that BLAS computes in one thread.

    Args:
        left: (..., rows, depth); the rows are a multiple of _TILE_ROWS.
        right: (..., depth, width).
    """
    *groups, rows, depth = left.shape
    width = right.shape[-1]
    tiles = left.reshape(*groups, rows // _TILE_ROWS, _TILE_ROWS, depth)
    product = np.empty((*tiles.shape[:-1], width), np.float32)
    columns = max(1, _SERIAL_MULTIPLICATIONS // (_TILE_ROWS * depth))
    for start in range(0, width, columns):
        span = slice(start, start + columns)
        np.matmul(tiles, right[..., None, :, span], out=product[..., span])
    return product.reshape(*groups, rows, width)


def _layer_norm(hidden: np.ndarray, scale: np.ndarray) -> np.ndarray:
    centered = hidden - hidden.mean(axis=-1, keepdims=True)
    return centered / np.sqrt((centered * centered).mean(axis=-1, keepdims=True) + EPSILON) * scale


def pack_tagger(tagger: LetterTagger) -> dict[str, np.ndarray]:
    """The arrays of a tagger's file: matrices as int8 with one float32 scale per column, the rest as float32."""
    description = {
        "format": _FORMAT,
        "letters": tagger.letters,
        "tags": list(tagger.tags),
        "dilations": list(tagger.dilations),
        "extra": dict(tagger.extra),
    }
    text = json.dumps(description, ensure_ascii=False, sort_keys=True).encode()
    arrays: dict[str, np.ndarray] = {
        "description": np.frombuffer(text, np.uint8),
        "allowed": np.packbits(tagger.allowed, axis=-1),
    }
    for name, weight in tagger.weights.items():
        if weight.ndim < 2:
            arrays[f"weight/{name}"] = weight.astype(np.float32)
            continue
        scale = np.maximum(np.abs(weight).max(axis=0), 1e-8).astype(np.float32) / 127
        arrays[f"weight/{name}"] = np.round(weight / scale).astype(np.int8)
        arrays[f"scale/{name}"] = scale
    return arrays


def unpack_tagger(arrays: Mapping[str, np.ndarray]) -> LetterTagger:
    """The tagger of arrays from `pack_tagger`; raises KeyError, TypeError or ValueError for anything else."""
    description = json.loads(arrays["description"].tobytes().decode())
    if description["format"] != _FORMAT:
        raise ValueError(f"format {description['format']!r}")
    tags = tuple(description["tags"])
    allowed = np.unpackbits(arrays["allowed"], axis=-1)[:, : len(tags)].astype(bool)
    weights = {
        name.removeprefix("weight/"): _unpacked(array, arrays.get(name.replace("weight/", "scale/", 1)))
        for name, array in arrays.items()
        if name.startswith("weight/")
    }
    return LetterTagger(
        description["letters"], tags, tuple(description["dilations"]), allowed, weights, description["extra"]
    )


def _unpacked(array: np.ndarray, scale: np.ndarray | None) -> np.ndarray:
    return array.astype(np.float32) if scale is None else array.astype(np.float32) * scale


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
        raise TextError(
            f"{path} is not a pronunciation model that this version of MyXTTS can read ({error}). "
            "Expected a file written by `myxtts g2p train`."
        ) from error


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
