"""How far a clip is from the recording of the same sentence: spectra after alignment, and duration; NumPy in, NumPy out.

Mel-cepstral distortion is the RMS difference in dB between the smoothed mel spectra (13 cepstral coefficients, level left out) of
the two clips, along the best alignment in time. Over many sentences it is the sum over all
aligned frames divided by their number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.fft

from myxtts.audio.files import level_loudness, trim_silence
from myxtts.audio.mel import MelSpec, mel_numpy

CEPSTRA = 13
"""Coefficients 1 to 13 are compared; coefficient 0 is the level."""
DB_PER_NEPER = 20.0 / np.log(10.0)
LEVEL_DB = -23.0
SILENCE_DB = 40.0
"""Silence at both ends, this far below the loudest moment, belongs neither to the spectra nor to the duration."""


@dataclass(frozen=True)
class Distortion:
    """Sums over the aligned frames of one sentence, and both durations without silence at the ends."""

    distance_sum_db: float
    aligned_frames: int
    seconds: float
    recorded_seconds: float


def measure_distortion(samples: np.ndarray, recording: np.ndarray, mel: MelSpec) -> Distortion | None:
    """Compare a clip with its recording, both at the mel's sample rate; None if either holds no sound at all."""
    if not (np.any(samples) and np.any(recording)):
        return None
    spoken, recorded = _bring_to_level(samples, mel.sample_rate), _bring_to_level(recording, mel.sample_rate)
    distances = _frame_distances_db(mel_cepstra(spoken, mel), mel_cepstra(recorded, mel))
    total, frames = align(distances)
    return Distortion(total, frames, len(spoken) / mel.sample_rate, len(recorded) / mel.sample_rate)


def _bring_to_level(samples: np.ndarray, sample_rate: int) -> np.ndarray:
    """Without silence at the ends, and at one level: bands under the mel's floor would tell soft clips from loud ones."""
    return level_loudness(trim_silence(np.asarray(samples, np.float32), sample_rate, SILENCE_DB), sample_rate, LEVEL_DB)


def mel_cepstra(samples: np.ndarray, mel: MelSpec) -> np.ndarray:
    """Mel cepstra without the level, float64 (frames, 13), in nepers."""
    if len(samples) < mel.n_fft:
        samples = np.pad(samples, (0, mel.n_fft - len(samples)))
    spectra = np.asarray(mel_numpy(samples, mel), np.float64)
    return scipy.fft.dct(spectra, type=2, axis=1)[:, 1 : CEPSTRA + 1] / spectra.shape[1]


def align(distances: np.ndarray) -> tuple[float, int]:
    """Dynamic time warping: (rows, columns) distances → the least sum along a monotonic path, and the path's length.

    The path goes from the first pair to the last by steps down, right, or both. One anti-diagonal at a time.
    """
    rows, columns = distances.shape
    total = np.full((rows + 1, columns + 1), np.inf)
    total[0, 0] = 0.0
    for diagonal in range(rows + columns - 1):
        row = np.arange(max(0, diagonal - columns + 1), min(rows, diagonal + 1))
        column = diagonal - row
        best = np.minimum(np.minimum(total[row, column + 1], total[row + 1, column]), total[row, column])
        total[row + 1, column + 1] = distances[row, column] + best
    return float(total[rows, columns]), _path_length(total)


def _path_length(total: np.ndarray) -> int:
    row, column = total.shape[0] - 1, total.shape[1] - 1
    length = 1
    while row > 1 or column > 1:
        both, up, left = total[row - 1, column - 1], total[row - 1, column], total[row, column - 1]
        if both <= up and both <= left:
            row, column = row - 1, column - 1
        elif up <= left:
            row -= 1
        else:
            column -= 1
        length += 1
    return length


def _frame_distances_db(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """(frames of one, frames of other): RMS over the mel scale of the smoothed log spectra's difference, in dB."""
    squares = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1)[None, :] - 2.0 * one @ other.T
    # A spectrum is the sum of c[m] cos(m w) over its coefficients, and each cosine has a mean square of 1/2.
    return DB_PER_NEPER * np.sqrt(np.maximum(squares, 0.0) / 2.0)
