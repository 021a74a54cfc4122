"""Which sentences failed, and why: a clip, its text and what was heard in; a reason or None out. Plain functions.

A failed sentence is silent, clipped, of a length far from what its text asks, or not understood at all.
"""

from __future__ import annotations

import numpy as np

from myxtts.audio.files import SILENT_PEAK, trim_silence
from myxtts.evaluation.error_rates import ErrorCount, comparable_text

CLIPPED_LEVEL = 0.999
"""Samples from here on stand at the end of the scale."""
CLIPPED_SHARE = 0.002
"""A clip with more of its samples there is audibly distorted."""
SILENCE_DB = 40.0
"""Silence at the ends, this far below the loudest moment, makes no clip long enough; too long it makes it."""
CHARACTERS_PER_SECOND = 15.0
"""A usual speed of speech, spaces counted; used where there is no recording to tell the speaker's own."""
SLACK_SECONDS = 0.35
"""Added to what the text asks: beginning and end of speech, which weigh most in one word."""
LENGTH_FACTOR = 2.0
"""A clip may be this many times longer or shorter than its text asks."""
NOT_UNDERSTOOD = 0.6
"""Character error from which a sentence counts as not understood…"""
FEWEST_WORDS = 4
"""…if it has at least so many words: recognisers err on single words, spoken well or not."""

REASONS = ("not finite", "silent", "clipped", "too short", "too long", "not understood")


def find_failure(
    samples: np.ndarray,
    sample_rate: int,
    text: str,
    language: str,
    errors: ErrorCount | None = None,
    characters_per_second: float = CHARACTERS_PER_SECOND,
) -> str | None:
    """The first of `REASONS` that applies, or None; `errors` are those of the recogniser, if it was asked."""
    if len(samples) == 0:
        return "silent"
    if not np.isfinite(samples).all():
        return "not finite"
    loudness = np.abs(samples)
    if float(loudness.max()) < SILENT_PEAK:
        return "silent"
    if float(np.mean(loudness >= CLIPPED_LEVEL)) > CLIPPED_SHARE:
        return "clipped"
    spoken_seconds = len(trim_silence(samples, sample_rate, SILENCE_DB)) / sample_rate
    asked = len(comparable_text(text, language)) / characters_per_second
    if spoken_seconds < asked / LENGTH_FACTOR:
        return "too short"
    if len(samples) / sample_rate > (asked + SLACK_SECONDS) * LENGTH_FACTOR:
        return "too long"
    if errors is not None and errors.words >= FEWEST_WORDS and errors.character_error > NOT_UNDERSTOOD:
        return "not understood"
    return None


def speaking_rate(texts: list[str], languages: list[str], seconds: list[float]) -> float:
    """Characters per second over recordings: one sum over one count. The usual speed if there is none."""
    total = sum(seconds)
    if total <= 0.0:
        return CHARACTERS_PER_SECOND
    characters = sum(len(comparable_text(text, language)) for text, language in zip(texts, languages, strict=True))
    return max(1.0, characters) / total
