"""Sentences to read aloud, and how they are chosen: for the phoneme pairs that no kept recording has yet."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from myxtts.errors import CorpusError
from myxtts.text.g2p import STRESS
from myxtts.text.pauses import PAUSE_SYMBOLS, WORD_BOUNDARY

PROMPT_FOLDER = Path(__file__).parents[1] / "assets" / "prompts"
LANGUAGES = ("en", "fa")
"""Languages with sentences to read."""
SECONDS_PER_SOUND = (0.035, 0.30)
"""Fastest and slowest reading of one phoneme; ordinary speech has 0.06 to 0.12 s. Chosen; not measured."""
PAUSE = "|"
"""Stands for a pause and for the silence around a sentence in pairs."""


class Prompt(NamedTuple):
    """A sentence to read."""

    id: str
    text: str
    language: str
    sounds: int
    """Number of its phonemes."""
    pairs: frozenset[str]
    """Its phoneme pairs, each as two characters."""


@functools.cache
def prompts_of(language: str) -> tuple[Prompt, ...]:
    """The sentences of a language with their phoneme pairs.

    The phonemes are those of our own G2P. They are stored with the sentences, because reading 150 Persian ones takes seconds.
    """
    if language not in LANGUAGES:
        raise CorpusError(
            f"Unknown language {language!r:.40}. There are sentences to record in: {', '.join(LANGUAGES)}."
        )
    lines = (PROMPT_FOLDER / f"{language}.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("\t") for line in lines if not line.startswith("#"))
    return tuple(_prompt(text, language, phonemes) for text, phonemes in pairs)


def _prompt(text: str, language: str, phonemes: str) -> Prompt:
    sounds = sounds_of(phonemes)
    spoken = sum(sound != PAUSE for sound in sounds)
    # The id follows from the text, so that a take keeps its sentence when the list changes.
    return Prompt(f"{language}-{zlib.crc32(text.encode()):08x}", text, language, spoken, pairs_of(sounds))


def sounds_of(phonemes: str) -> list[str]:
    """The phonemes of an IPA text without stress, between pauses."""
    sounds = [PAUSE]
    for symbol in phonemes:
        if symbol in PAUSE_SYMBOLS:
            symbol = PAUSE
        elif symbol == WORD_BOUNDARY or symbol in STRESS:
            continue
        if symbol != PAUSE or sounds[-1] != PAUSE:
            sounds.append(symbol)
    return sounds if sounds[-1] == PAUSE else [*sounds, PAUSE]


def pairs_of(sounds: Sequence[str]) -> frozenset[str]:
    """The pairs of neighboring sounds; words are spoken together, so pairs cross their boundaries."""
    return frozenset(first + second for first, second in pairwise(sounds))


def choose_prompts(prompts: Iterable[Prompt], covered: Collection[str], count: int) -> list[Prompt]:
    """The next `count` sentences, greedily: each has the most pairs that the ones before it lack; of equals the shorter."""
    left, known = list(prompts), set(covered)
    chosen: list[Prompt] = []
    while left and len(chosen) < count:
        best = max(left, key=lambda prompt: (len(prompt.pairs - known), -prompt.sounds, prompt.id))
        left.remove(best)
        known |= best.pairs
        chosen.append(best)
    return chosen
