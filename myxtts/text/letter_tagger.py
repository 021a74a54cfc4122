"""A small convolutional network that gives every letter of a text a tag: the phonemes that the letter stands for.

Seven residual blocks of gated dilated convolutions (Dauphin et al. 2017, "Language Modeling with Gated Convolutional Networks")
over the letters of a whole sentence, in NumPy. `myxtts.training.g2p` trains it and writes its file: a `.npz` archive of int8
weights with one scale per column, and a JSON description. No pickle.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

KERNEL_SIZE = 5
EPSILON = 1e-5
"""Of the layer normalization."""
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

    def run(self, rows: np.ndarray, marks: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Tag scores (length, tags), with those that a letter cannot have at minus infinity, and end scores (length,).

        Args:
            rows: from `encode`, (length,).
            marks: which diacritics follow each letter, (length, marks), for languages with diacritics.
        """
        weights = self.weights
        hidden = weights["embedding"][rows]
        if marks is not None and marks.any():
            hidden = hidden + marks.astype(np.float32) @ weights["marks"]
        for block, dilation in enumerate(self.dilations):
            normalized = _layer_norm(hidden, weights[f"norm_{block}"])
            gated = _shifted(normalized, dilation) @ weights[f"kernel_{block}"] + weights[f"bias_{block}"]
            value, gate = np.split(gated, 2, axis=-1)
            hidden = hidden + value / (1.0 + np.exp(-gate))
        hidden = _layer_norm(hidden, weights["norm_out"])
        scores = hidden @ weights["tag_kernel"] + weights["tag_bias"]
        scores = np.where(self.allowed[rows], scores, -np.inf)
        return scores, (hidden @ weights["end_kernel"] + weights["end_bias"])[:, 0]


def _shifted(hidden: np.ndarray, dilation: int) -> np.ndarray:
    """(length, channels) → (length, KERNEL_SIZE * channels): each position with its dilated neighbors, zeros outside."""
    length, channels = hidden.shape
    reach = KERNEL_SIZE // 2 * dilation
    padded = np.zeros((length + 2 * reach, channels), np.float32)
    padded[reach : reach + length] = hidden
    return np.concatenate([padded[tap * dilation : tap * dilation + length] for tap in range(KERNEL_SIZE)], axis=-1)


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
    arrays = {
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
