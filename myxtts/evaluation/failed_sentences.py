"""Which sentences failed, and why: silent, clipped, of a length far from what the text needs, or not understood."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from myxtts.audio.clips import SILENT_PEAK, trim_silence
from myxtts.evaluation.comparable import TRIM_DB
from myxtts.evaluation.text_errors import ErrorCount, comparable_text

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
