"""Griffin-Lim: log-mel frames to samples, in TensorFlow.

The method of Griffin and Lim ("Signal estimation from modified short-time Fourier transform", 1984) in its fast variant with
momentum (Perraudin, Balazs and Søndergaard, "A fast Griffin-Lim algorithm", 2013), with one change: a mel gives the magnitude
of each band, not of each frequency. Instead of estimating the magnitudes of the frequencies once, every iteration scales the
spectrum of the current samples until its mel is the given one. The mel of the result is then three times closer to the given
one after the same number of iterations (docs/synthesis.md). Nothing is random, and frames beyond a clip's length change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from myxtts.audio.mel import MelSpec, analysis_window, mel_filterbank

TINY = 1e-8
"""Keeps a quotient finite where a band is empty; far below any `log_floor`."""
LARGEST_LOG_MEL = 8.0
"""No sound within full scale has a larger log-mel; larger predictions are limited so that they do not overflow."""


@dataclass(frozen=True)
class GriffinLimSettings:
    """Iterations and momentum of `GriffinLim`."""

    iterations: int = 32
    """Rounds of inverse transform, transform, correction."""
    momentum: float = 0.9
    """Step beyond the result of each iteration. With the correction to the mel, 0.9 is closer than the usual 0.99."""
    spread_iterations: int = 2
    """Corrections of the first estimate of the magnitudes."""


class GriffinLim:
    """Vocoder for mels of one definition. Create it once; calls are TensorFlow ops on static shapes, to be traced by the caller.

    Args:
        spec: the definition of the mels.
        settings: iterations and momentum; None for the defaults.
    """

    def __init__(self, spec: MelSpec, settings: GriffinLimSettings | None = None):
        self.spec = spec
        self.settings = settings or GriffinLimSettings()
        self._window = analysis_window(spec)
        self._filterbank = mel_filterbank(spec)
        weight = self._filterbank.sum(axis=1)
        # A frequency outside every band (above f_max, the 0 Hz bin) stays silent: its correction is 0.
        self._back = (self._filterbank / (weight + TINY)[:, None]).T.copy()
        self._hops_per_frame = -(-spec.n_fft // spec.hop_length)

    def __call__(self, mel: Any, num_frames: tf.Tensor) -> tf.Tensor:
        """The samples of log-mels.

        Args:
            mel: float32 (batch, frames, n_mels).
            num_frames: int32 (batch,), the true length of each clip.

        Returns:
            float32 (batch, (frames - 1) * hop_length), 0 beyond (num_frames - 1) * hop_length.
        """
        spec, settings = self.spec, self.settings
        frames = mel.shape[1]
        mask = tf.sequence_mask(num_frames, frames, tf.float32)[..., tf.newaxis]
        # Bands at the floor are empty: the smallest magnitude that a mel can express is silence, not hiss.
        bands = tf.where(mel > _log(spec.log_floor) + 1e-3, tf.exp(tf.minimum(mel, LARGEST_LOG_MEL)), 0.0) * mask
        coverage = 1.0 / tf.maximum(self._overlap_add(mask * self._window**2), 1e-3)

        # Phases start at zero: as good as random ones, and better than phases continued from frame to frame, which smear
        # speech over the length of a frame (docs/synthesis.md).
        magnitude = self._spread(bands)
        spectrum = tf.complex(magnitude, tf.zeros_like(magnitude))
        previous = tf.zeros_like(spectrum)

        def refine(iteration, spectrum, previous):
            found = self._transform(self._samples(spectrum) * coverage, frames)
            momentum = tf.where(iteration > 0, settings.momentum, 0.0)
            ahead = found + tf.cast(momentum, found.dtype) * (found - previous)
            return iteration + 1, self._with_mel(ahead, bands), found

        _, spectrum, _ = tf.while_loop(
            lambda iteration, *_: iteration < settings.iterations, refine, (0, spectrum, previous)
        )
        samples = tf.reshape(self._samples(spectrum) * coverage, (mel.shape[0], -1))
        left = spec.n_fft // 2
        num_samples = (frames - 1) * spec.hop_length
        within = tf.sequence_mask((num_frames - 1) * spec.hop_length, num_samples, tf.float32)
        return samples[:, left : left + num_samples] * within

    def _spread(self, bands: tf.Tensor) -> tf.Tensor:
        """A first estimate of the magnitudes (batch, frames, bins) whose mel is `bands`."""
        magnitude = tf.matmul(bands, self._back)
        for _ in range(self.settings.spread_iterations):
            magnitude *= self._correction(magnitude, bands)
        return magnitude

    def _correction(self, magnitude: tf.Tensor, bands: tf.Tensor) -> tf.Tensor:
        """Factor for each frequency that brings the mel of `magnitude` closer to `bands`."""
        return tf.matmul(bands / (tf.matmul(magnitude, self._filterbank) + TINY), self._back)

    def _with_mel(self, spectrum: tf.Tensor, bands: tf.Tensor) -> tf.Tensor:
        """The spectrum (batch, frames, bins) scaled towards the mel `bands`, with its phases."""
        real, imaginary = tf.math.real(spectrum), tf.math.imag(spectrum)
        factor = self._correction(tf.sqrt(real * real + imaginary * imaginary), bands)
        return tf.complex(real * factor, imaginary * factor)

    def _samples(self, spectrum: tf.Tensor) -> tf.Tensor:
        """Overlapping sum (batch, hops, hop_length) of the inverse transforms, not yet divided by the sum of the windows."""
        return self._overlap_add(tf.signal.irfft(spectrum, [self.spec.n_fft]) * self._window)

    def _overlap_add(self, frames: Any) -> tf.Tensor:
        """(batch, frames, n_fft) to (batch, hops, hop_length)."""
        hop, pieces = self.spec.hop_length, self._hops_per_frame
        batch, count, size = frames.shape
        frames = tf.pad(frames, [[0, 0], [0, 0], [0, pieces * hop - size]])
        parts = tf.reshape(frames, (batch, count, pieces, hop))
        return tf.add_n(
            [tf.pad(parts[:, :, piece], [[0, 0], [piece, pieces - 1 - piece], [0, 0]]) for piece in range(pieces)]
        )

    def _transform(self, hops: tf.Tensor, count: int) -> tf.Tensor:
        """(batch, hops, hop_length) to the spectra (batch, count, bins)."""
        frames: Any = tf.concat([hops[:, piece : piece + count] for piece in range(self._hops_per_frame)], axis=-1)
        return tf.signal.rfft(frames[..., : self.spec.n_fft] * self._window)


def _log(value: float) -> tf.Tensor:
    return tf.math.log(tf.constant(value, tf.float32))
