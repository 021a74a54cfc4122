"""The ezafe by the words around it: a log-linear model with hashed features of words, their classes, endings and beginnings.

It complements the end scores of the letter tagger: it is certain about frequent words, the tagger about their context.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from myxtts.text.persian import ZWNJ
from myxtts.text.persian_letters import PAUSE, Line

TABLE_SIZE = 1 << 18
_EDGE = "|"
_ENDINGS = ("های", "ها", "ی", f"{ZWNJ}ای", f"{ZWNJ}اش", "ش", "م", "ت", "ان", f"{ZWNJ}ام", "تر", "ترین")


@dataclass(frozen=True)
class EzafeModel:
    """Hashed weights, (TABLE_SIZE,) int8 times `scale`, and the class (part of speech) of the words that have one."""

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
    return [zlib.crc32(feature.encode()) % TABLE_SIZE for feature in features]
