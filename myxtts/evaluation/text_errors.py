"""Character and word error between the text that was to be spoken and the text that a recognizer returned.

Both texts are normalized in the same way, so that "3" and "three" are the same word, and lose case and punctuation. Spaces count
as characters. The rate over many sentences is the sum of all edits over the sum of all lengths.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from myxtts.text.normalize import normalize_text

APOSTROPHES = frozenset("'’ʼ`")
"""Removed without a space: "don't" and "dont" are one word."""


@dataclass(frozen=True)
class ErrorCount:
    """Edits (substitutions, insertions, deletions) and the length of the expected text, in characters and in words."""

    character_edits: int
    characters: int
    word_edits: int
    words: int

    @property
    def character_error(self) -> float:
        """Character error as a fraction; above 1 if more was recognized than expected."""
        return self.character_edits / max(1, self.characters)

    @property
    def word_error(self) -> float:
        """Word error as a fraction."""
        return self.word_edits / max(1, self.words)


def count_errors(expected: str, recognized: str, language: str) -> ErrorCount:
    """Count the errors of one sentence."""
    from rapidfuzz.distance import Levenshtein

    expected, recognized = comparable_text(expected, language), comparable_text(recognized, language)
    expected_words, recognized_words = expected.split(), recognized.split()
    return ErrorCount(
        character_edits=Levenshtein.distance(expected, recognized),
        characters=len(expected),
        word_edits=Levenshtein.distance(expected_words, recognized_words),
        words=len(expected_words),
    )


def sum_errors(counts: Iterable[ErrorCount]) -> ErrorCount:
    """Add the counts of many sentences."""
    listed = list(counts)
    return ErrorCount(
        character_edits=sum(count.character_edits for count in listed),
        characters=sum(count.characters for count in listed),
        word_edits=sum(count.word_edits for count in listed),
        words=sum(count.words for count in listed),
    )


def comparable_text(text: str, language: str) -> str:
    """The words of a text as they are compared: numbers as words, lower case, only letters and marks, single spaces."""
    kept = []
    for character in normalize_text(text, language).casefold():
        if character in APOSTROPHES:
            continue
        kept.append(character if unicodedata.category(character)[0] in "LMN" else " ")
    return " ".join("".join(kept).split())
