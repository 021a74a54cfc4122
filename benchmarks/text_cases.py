"""Scores of the normalizers and of sentence splitting against cases (`tests/text/cases/*.tsv`, `tests/text/sentences/*.txt`).

A table of the normalizers has one case per line: category, written text, expected reading, then any number of accepted
variants, separated by tabs, without quoting. The first line is a header. Both readings are folded before they are compared, so
that a case does not depend on punctuation or on the choice between "p.m." and "pm".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from myxtts.text.normalize import normalize_text
from myxtts.text.sentences import split_sentences

_SEPARATORS = "-\u2010\u2011\u2012\u2013\u2014\u2212\u200c"
_LETTER_RUN = re.compile(r"(?<![^\W_])[a-z](?: [a-z](?![^\W_]))+")
_EMOJI = re.compile("[\u2600-\u27bf\ufe0f\U0001f000-\U0001faff]")
"""They stay in the text so that a voice can report them as skipped; none of them is heard."""
_EZAFE = re.compile("[\u0650\u0654]")
_SILENT_MARKS = "ـ\u064b\u064c\u064d\u064e\u0651\u0652\u0670\u200e\u200f\u202a\u202b\u202c\u202d\u202e"
"""Tatweel, tanvin, fatha, tashdid, sukun, superscript alef and direction marks."""
_PERSIAN = str.maketrans({"ي": "ی", "ك": "ک", "ۀ": "هٔ"} | dict.fromkeys(_SILENT_MARKS))


class Case(NamedTuple):
    """One written text with every reading of it that is right."""

    category: str
    written: str
    readings: tuple[str, ...]


def read_cases(path: Path) -> Iterator[Case]:
    """The cases of a table."""
    for line in path.read_text(encoding="utf-8").splitlines()[1:]:
        category, written, *readings = line.split("\t")
        yield Case(category, written, tuple(filter(None, readings)))


def score_cases(path: Path, language: str) -> tuple[int, int]:
    """How many cases of a table are read right, and how many there are."""
    cases = list(read_cases(path))
    return sum(is_right(case, language) for case in cases), len(cases)


def misplaced_sentences(path: Path, language: str) -> list[str]:
    """The texts of a list that are split wrong. In each line bars (for spaces) show where sentences end; ⏎ is a line feed."""
    wrong = []
    for row in path.read_text(encoding="utf-8").splitlines()[1:]:
        text = row.replace("|", " ").replace("⏎ ", "\n")
        if [piece.text for piece in split_sentences(text, language, 400)] != row.replace("⏎", "").split("|"):
            wrong.append(text)
    return wrong


def is_right(case: Case, language: str, *, is_ezafe_ignored: bool = False) -> bool:
    """Whether the normalizer gives one of the accepted readings; an ezafe that only the normalizer writes is no error."""
    spoken = fold_reading(normalize_text(case.written, language), language)
    return any(_is_same(fold_reading(reading, language), spoken, is_ezafe_ignored) for reading in case.readings)


def _is_same(wanted: str, spoken: str, is_ezafe_ignored: bool) -> bool:
    if _EZAFE.sub("", wanted) != _EZAFE.sub("", spoken):
        return False
    if is_ezafe_ignored or not _EZAFE.search(wanted):
        return True
    pairs = zip(wanted.split(), spoken.split(), strict=True)
    return all(not _EZAFE.search(word) or word == said for word, said in pairs)


def fold_reading(text: str, language: str) -> str:
    """Words in lower case, without punctuation and without the marks that do not change how a word is read."""
    text = unicodedata.normalize("NFC", text).lower()
    if language == "fa":
        text = re.sub("ه\u200cی(?![^\\W_])", "هٔ", text.translate(_PERSIAN))
        text = text.replace("هیجده", "هجده").replace("هیفده", "هفده")
    text = _EMOJI.sub(" ", re.sub("['’]", "", text))
    text = "".join(
        " " if character in _SEPARATORS or unicodedata.category(character)[0] == "P" else character
        for character in text
    )
    return _LETTER_RUN.sub(lambda match: match[0].replace(" ", ""), " ".join(text.split()))
