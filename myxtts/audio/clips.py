"""A recording becomes a clip: resampled, silence trimmed at both ends, brought to one loudness. NumPy only.

`load_clip` is what training and the cache read; `condition` is the same without a file and without limits, for evaluation.
`myxtts.batches.on_the_fly` repeats trimming and leveling in TensorFlow, with the constants of this module.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from myxtts.audio.files import read_audio, resample
from myxtts.config.config import DataConfig
from myxtts.errors import AudioError

SILENT_PEAK = 1e-3
"""Clips whose loudest sample is below this (-60 dB of full scale) hold no speech."""
BLOCK_SECONDS = 0.01
"""Length of the blocks whose loudness is compared. Chosen; not measured."""
MARGIN_SECONDS = 0.03
"""Kept around the loud part when silence is trimmed: soft consonants begin below the threshold. Chosen; not
measured."""
SPOKEN_DB = 30.0
"""Blocks at most this far below the loudest one count as speech when the level is measured."""
HIGHEST_PEAK = 0.99
"""Leveling never raises a sample above this."""
UNREAD_FACTOR = 2.0
"""Files longer than this many times `max_seconds` are rejected without being decoded."""


def load_clip(path: str | Path, config: DataConfig, sample_rate: int) -> np.ndarray:
    """Read a clip as it is trained on, float32 (samples,) at `sample_rate` Hz.

    Raises an `AudioError` for a clip that is silent, too short or too long; lengths are compared after trimming.
    """
    samples, file_rate = read_audio(path, UNREAD_FACTOR * config.max_seconds)
    peak = float(max(samples.max(), -samples.min()))
    if peak < SILENT_PEAK:
        raise AudioError(f"{path} is silent: its loudest sample is {peak:.1g} of full scale.", "silent")
    samples = resample(samples, file_rate, sample_rate)
    samples = condition(samples, sample_rate, config.trim_silence_db, config.loudness_db)
    seconds = len(samples) / sample_rate
    if seconds > config.max_seconds:
        raise AudioError(
            f"{path} is {seconds:.1f} s long; the maximum is {config.max_seconds:g} s (data.max_seconds).", "too long"
        )
    if seconds < config.min_seconds:
        raise AudioError(
            f"{path} is only {seconds:.2f} s long; the minimum is {config.min_seconds:g} s (data.min_seconds).",
            "too short",
        )
    return np.ascontiguousarray(samples)


def condition(
    samples: np.ndarray, sample_rate: int, trim_silence_db: float | None, loudness_db: float | None
) -> np.ndarray:
    """Trim silence and level loudness; None leaves either as it is."""
    if trim_silence_db is not None:
        samples = trim_silence(samples, sample_rate, trim_silence_db)
    if loudness_db is not None:
        samples = level_loudness(samples, sample_rate, loudness_db)
    return samples


def trim_silence(samples: np.ndarray, sample_rate: int, db: float) -> np.ndarray:
    """The part from the first to the last block that is at most `db` below the loudest block, with a margin of 30 ms."""
    block, energies = _block_energies(samples, sample_rate)
    loud = np.flatnonzero(energies > energies.max() * 10 ** (-db / 10))
    if len(loud) == 0:
        return samples
    margin = int(MARGIN_SECONDS * sample_rate)
    return samples[max(0, loud[0] * block - margin) : (loud[-1] + 1) * block + margin]


def level_loudness(samples: np.ndarray, sample_rate: int, db: float) -> np.ndarray:
    """Samples scaled so that the RMS of the spoken blocks is `db` (of full scale), or as near as the peak allows."""
    _, energies = _block_energies(samples, sample_rate)
    spoken = energies[energies >= energies.max() * 10 ** (-SPOKEN_DB / 10)]
    level = float(np.sqrt(spoken.mean()))
    if level == 0.0:
        return samples
    peak = float(np.abs(samples).max())
    gain = min(10 ** (db / 20) / level, HIGHEST_PEAK / peak)
    return samples * np.float32(gain)


def _block_energies(samples: np.ndarray, sample_rate: int) -> tuple[int, np.ndarray]:
    """Samples per block, and the mean square of each block; the last block may be shorter."""
    block = max(1, min(len(samples), round(BLOCK_SECONDS * sample_rate)))
    whole = len(samples) // block * block
    blocks = samples[:whole].reshape(-1, block)
    energies = np.einsum("ij,ij->i", blocks, blocks) / block
    if whole < len(samples):
        rest = samples[whole:]
        energies = np.append(energies, np.dot(rest, rest) / len(rest))
    return block, energies
