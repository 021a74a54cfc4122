"""A recording becomes a clip: resampled, silence trimmed at both ends, brought to one loudness; and what is measured on it.

`load_clip` is what training and the cache read; `condition` is the same without a file and without limits, for evaluation.
`myxtts.batches.on_the_fly` repeats trimming and leveling in TensorFlow, with the constants of this module.

Bandwidth, noise and pitch are measured once on the samples of a recording. A file at 48 kHz may hold a telephone call: losses
above the true bandwidth of a clip are masked, so that narrow recordings do not make the voice dull. A noisy clip is marked as
noisy, and a voice is synthesized as from a clean one. The pitch (fundamental frequency), one value per mel frame, is found by
WORLD's DIO and StoneMask (Morise et al., 2016). They take 0.003 s of CPU time per second of speech; pYIN of librosa takes
0.075 s, WORLD's Harvest 0.12 s.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.audio.files import read_audio, resample
from myxtts.audio.mel import MelSpec, num_frames, real_transform
from myxtts.config.config import DataConfig
from myxtts.errors import AudioError, install_line
from myxtts.runtime.startup import removed_modules

SILENT_PEAK = 1e-3
"""Clips whose loudest sample is below this (-60 dB of full scale) hold no speech."""
BLOCK_SECONDS = 0.01
"""Length of the blocks whose loudness is compared. Chosen; not measured."""
MARGIN_SECONDS = 0.03
"""Kept around the loud part when silence is trimmed: soft consonants begin below the threshold. Chosen; not
measured."""
NOISY_MARGIN_SECONDS = 0.05
"""The same where noise counts as silence: its threshold is higher. Chosen; not measured."""
NOISE_PERCENTILE = 10
"""The level of a recording's noise: this many percent of its blocks are quieter. Pauses are a tenth of nearly every recording."""
SURELY_SPEECH_DB = 25.0
"""Blocks at most this far below the loudest one are never taken for noise: a recording without pauses has no noise to measure."""
SMOOTHED_BLOCKS = 3
"""Blocks whose energies are averaged where noise counts as silence: a click of 10 ms is no speech."""
SPOKEN_DB = 30.0
"""Blocks at most this far below the loudest one count as speech when the level is measured."""
HIGHEST_PEAK = 0.99
"""Leveling never raises a sample above this."""
UNREAD_FACTOR = 2.0
"""Files longer than this many times `max_seconds` are rejected without being decoded."""

WINDOW = 2048
"""Samples of one spectrum: 12 to 23 Hz per bin at 24 to 48 kHz."""
WINDOWS_AT_ONCE = 16
"""Windows transformed together: their spectra stay in the processor's cache. 8 to 128 take the same time within 5 %."""
BINS_AT_ONCE = 128
"""Bins whose levels are computed together. Chosen; not measured."""
LOUD_QUANTILE = 0.95
"""Each frequency is judged by its loudest frames: fricatives reach high, vowels do not. Chosen; not measured."""
SMOOTHED_BINS = 17
"""Neighboring bins whose levels are averaged: 200 to 400 Hz. Chosen; not measured."""
BELOW_PEAK_DB = 50.0
"""The highest frequency that is at most this far below the loudest one. On 60 Common Voice clips the result correlates with an
independent estimate by 0.99 (60 dB: 0.96)."""
REFERENCE_HZ = (300.0, 4000.0)
"""Where every recording of speech is loud, also a telephone's."""
FEWEST_FRAMES = 4
"""Spectra that a quantile needs. Chosen; not measured."""
CLIPPED_LEVEL, CLIPPED_RUN = 0.985, 3
"""A recording is clipped where so many samples in a row are at least this loud. Chosen; not measured."""
NOISE_QUANTILE, SPEECH_QUANTILE = 0.1, 0.8
LEVEL_SECONDS = 0.02
"""Blocks whose level is compared, and the quantiles that are the pauses and the speech. Chosen; not measured."""
LOWEST_HZ, HIGHEST_HZ = 55.0, 600.0
"""Pitch of speech: low male voices to high voices of women and children."""


