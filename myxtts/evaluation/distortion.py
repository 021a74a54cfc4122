"""How far a clip is from the recording of the same sentence: spectrum and pitch along the best alignment, and duration.

Mel-cepstral distortion is the RMS difference in dB between the smoothed mel spectra (13 cepstral coefficients, without the
level), along the path of dynamic time warping (Kubichek, 1993, "Mel-cepstral distance measure for objective speech quality
assessment"). The log-F0 error is the RMS difference of the natural logarithms of the pitch over the pairs of frames on that path
in which both are voiced.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from myxtts.audio.mel import MelSpec, mel_numpy
from myxtts.audio.pitch import track_pitch
from myxtts.evaluation.comparable import comparable_clip
from myxtts.evaluation.estimates import Ratio

CEPSTRA = 13
"""Coefficients 1 to 13 are compared; coefficient 0 is the level."""
DB_PER_NEPER = 20.0 / np.log(10.0)
LOWEST_F0_HZ, HIGHEST_F0_HZ = 60.0, 500.0
"""Of speech: low male voices to high voices of women and children."""


def compare_with_recording(
    samples: np.ndarray, recording: np.ndarray, mel: MelSpec, metrics: Collection[str]
) -> Mapping[str, Ratio]:
    """Compare a clip with its recording, both float32 (samples,) at the mel's sample rate.

    Returns those of `duration_error`, `mcd` and `log_f0_rmse` (as mean square) that are in `metrics` and can be measured: nothing
    if either clip is silent, no `log_f0_rmse` if no two aligned frames are voiced.
    """
    if not (np.any(samples) and np.any(recording)):
        return {}
    spoken, recorded = comparable_clip(samples, mel.sample_rate), comparable_clip(recording, mel.sample_rate)
    ratios = {}
    if "duration_error" in metrics:
        seconds, recorded_seconds = len(spoken) / mel.sample_rate, len(recorded) / mel.sample_rate
        ratios["duration_error"] = Ratio(abs(seconds - recorded_seconds), recorded_seconds)
    if not {"mcd", "log_f0_rmse"} & set(metrics):
        return ratios
    distances = _frame_distances_db(mel_cepstra(spoken, mel), mel_cepstra(recorded, mel))
    path = align(distances)
    if "mcd" in metrics:
        ratios["mcd"] = Ratio(float(distances[tuple(path.T)].sum()), len(path))
    if "log_f0_rmse" in metrics:
        squares = log_f0_squares(
            *(track_pitch(one, mel, LOWEST_F0_HZ, HIGHEST_F0_HZ) for one in (spoken, recorded)), path
        )
        if len(squares):
            ratios["log_f0_rmse"] = Ratio(float(squares.sum()), len(squares))
    return ratios


def mel_cepstra(samples: np.ndarray, mel: MelSpec) -> np.ndarray:
    """Mel cepstra without the level, float64 (frames, 13), in nepers."""
    from scipy.fft import dct

    if len(samples) < mel.n_fft:
        samples = np.pad(samples, (0, mel.n_fft - len(samples)))
    spectra = np.asarray(mel_numpy(samples, mel), np.float64)
    cepstra = np.asarray(dct(spectra, type=2, axis=1))
    return cepstra[:, 1 : CEPSTRA + 1] / spectra.shape[1]


def align(distances: np.ndarray) -> np.ndarray:
    """Dynamic time warping: distances (rows, columns) → the cheapest monotonic path, int (pairs, 2), in order."""
    # 3 to 10 times as fast as a NumPy loop over anti-diagonals, and the same sums (100 to 600 frames).
    from librosa.sequence import dtw

    _, path = dtw(C=distances)
    return path[::-1]


def log_f0_squares(spoken_f0: np.ndarray, recorded_f0: np.ndarray, path: np.ndarray) -> np.ndarray:
    """Squared differences of the natural logarithms over the pairs of `path` in which both frames are voiced."""
    pairs = path[(path[:, 0] < len(spoken_f0)) & (path[:, 1] < len(recorded_f0))]
    spoken, recorded = spoken_f0[pairs[:, 0]], recorded_f0[pairs[:, 1]]
    is_voiced = (spoken > 0.0) & (recorded > 0.0)
    return np.log(spoken[is_voiced] / recorded[is_voiced]) ** 2


def _frame_distances_db(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """(frames of one, frames of other): RMS over the mel scale of the smoothed log spectra's difference, in dB."""
    squares = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1)[None, :] - 2.0 * one @ other.T
    # A spectrum is the sum of c[m] cos(m w) over its coefficients, and each cosine has a mean square of 1/2.
    return DB_PER_NEPER * np.sqrt(np.maximum(squares, 0.0) / 2.0)
