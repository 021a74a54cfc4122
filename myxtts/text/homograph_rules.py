"""Readings of homographs by rules that a linguist can read: `fa_homographs.tsv` and `en_homographs.tsv` in `myxtts/assets/g2p`.

Each row has a word, its phonemes, a condition on the words around it and an example. The first row whose condition holds
decides. A row without condition is the usual reading of its word, which the model of `context_models.py` may overrule where it is
sure. `tests/text/test_homograph_rules.py` reads every example.
"""

# ruff: noqa: SIM905 - tables read best as words
from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from myxtts.text.persian_numbers import ZWNJ, is_cardinal

_FOLDER = Path(__file__).parents[1] / "assets" / "g2p"
_NEARBY = 6
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
