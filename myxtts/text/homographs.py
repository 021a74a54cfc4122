"""Words of one spelling and several pronunciations, decided by the words around them.

A log-linear model with hashed features: neighbors with their distance, nearby words, endings. Weights are shared between all
readings of one class (noun, verb, …) and special for each reading (Gorman et al. 2018, "Improving homograph disambiguation
with supervised machine learning").
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

TABLE_SIZE = 1 << 17
_NEARBY = 6
"""Words to each side that count as nearby."""


class Reading(NamedTuple):
    """One pronunciation of a homograph and its class (`nou`, `vrb`, …; empty if the reading has none)."""

    phonemes: str
    label: str


@dataclass(frozen=True)
class HomographModel:
    """Readings by word, and the hashed weights, (TABLE_SIZE,) int8 times `scale`."""

    readings: Mapping[str, Sequence[Reading]]
    table: np.ndarray
    scale: float

    def choose(self, words: Sequence[str], index: int) -> Reading:
        """The reading of words[index] among its neighbors; in lower case and without quotes it is a key of `readings`."""
        word = words[index].lower().strip("'")
        features = context_features(words, index)
        readings = self.readings[word]
        scores = [self.table[slots_of(features, word, reading)].astype(np.int32).sum() for reading in readings]
        return readings[int(np.argmax(scores))]


def context_features(words: Sequence[str], index: int) -> list[str]:
    """What the model looks at. `words` in their original case; pauses are words of their own."""
    lowered = [word.lower() for word in words[max(0, index - _NEARBY) : index + _NEARBY + 1]]
    center = min(index, _NEARBY)

    def at(offset: int) -> str:
        place = center + offset
        return lowered[place] if 0 <= place < len(lowered) else "|"

    features = ["", "A" if words[index][:1].isupper() and index > 0 else "a"]
    features += [f"{offset}:{at(offset)}" for offset in (-3, -2, -1, 1, 2, 3)]
    features += [f"{offset}~{at(offset)[-size:]}" for offset in (-1, 1) for size in (1, 2, 3)]
    features += [f"-2-1:{at(-2)} {at(-1)}", f"-1+1:{at(-1)} {at(1)}", f"+1+2:{at(1)} {at(2)}"]
    features += sorted({f"b:{word}" for place, word in enumerate(lowered) if place != center})
    return features


def slots_of(features: Sequence[str], word: str, reading: Reading) -> np.ndarray:
    """Places of the table whose weights are summed for a reading."""
    special = f"{word}\t{reading.phonemes}\t"
    keys = [special + feature for feature in features]
    if reading.label:
        keys += [f"\t{reading.label}\t{feature}" for feature in features]
    return np.array([zlib.crc32(key.encode()) % TABLE_SIZE for key in keys], np.int64)
