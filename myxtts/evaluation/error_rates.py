"""Character and word error: what was to be said and what was heard, as texts in; edits and lengths out.

Both texts pass through the same normaliser, so that "3" and "three" are the same word, and lose case and punctuation. A rate over
many sentences is the sum of all edits over the sum of all lengths, never a mean of rates: a short sentence does not weigh
as much as a long one. Spaces count as characters.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from myxtts.text.normalize import normalize_text

APOSTROPHES = frozenset("'’ʼ`")
"""Dropped without a space: "don't" and "dont" are one word, whoever wrote them."""


@dataclass(frozen=True)
class ErrorCount:
    """Edits (substitutions, insertions, deletions) and the length of what was to be said, in characters and in words."""

    character_edits: int
    characters: int
    word_edits: int
    words: int

    @property
    def character_error(self) -> float:
        """Character error as a fraction; above 1 if more was heard than was to be said."""
        return self.character_edits / max(1, self.characters)

    @property
    def word_error(self) -> float:
        """Word error as a fraction."""
        return self.word_edits / max(1, self.words)


def comparable_text(text: str, language: str) -> str:
    """The words of a text as they are compared: numbers read out, lower case, letters and marks only, single spaces."""
    kept = []
    for character in normalize_text(text, language).casefold():
        if character in APOSTROPHES:
            continue
        kept.append(character if unicodedata.category(character)[0] in "LMN" else " ")
    return " ".join("".join(kept).split())


def count_errors(said: str, heard: str, language: str) -> ErrorCount:
    """The errors of one sentence; both texts are made comparable first."""
    expected, received = comparable_text(said, language), comparable_text(heard, language)
    return ErrorCount(
        character_edits=edit_distance(expected, received),
        characters=len(expected),
        word_edits=edit_distance(expected.split(), received.split()),
        words=len(expected.split()),
    )


def sum_errors(counts: Iterable[ErrorCount]) -> ErrorCount:
    """One count over many sentences; its rates are one sum over one count."""
    listed = list(counts)
    return ErrorCount(
        character_edits=sum(count.character_edits for count in listed),
        characters=sum(count.characters for count in listed),
        word_edits=sum(count.word_edits for count in listed),
        words=sum(count.words for count in listed),
    )


def edit_distance(expected: Sequence, received: Sequence) -> int:
    """The least number of substitutions, insertions and deletions that turn one sequence into the other."""
    previous = list(range(len(received) + 1))
    for row, wanted in enumerate(expected, start=1):
        current = [row]
        for column, item in enumerate(received, start=1):
            substituted = previous[column - 1] + (wanted != item)
            current.append(min(substituted, previous[column] + 1, current[-1] + 1))
        previous = current
    return previous[-1]
