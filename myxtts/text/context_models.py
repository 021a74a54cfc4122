"""Decisions by the words around a word: which reading a homograph has, and whether a Persian word has an ezafe.

Both are log-linear models with hashed features. Weights of homographs are shared between all readings of one class (noun, verb,
…) and special for each reading (Gorman et al. 2018, "Improving homograph disambiguation with supervised machine learning"). The
ezafe model complements the end scores of the letter tagger: it is certain about frequent words, the tagger about their context.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from myxtts.text.persian_letters import PAUSE, ZWNJ, Line

HOMOGRAPH_TABLE_SIZE = 1 << 17
_NEARBY = 6
"""Words to each side that count as nearby."""
SURE = 4.0
"""Lead, in log odds, that an unusual reading needs: HomoRich's sentences have rare readings as often as usual ones. With it, 91 %
of the homographs in FarsDat's sentences are right (73 % without usual readings), and of HomoRich's, held out, 73 % (73 %)."""


class Reading(NamedTuple):
    """One pronunciation of a homograph and its class (`nou`, `vrb`, …; empty if the reading has none)."""

    phonemes: str
    label: str


@dataclass(frozen=True)
class HomographModel:
    """Readings by word, and the hashed weights, (HOMOGRAPH_TABLE_SIZE,) int8 times `scale`."""

    readings: Mapping[str, Sequence[Reading]]
    table: np.ndarray
    scale: float

    def choose(self, words: Sequence[str], index: int, usual: str | None = None) -> Reading:
        """The reading of words[index] among its neighbors; in lower case and without quotes it is a key of `readings`.

        Args:
            usual: the most frequent reading's phonemes; another one must be better by SURE.
        """
        word = words[index].lower().strip("'")
        features = context_features(words, index)
        readings = self.readings[word]
        scores = [self.table[slots_of(features, word, reading)].astype(np.int32).sum() for reading in readings]
        ahead = [SURE / self.scale if reading.phonemes == usual else 0.0 for reading in readings]
        return readings[int(np.argmax(np.add(scores, ahead)))]


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
    return np.array([zlib.crc32(key.encode()) % HOMOGRAPH_TABLE_SIZE for key in keys], np.int64)


EZAFE_TABLE_SIZE = 1 << 18
_EDGE = "|"
_ENDINGS = ("های", "ها", "ی", f"{ZWNJ}ای", f"{ZWNJ}اش", "ش", "م", "ت", "ان", f"{ZWNJ}ام", "تر", "ترین")


@dataclass(frozen=True)
class EzafeModel:
    """Hashed weights, (EZAFE_TABLE_SIZE,) int8 times `scale`, and the class (part of speech) of the words that have one."""

    table: np.ndarray
    scale: float
    classes: Mapping[str, str]

    def scores(self, line: Line) -> np.ndarray:
        """Log odds of an ezafe after each word, (words,)."""
        slots = np.array([ezafe_slots(line, index, self.classes) for index in range(len(line.words))])
        return self.table[slots].astype(np.int32).sum(axis=1) * self.scale


def class_of(word: str, classes: Mapping[str, str]) -> str:
    """The class of a word, or of its stem with the ending; `?` if neither is known."""
    if word in classes:
        return classes[word]
    for ending in _ENDINGS:
        stem = word.removesuffix(ending)
        if stem != word and stem.strip(ZWNJ) in classes:
            return f"{classes[stem.strip(ZWNJ)]}-{ending}"
    return "?"


def ezafe_slots(line: Line, index: int, classes: Mapping[str, str]) -> list[int]:
    """Places of the table whose weights are summed for a word."""

    def at(place: int) -> str:
        return line.text_of(line.words[place]) if 0 <= place < len(line.words) else _EDGE

    word, after, second, before, earlier = at(index), at(index + 1), at(index + 2), at(index - 1), at(index - 2)
    place = line.words[index]
    if place.end < len(line.letters) and line.letters[place.end] == PAUSE:
        after, second = PAUSE, after
    if place.start and line.letters[place.start - 1] == PAUSE:
        before = PAUSE
    features = [
        "", f"w{word}", f"n{after}", f"p{before}", f"m{second}", f"q{earlier}", f"wn{word}_{after}", f"pw{before}_{word}",
        f"nn{after}_{second}", f"pn{before}_{after}", f"s2{word[-2:]}_{after[-2:]}", f"s3{word[-3:]}_{after[-3:]}",
        f"sw{word[-2:]}_{after}", f"sn{after[-2:]}_{second[-2:]}", f"sp{before[-2:]}_{word[-2:]}_{after[-2:]}",
        f"l{min(6, len(word))}",
    ]  # fmt: skip
    for size in (1, 2, 3, 4):
        features += [
            f"ws{size}{word[-size:]}", f"wp{size}{word[:size]}", f"ns{size}{after[-size:]}", f"np{size}{after[:size]}",
            f"ps{size}{before[-size:]}",
        ]  # fmt: skip
    if classes:
        own, next_class, second_class = (class_of(each, classes) for each in (word, after, second))
        previous = class_of(before, classes)
        features += [
            f"A{own}", f"B{next_class}", f"AB{own}_{next_class}", f"ABC{own}_{next_class}_{second_class}", f"D{previous}",
            f"DAB{previous}_{own}_{next_class}", f"wB{word}_{next_class}", f"An{own}_{after}", f"BC{next_class}_{second_class}",
            f"AsB{word[-2:]}_{own}_{next_class}",
        ]  # fmt: skip
    return [zlib.crc32(feature.encode()) % EZAFE_TABLE_SIZE for feature in features]