def load_clip(path: str | Path, config: DataConfig, sample_rate: int) -> np.ndarray:
    """Read a clip as it is trained on, float32 (samples,) at `sample_rate` Hz.

    Raises an `AudioError` for a clip that is silent, too short or too long; lengths are compared after trimming.
    """
    samples, file_rate = read_audio(path, UNREAD_FACTOR * config.max_seconds)
    peak = float(max(samples.max(), -samples.min()))
    if peak < SILENT_PEAK:
        raise AudioError(f"{path} is silent: its loudest sample is {peak:.1g} of full scale.", "silent")
    samples = resample(samples, file_rate, sample_rate)
    samples = condition(samples, sample_rate, config.trim_silence_db, config.loudness_db, config.trim_noise_db)
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
    samples: np.ndarray,
    sample_rate: int,
    trim_silence_db: float | None,
    loudness_db: float | None,
    trim_noise_db: float | None = None,
) -> np.ndarray:
    """Trim silence and level loudness; None leaves either as it is. `trim_noise_db` counts where silence is trimmed."""
    if trim_silence_db is not None:
        samples = trim_silence(samples, sample_rate, trim_silence_db, trim_noise_db)
    if loudness_db is not None:
        samples = level_loudness(samples, sample_rate, loudness_db)
    return samples


