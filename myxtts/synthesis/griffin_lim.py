"""Fast Griffin-Lim (Perraudin, Balazs & Søndergaard, 2013) in NumPy: the vocoder of voices that have no neural one.

With one more correction than the usual algorithm: a mel gives the strength of each band, not of each frequency. Instead of
guessing the frequencies once, every iteration scales the spectrum of the current sound until its mel is the given one. The mel
of the sound is then three times nearer to the given one after the same number of iterations (docs/synthesis.md). Nothing is
random.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from myxtts.audio.mel import MelSpec, analysis_window, mel_filterbank

TINY = np.float32(1e-8)
"""Keeps a quotient finite where a band is empty; far below any `log_floor`."""
LOUDEST = np.float32(8.0)
"""No sound within full scale has a larger log-mel; larger predictions must not overflow."""
LEAST_COVERAGE = np.float32(1e-3)


@dataclass(frozen=True)
class GriffinLimSettings:
    """How much the vocoder computes."""

    iterations: int = 32
    """Rounds of inverse transform, transform, correction."""
    momentum: float = 0.9
    """How far each round extrapolates. With the correction to the mel, 0.9 comes nearer than the usual 0.99."""
    spread_iterations: int = 2
    """Corrections of the first guess of the magnitudes."""


class GriffinLim:
    """Built once for a `MelSpec`; may be called by several threads."""

    def __init__(self, spec: MelSpec, settings: GriffinLimSettings | None = None):
        self.spec = spec
        self.settings = settings or GriffinLimSettings()
        self._window = analysis_window(spec)
        self._filterbank = mel_filterbank(spec)
        weight = self._filterbank.sum(axis=1)
        # A frequency outside every band (above f_max, the 0 Hz bin) stays silent: its correction is 0.
        self._back = (self._filterbank / (weight + TINY)[:, None]).T.copy()
        self._hops_per_frame = -(-spec.n_fft // spec.hop_length)

    def __call__(self, mel: np.ndarray) -> np.ndarray:
        """Log-mel (frames, n_mels) → float32 samples ((frames - 1) * hop_length,)."""
        spec, settings, frames = self.spec, self.settings, len(mel)
        mel = np.asarray(mel, np.float32)
        # Bands at the floor are silence: the smallest magnitude that a mel can express must not become hiss.
        is_heard = mel > np.float32(np.log(spec.log_floor) + 1e-3)
        bands = np.where(is_heard, np.exp(np.minimum(mel, LOUDEST)), np.float32(0))
        squares = np.broadcast_to(self._window**2, (frames, spec.n_fft))
        coverage = 1 / np.maximum(self._overlap_add(squares), LEAST_COVERAGE)

        # Phases start at zero: as good as random ones, and better than phases continued from frame to frame
        # (docs/synthesis.md).
        spectrum = self._spread(bands).astype(np.complex64)
        previous = None
        for _ in range(settings.iterations):
            found = self._transform(self._sound(spectrum) * coverage, frames)
            ahead = found if previous is None else found + np.float32(settings.momentum) * (found - previous)
            # Not np.abs: its guard against overflow takes longer than the transform.
            magnitude = np.sqrt(ahead.real**2 + ahead.imag**2)
            spectrum, previous = ahead * self._correction(magnitude, bands), found
        left = spec.n_fft // 2
        return (self._sound(spectrum) * coverage)[left : left + (frames - 1) * spec.hop_length]

    def _spread(self, bands: np.ndarray) -> np.ndarray:
        """A first guess of the magnitudes (frames, bins) whose mel is `bands`."""
        magnitude = bands @ self._back
        for _ in range(self.settings.spread_iterations):
            magnitude *= self._correction(magnitude, bands)
        return magnitude

    def _correction(self, magnitude: np.ndarray, bands: np.ndarray) -> np.ndarray:
        """Factor of each frequency that brings the mel of `magnitude` nearer to `bands`."""
        return (bands / (magnitude @ self._filterbank + TINY)) @ self._back

    def _sound(self, spectrum: np.ndarray) -> np.ndarray:
        """Overlapping sum of the inverse transforms, not yet divided by the sum of the windows."""
        return self._overlap_add(np.fft.irfft(spectrum, self.spec.n_fft) * self._window)

    def _overlap_add(self, frames: np.ndarray) -> np.ndarray:
        """(frames, n_fft) → ((frames + hops per frame - 1) * hop_length,)."""
        hop, hops = self.spec.hop_length, self._hops_per_frame
        total = np.zeros((len(frames) + hops - 1, hop), np.float32)
        for index in range(hops):
            part = frames[:, index * hop : (index + 1) * hop]
            total[index : index + len(frames), : part.shape[1]] += part
        return total.reshape(-1)

    def _transform(self, samples: np.ndarray, count: int) -> np.ndarray:
        """The spectra (count, bins) of overlapping frames."""
        frames = np.lib.stride_tricks.sliding_window_view(samples, self.spec.n_fft)[:: self.spec.hop_length]
        return np.fft.rfft(frames[:count] * self._window)
