"""The pieces of a text that are spoken one at a time: how they are cut, their noise, and how their sound is joined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from myxtts.audio.clips import HIGHEST_PEAK
from myxtts.errors import VoiceError
from myxtts.synthesis.markup import Style

LONGEST_SYMBOLS = 384
"""Symbols of one piece: a long sentence. Attention costs their square."""
LONGEST_FRAMES = 4096
"""Frames that are decoded at once, about a minute; slower speech is decoded in parts."""
FADE_SECONDS = 0.008
"""Of each end of a part, so that joints do not click. Chosen; not measured."""


class Source(NamedTuple):
    """A text whose symbols are in a piece."""

    text: str
    language: str
    is_phonemes: bool
    start: int
    """Index in the piece of its first symbol; negative if that is in a piece before."""
    first_word: int
    """Index of its first written word among those of the sentence."""


class Piece(NamedTuple):
    """What is spoken at once: a sentence, or a part of a long one; without ids only a pause."""

    text: str
    ids: list[int]
    unknown: Counter[str]
    """Symbols of the text that the voice does not have."""
    seed: int
    position: int
    """Index in its text; with the seed, it decides the noise."""
    pause_seconds: float
    """Silence after it."""
    style: Style = Style()
    marks: tuple[tuple[int, str], ...] = ()
    """Names of marks, and the index of the symbol that follows each."""
    sources: tuple[Source, ...] = ()


def cut_symbols(ids: Sequence[int], boundaries: frozenset[int], longest: int) -> list[list[int]]:
    """Ids in parts of at most `longest`, cut after a boundary (a pause, the end of a word) where there is one."""
    parts = []
    ids = list(ids)
    while len(ids) > longest:
        at = next((index + 1 for index in range(longest - 1, longest // 2, -1) if ids[index] in boundaries), longest)
        parts.append(ids[:at])
        ids = ids[at:]
    return [*parts, ids]


def cut_frames(durations: np.ndarray, boundaries: np.ndarray, longest: int) -> list[np.ndarray]:
    """Frames of each symbol, int64 (symbols,), as parts of at most `longest` frames that add up to it.

    A part ends after a symbol of `boundaries`, bool (symbols,), if there is one in its second half, otherwise when it is full.
    """
    ends = np.cumsum(durations)
    total, start, parts = int(ends[-1]), 0, []
    while total - start > longest:
        possible = ends[boundaries & (ends > start + longest // 2) & (ends <= start + longest)]
        stop = int(possible[-1]) if len(possible) else start + longest
        parts.append(np.diff(np.clip(ends, start, stop), prepend=start))
        start = stop
    return [*parts, np.diff(np.clip(ends, start, total), prepend=start)]


def noise_of(seed: int, piece: int, num_frames: int, n_mels: int) -> np.ndarray:
    """Standard normal noise float32 (num_frames, n_mels) of one piece of a text.

    Drawn frame by frame from (seed, piece): a longer draw begins with the same frames.
    """
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, piece])))
    return generator.standard_normal((num_frames, n_mels), np.float32)


def join_parts(parts: Sequence[np.ndarray], sample_rate: int, pause_seconds: float) -> np.ndarray:
    """The sound of a piece, ready to follow another: each part faded at both ends, at most full scale, then a pause."""
    pause = np.zeros(round(pause_seconds * sample_rate), np.float32)
    joined = np.concatenate([*(_faded(part, sample_rate) for part in parts), pause])
    if not np.isfinite(joined).all():
        raise VoiceError("The voice produces samples that are not finite: it is damaged or diverged. Train it again.")
    peak = float(np.abs(joined).max(initial=0.0))
    return joined * np.float32(min(1.0, HIGHEST_PEAK / peak)) if peak > 0 else joined


def _faded(samples: np.ndarray, sample_rate: int) -> np.ndarray:
    faded = samples.copy()
    fade = min(round(FADE_SECONDS * sample_rate), len(faded) // 2)
    if fade > 0:
        ramp = (0.5 - 0.5 * np.cos(np.pi * (np.arange(fade) + 0.5) / fade)).astype(np.float32)
        faded[:fade] *= ramp
        faded[-fade:] *= ramp[::-1]
    return faded