def trim_silence(samples: np.ndarray, sample_rate: int, db: float, noise_db: float | None = None) -> np.ndarray:
    """The part from the first to the last block that is at most `db` below the loudest block, with a margin of 30 ms.

    With `noise_db`, blocks that are less than this above the noise of the recording are silence as well: a recording may have a
    second of noise at its ends that is not `db` below its speech.
    """
    block, energies = _block_energies(samples, sample_rate)
    threshold, margin_seconds = energies.max() * 10 ** (-db / 10), MARGIN_SECONDS
    if noise_db is not None and len(energies) >= SMOOTHED_BLOCKS:
        surely_speech = energies.max() * 10 ** (-SURELY_SPEECH_DB / 10)
        energies = np.convolve(energies, np.full(SMOOTHED_BLOCKS, 1 / SMOOTHED_BLOCKS), "same")
        noise = np.sort(energies)[len(energies) * NOISE_PERCENTILE // 100]
        threshold = max(threshold, min(noise * 10 ** (noise_db / 10), surely_speech))
        margin_seconds = NOISY_MARGIN_SECONDS
    loud = np.flatnonzero(energies > threshold)
    if len(loud) == 0:
        return samples
    margin = int(margin_seconds * sample_rate)
    return samples[max(0, loud[0] * block - margin) : (loud[-1] + 1) * block + margin]


def level_loudness(samples: np.ndarray, sample_rate: int, db: float) -> np.ndarray:
    """Samples scaled so that the RMS of the spoken blocks is `db` (of full scale), or as near as the peak allows."""
    _, energies = _block_energies(samples, sample_rate)
    spoken = energies[energies >= energies.max() * 10 ** (-SPOKEN_DB / 10)]
    level = float(np.sqrt(spoken.mean()))
    if level == 0.0:
        return samples
    peak = float(max(samples.max(), -samples.min()))
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


# --- what is measured ------------------------------------------------------------------------------------------------


def estimate_bandwidth(samples: np.ndarray, sample_rate: int) -> float:
    """The highest frequency (Hz) that a recording really contains; half the rate for clips that are too short for an estimate."""
    hop = WINDOW // 2
    if len(samples) < WINDOW + (FEWEST_FRAMES - 1) * hop:
        return sample_rate / 2
    magnitudes = _magnitudes(np.asarray(samples, np.float32), hop)
    hertz = np.arange(1 + WINDOW // 2) * (sample_rate / WINDOW)
    reference = np.flatnonzero((hertz > REFERENCE_HZ[0]) & (hertz < REFERENCE_HZ[1]))
    threshold = _levels(magnitudes, reference[0], reference[-1] + 1).max() - BELOW_PEAK_DB
    # from the highest bins down: the levels of bins below the result are needed only in the reference
    for end in range(len(hertz), 0, -BINS_AT_ONCE):
        start = max(0, end - BINS_AT_ONCE)
        loud = np.flatnonzero(_levels(magnitudes, start, end) > threshold)
        if len(loud):
            return float(hertz[start + loud[-1]])
    raise AudioError("The samples are too loud: their power is not a finite number. Export them again.", "not finite")


def estimate_snr(samples: np.ndarray, sample_rate: int) -> float:
    """Level of the speech above the level of the pauses, in dB: the loudest against the quietest blocks of 20 ms."""
    block = max(1, round(LEVEL_SECONDS * sample_rate))
    blocks = np.asarray(samples, np.float32)[: len(samples) // block * block].reshape(-1, block)
    if not len(blocks):
        return 0.0
    level = 10 * np.log10(np.einsum("ij,ij->i", blocks, blocks) / block + 1e-10)
    quiet, loud = _quantiles(level, NOISE_QUANTILE, SPEECH_QUANTILE)
    return float(loud - quiet)


def _magnitudes(samples: np.ndarray, hop: int) -> np.ndarray:
    """Spectra of the windows of a recording, float32 (windows, 1 + WINDOW // 2)."""
    windows, transform = np.lib.stride_tricks.sliding_window_view(samples, WINDOW)[::hop], real_transform()
    magnitudes = np.empty((len(windows), 1 + WINDOW // 2), np.float32)
    windowed = np.empty((WINDOWS_AT_ONCE, WINDOW), np.float32)
    for start in range(0, len(windows), WINDOWS_AT_ONCE):
        piece = windows[start : start + WINDOWS_AT_ONCE]
        spectra = transform(np.multiply(piece, _hann_window(), out=windowed[: len(piece)]))
        np.abs(spectra, out=magnitudes[start : start + WINDOWS_AT_ONCE])
    return magnitudes


def _levels(magnitudes: np.ndarray, start: int, end: int) -> np.ndarray:
    """Level (dB) of the bins from `start` to before `end` in their loudest windows, averaged over neighboring bins."""
    margin = SMOOTHED_BINS // 2
    first, last = max(0, start - margin), min(magnitudes.shape[1], end + margin)
    (power,) = _quantiles(np.square(magnitudes[:, first:last].T, order="C"), LOUD_QUANTILE)
    loud = 10 * np.log10(power + 1e-12)
    edged = np.pad(loud, (first - start + margin, end + margin - last), mode="symmetric")
    return np.convolve(edged, np.full(SMOOTHED_BINS, 1 / SMOOTHED_BINS), "valid")


@functools.cache
def _hann_window() -> np.ndarray:
    window = np.hanning(WINDOW).astype(np.float32)
    window.setflags(write=False)
    return window


def _quantiles(values: np.ndarray, *fractions: float) -> list[np.ndarray]:
    """As `np.quantile(values, fraction, axis=-1)` for each fraction; sorts `values` in place.

    NumPy sorts short rows in SIMD registers, in a fifth of the time of `np.quantile`, which selects instead.
    """
    values.sort(axis=-1)
    last = values.shape[-1] - 1
    found = []
    for fraction in fractions:
        below = int(fraction * last)
        low, high = values[..., below], values[..., min(below + 1, last)]
        found.append(low + (high - low) * np.float32(fraction * last - below))
    return found


def is_clipped(samples: np.ndarray) -> bool:
    """Whether several samples in a row are at full scale; single peaks are no distortion."""
    loud = np.abs(samples) >= CLIPPED_LEVEL
    run = loud[: len(loud) - CLIPPED_RUN + 1].copy()
    for offset in range(1, CLIPPED_RUN):
        run &= loud[offset : len(loud) - CLIPPED_RUN + 1 + offset]
    return bool(run.any())


def track_pitch(
    samples: np.ndarray, mel: MelSpec, lowest_hz: float = LOWEST_HZ, highest_hz: float = HIGHEST_HZ
) -> np.ndarray:
    """Hz at the center of each mel frame, float32 (frames,); 0 where a frame is unvoiced.

    Args:
        samples: (samples,) at the mel's sample rate.
    """
    pyworld = load_pyworld()
    signal = np.asarray(samples, np.float64)
    rough, times = pyworld.dio(
        signal,
        mel.sample_rate,
        f0_floor=lowest_hz,
        f0_ceil=highest_hz,
        frame_period=1000.0 * mel.hop_length / mel.sample_rate,
    )
    found = pyworld.stonemask(signal, rough, times, mel.sample_rate)
    pitch = np.zeros(num_frames(len(signal), mel), np.float32)
    length = min(len(pitch), len(found))
    pitch[:length] = found[:length]
    return pitch


@functools.cache
def load_pyworld() -> Any:
    """The package; raises an `AudioError` where it is not installed."""
    try:
        with removed_modules():
            import pyworld
    except ModuleNotFoundError:
        raise AudioError(
            f"Tracking the pitch of recordings needs pyworld, which is not installed. Run {install_line('train')}.",
            "pyworld is missing",
        ) from None
    return pyworld
