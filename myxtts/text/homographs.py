"""Which reading a homograph has: by rules that a linguist can read, and by a model of the words around it.

Rules are rows of `fa_homographs.tsv` and `en_homographs.tsv` in `myxtts/assets/g2p`: a word, its phonemes, a condition on the
words around it and an example. The first row whose condition holds decides. A row without condition is the usual reading of its
word, which the model may overrule where it is sure. `tests/text/test_homographs.py` reads every example.

The model is log-linear with hashed features. Its weights are shared between all readings of one class (noun, verb, …) and special
for each reading (Gorman et al. 2018, "Improving homograph disambiguation with supervised machine learning").
"""

# ruff: noqa: SIM905 - tables read best as words
from __future__ import annotations

import functools
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from myxtts.text.cleanup import ZWNJ
from myxtts.text.persian_numbers import is_cardinal

_FOLDER = Path(__file__).parents[1] / "assets" / "g2p"
_NEARBY = 6
"""Words to each side that count as nearby."""
_ENDINGS = frozenset("s es 's ed ing".split()) | frozenset(
    f"{joint}{ending}"
    for ending in "ها های هایی هایم هایت هایش ی ای م ت ش مان تان شان ام ات اش ان".split()
    for joint in ("", ZWNJ)
)
_NUMBER, _END, _ANY_ENDING = "number", "end", "…"


class HomographRule(NamedTuple):
    """One row: the reading of a word where every condition, (place, words), holds."""

    word: str
    phonemes: str
    conditions: tuple[tuple[str, frozenset[str]], ...]
    example: str


def rules_path(code: str) -> Path:
    """The file of a language's rules."""
    return _FOLDER / f"{code}_homographs.tsv"


def find_rule(code: str, words: Sequence[str], index: int) -> HomographRule | None:
    """The first rule of words[index] that holds, or None.

    Args:
        code: of the language.
        words: without Persian diacritics, in any case; marks of punctuation and pauses stand among them.
    """
    for rule in homograph_rules(code).get(words[index].lower(), ()):
        if all(_holds(place, wanted, words, index) for place, wanted in rule.conditions):
            return rule
    return None


@functools.cache
def homograph_rules(code: str) -> dict[str, list[HomographRule]]:
    """The rules by word, in order."""
    rules: dict[str, list[HomographRule]] = {}
    for row in rules_path(code).read_text(encoding="utf-8").splitlines():
        if row and not row.startswith("#"):
            word, phonemes, condition, example = row.split("\t")
            rules.setdefault(word, []).append(HomographRule(word, phonemes, _conditions(condition), example))
    return rules


def _conditions(written: str) -> tuple[tuple[str, frozenset[str]], ...]:
    if written == "-":
        return ()
    parts = (part.partition(":") for part in written.split(";"))
    return tuple((place.strip(), frozenset(wanted.split())) for place, _, wanted in parts)


def _holds(place: str, wanted: frozenset[str], words: Sequence[str], index: int) -> bool:
    if place == "near":
        around = (*words[max(0, index - _NEARBY) : index], *words[index + 1 : index + 1 + _NEARBY])
        return any(_is_form_of(word.lower(), each) for word in around for each in wanted)
    neighbor = index - 1 if place == "before" else index + 1
    word = words[neighbor].lower() if 0 <= neighbor < len(words) else ""
    if not any(character.isalnum() for character in word):
        return _END in wanted
    return word in wanted or (_NUMBER in wanted and is_cardinal(word)) or _begins_as(word, wanted)


def _is_form_of(word: str, stem: str) -> bool:
    return word.startswith(stem) and (word == stem or word[len(stem) :] in _ENDINGS)


def _begins_as(word: str, wanted: frozenset[str]) -> bool:
    return any(each.endswith(_ANY_ENDING) and word.startswith(each[:-1]) for each in wanted)


HOMOGRAPH_TABLE_SIZE = 1 << 17
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
    """The features of a word for the model. `words` in their original case; pauses are words of their own."""
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
