"""The ezafe by the words around it: a log-linear model with hashed features of words, endings and beginnings.

It complements the end scores of the letter tagger: it is certain about frequent words, the tagger about their context.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from myxtts.text.persian_letters import PAUSE, Line

TABLE_SIZE = 1 << 18
_EDGE = "|"


@dataclass(frozen=True)
class EzafeModel:
    """Hashed weights, (TABLE_SIZE,) int8 times `scale`."""

    table: np.ndarray
    scale: float

    def scores(self, line: Line) -> np.ndarray:
        """Log odds of an ezafe after each word, (words,)."""
        slots = np.array([ezafe_slots(line, index) for index in range(len(line.words))])
        return self.table[slots].astype(np.int32).sum(axis=1) * self.scale


def ezafe_slots(line: Line, index: int) -> list[int]:
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
    return [zlib.crc32(feature.encode()) % TABLE_SIZE for feature in features]
