"""Errors of a spoken sentence: characters and words that a recognizer returned differently, and clips that failed.

Both texts are normalized in the same way, so that "3" and "three" are the same word, and lose case and punctuation. Spaces count
as characters. The rate over many sentences is the sum of all edits over the sum of all lengths. A clip failed if it is silent,
clipped, of a length far from what its text needs, or not understood.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from myxtts.audio.clips import SILENT_PEAK, trim_silence
from myxtts.evaluation.clip_metrics import TRIM_DB
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


CLIPPED_LEVEL = 0.999
"""Samples from here on are at full scale."""
CLIPPED_FRACTION = 0.002
"""A clip with more of its samples there is audibly distorted."""
CHARACTERS_PER_SECOND = 15.0
"""A usual speaking rate, spaces counted; used where no recording gives the speaker's own."""
SLACK_SECONDS = 0.35
"""Added to what the text needs: the beginning and end of speech, which weigh most in a single word."""
LENGTH_FACTOR = 2.0
"""A clip may be this many times longer or shorter than its text needs."""
NOT_UNDERSTOOD = 0.6
"""Character error from which a sentence counts as not understood…"""
FEWEST_WORDS = 4
"""…if it has at least so many words: recognizers fail on single words, spoken well or not."""


def find_failure(
    samples: np.ndarray,
    sample_rate: int,
    text: str,
    language: str,
    errors: ErrorCount | None = None,
    characters_per_second: float = CHARACTERS_PER_SECOND,
) -> str | None:
    """Why a clip failed: not finite, silent, clipped, too short, too long, not understood; None if it did not.

    Args:
        samples: float (samples,).
        sample_rate: in Hz.
        text: what was to be spoken, in `language`.
        language: a language code.
        errors: those of the recognizer, if one was used.
        characters_per_second: the speaking rate that is expected.
    """
    if len(samples) == 0:
        return "silent"
    if not np.isfinite(samples).all():
        return "not finite"
    magnitudes = np.abs(samples)
    if float(magnitudes.max()) < SILENT_PEAK:
        return "silent"
    if float(np.mean(magnitudes >= CLIPPED_LEVEL)) > CLIPPED_FRACTION:
        return "clipped"
    # Silence at the ends does not make a clip long enough, but it can make it too long.
    spoken_seconds = len(trim_silence(samples, sample_rate, TRIM_DB)) / sample_rate
    needed_seconds = len(comparable_text(text, language)) / characters_per_second
    if spoken_seconds < needed_seconds / LENGTH_FACTOR:
        return "too short"
    if len(samples) / sample_rate > (needed_seconds + SLACK_SECONDS) * LENGTH_FACTOR:
        return "too long"
    if errors is not None and errors.words >= FEWEST_WORDS and errors.character_error > NOT_UNDERSTOOD:
        return "not understood"
    return None


def speaking_rate(recorded: Iterable[tuple[str, str, float]]) -> float:
    """Characters per second over recordings (text, language, seconds); the usual rate if there are none."""
    characters, seconds = 0, 0.0
    for text, language, clip_seconds in recorded:
        characters += len(comparable_text(text, language))
        seconds += clip_seconds
    return max(1, characters) / seconds if seconds > 0.0 else CHARACTERS_PER_SECOND
