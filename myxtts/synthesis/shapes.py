"""What is decided about lengths: static shapes, durations, noise, joins. Numbers in, numbers out; no TensorFlow.

Every text is rounded up to one of a few token shapes and every mel to one of a few frame shapes, so that a thousand different
sentences need a handful of compiled functions. Rounding changes nothing: the noise of a frame does not depend on the shape.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from myxtts.errors import VoiceError

TOKEN_SHAPES = (48, 96, 192, 384)
"""Symbols of one text. The encoder is a small part of the work: few shapes, generous steps."""
FRAME_SHAPES = (96, 160, 256, 384, 576, 832, 1216)
"""Frames of one text. Steps of about 1.5: a fifth of the decoder's work is padding, and seven functions are compiled."""
LONGEST_SYMBOL_SECONDS = 1.5
"""No symbol lasts longer, whatever an untrained network predicts."""
FADE_SECONDS = 0.008
HIGHEST_PEAK = 0.99


def round_up(length: int, shapes: Sequence[int]) -> int:
    """The smallest shape that holds `length`; beyond the largest one, its next multiple."""
    for shape in shapes:
        if length <= shape:
            return shape
    return -(-length // shapes[-1]) * shapes[-1]


def cut_symbols(ids: Sequence[int], boundaries: frozenset[int], longest: int) -> list[list[int]]:
    """Ids in runs of at most `longest`, cut after a boundary (a pause, the end of a word) where there is one."""
    runs = []
    ids = list(ids)
    while len(ids) > longest:
        at = next((index + 1 for index in range(longest - 1, longest // 2, -1) if ids[index] in boundaries), longest)
        runs.append(ids[:at])
        ids = ids[at:]
    return [*runs, ids]


def cut_frames(durations: np.ndarray, boundaries: np.ndarray, longest: int) -> list[np.ndarray]:
    """Frames of each symbol, int32 (symbols,), as runs of at most `longest` frames that add up to it.

    A run ends after a symbol of `boundaries`, bool (symbols,), where there is one in its second half, else wherever it is full.
    """
    ends = np.cumsum(durations)
    total, start, runs = int(ends[-1]), 0, []
    while total - start > longest:
        possible = ends[boundaries & (ends > start + longest // 2) & (ends <= start + longest)]
        stop = int(possible[-1]) if len(possible) else start + longest
        runs.append(np.diff(np.clip(ends, start, stop), prepend=start).astype(np.int32))
        start = stop
    return [*runs, np.diff(np.clip(ends, start, total), prepend=start).astype(np.int32)]


def batches_of(lengths: Sequence[int], rows: int) -> list[list[int]]:
    """Indices in groups of at most `rows`, similar lengths together; the longest first, so that memory peaks at once."""
    order = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    return [order[start : start + rows] for start in range(0, len(order), rows)]


def frames_of_symbols(
    log_durations: np.ndarray, num_symbols: int, scale: float, frames_per_second: float
) -> np.ndarray:
    """Frames of each blank-expanded symbol: float (symbols,) → int32 (symbols,), 0 beyond `num_symbols`.

    A symbol lasts at least one frame before `scale` (1 / speed) is applied. Ends are rounded, not durations: the sum is right
    whatever the speed, and a symbol may vanish only in fast speech.
    """
    longest = LONGEST_SYMBOL_SECONDS * frames_per_second
    logarithms = np.asarray(log_durations, np.float64)[:num_symbols]
    if not np.isfinite(logarithms).all():
        raise VoiceError("The voice predicts durations that are not finite: it is damaged or diverged. Train it again.")
    durations = np.exp(np.clip(logarithms, 0.0, np.log(longest))) * scale
    ends = np.floor(np.cumsum(durations) + 0.5).astype(np.int32)
    frames = np.zeros(len(log_durations), np.int32)
    frames[:num_symbols] = np.diff(ends, prepend=0)
    if frames.sum() == 0:
        frames[0] = 1
    return frames


def noise_of(seed: int, piece: int, num_frames: int, n_mels: int) -> np.ndarray:
    """Standard normal noise float32 (num_frames, n_mels) of one piece of a text.

    Drawn frame by frame from (seed, piece): a longer draw begins with the same frames, so that the shape does not matter.
    """
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, piece])))
    return generator.standard_normal((num_frames, n_mels), np.float32)


def join_piece(parts: Sequence[np.ndarray], sample_rate: int, pause_seconds: float) -> np.ndarray:
    """A piece ready to follow another: never above full scale, each part faded at both ends, followed by a pause."""
    pause = np.zeros(round(pause_seconds * sample_rate), np.float32)
    joined = np.concatenate([*(_faded(part, sample_rate) for part in parts), pause])
    if not np.isfinite(joined).all():
        raise VoiceError("The voice gives sound that is not finite: it is damaged or diverged. Train it again.")
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
