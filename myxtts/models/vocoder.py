"""Griffin-Lim: log-mel frames (batch, frames, n_mels) → samples (batch, (frames - 1) * hop_length), in TensorFlow.

The fast variant with momentum, and one step more than the usual one: a mel does not say how strong each frequency is, only
each band. Instead of guessing that once and holding on to it, every round scales the spectrum that the last round's sound
really has until its mel is the given one. The sound's own mel is then three times nearer to the given one after the same
number of rounds (docs/synthesis.md). Nothing is random, and frames beyond a clip's length change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from myxtts.audio.mel import MelSpec, analysis_window, mel_filterbank

TINY = 1e-8
"""Keeps a quotient finite where a band is empty; far below any `log_floor`."""


LOUDEST = 8.0
"""Log-mels above this no sound within full scale has; a network that strayed must not overflow."""


@dataclass(frozen=True)
class GriffinLimSettings:
    """How hard the vocoder tries."""

    iterations: int = 32
    """Rounds of inverse transform, transform, correction."""
    momentum: float = 0.9
    """How far each round goes beyond its own result. With the correction to the mel, 0.9 comes nearer than the usual 0.99."""
    spread_iterations: int = 2
    """Corrections of the first guess of the magnitudes."""


class GriffinLim:
    """Built once for a `MelSpec`; `__call__` is plain TensorFlow ops on static shapes, to be traced by whoever owns it."""

    def __init__(self, spec: MelSpec, settings: GriffinLimSettings | None = None):
        self.spec = spec
        self.settings = settings or GriffinLimSettings()
        self._window = analysis_window(spec)
        self._filterbank = mel_filterbank(spec)
        weight = self._filterbank.sum(axis=1)
        # A frequency outside every band (above f_max, the 0 Hz bin) stays silent: its correction is 0.
        self._back = (self._filterbank / (weight + TINY)[:, None]).T.copy()
        self._pieces = -(-spec.n_fft // spec.hop_length)
        """Hops that one frame spans."""

    def __call__(self, mel: tf.Tensor, num_frames: tf.Tensor) -> tf.Tensor:
        """Log-mel (batch, frames, n_mels), int32 (batch,) true lengths → float32 samples, 0 beyond (length - 1) * hop."""
        spec, settings = self.spec, self.settings
        frames = mel.shape[1]
        mask = tf.sequence_mask(num_frames, frames, tf.float32)[..., tf.newaxis]
        # Bands at the floor hold nothing: the smallest magnitude that a mel can express is silence, not hiss.
        bands = tf.where(mel > _log(spec.log_floor) + 1e-3, tf.exp(tf.minimum(mel, LOUDEST)), 0.0) * mask
        coverage = 1.0 / tf.maximum(self._overlap_add(mask * self._window**2), 1e-3)

        # Phases start at zero: as good as random ones, and better than phases continued from frame to frame, whose
        # sound holds on to a frame's length where speech changes faster (docs/synthesis.md).
        magnitude = self._spread(bands)
        spectrum = tf.complex(magnitude, tf.zeros_like(magnitude))
        previous = tf.zeros_like(spectrum)

        def refine(round_number, spectrum, previous):
            found = self._transform(self._sound(spectrum) * coverage, frames)
            momentum = tf.where(round_number > 0, settings.momentum, 0.0)
            ahead = found + tf.cast(momentum, found.dtype) * (found - previous)
            return round_number + 1, self._with_mel(ahead, bands), found

        _, spectrum, _ = tf.while_loop(
            lambda round_number, *_: round_number < settings.iterations, refine, (0, spectrum, previous)
        )
        sound = tf.reshape(self._sound(spectrum) * coverage, (mel.shape[0], -1))
        left = spec.n_fft // 2
        num_samples = (frames - 1) * spec.hop_length
        within = tf.sequence_mask((num_frames - 1) * spec.hop_length, num_samples, tf.float32)
        return sound[:, left : left + num_samples] * within

    def _spread(self, bands: tf.Tensor) -> tf.Tensor:
        """A first guess of the magnitudes (batch, frames, bins) whose mel is `bands`."""
        magnitude = tf.matmul(bands, self._back)
        for _ in range(self.settings.spread_iterations):
            magnitude *= self._correction(magnitude, bands)
        return magnitude

    def _correction(self, magnitude: tf.Tensor, bands: tf.Tensor) -> tf.Tensor:
        """Factor for each frequency that brings the mel of `magnitude` nearer to `bands`."""
        return tf.matmul(bands / (tf.matmul(magnitude, self._filterbank) + TINY), self._back)

    def _with_mel(self, spectrum: tf.Tensor, bands: tf.Tensor) -> tf.Tensor:
        real, imaginary = tf.math.real(spectrum), tf.math.imag(spectrum)
        factor = self._correction(tf.sqrt(real * real + imaginary * imaginary), bands)
        return tf.complex(real * factor, imaginary * factor)

    def _sound(self, spectrum: tf.Tensor) -> tf.Tensor:
        """Overlapping sum (batch, hops, hop_length) of the inverse transforms, not yet divided by the windows' sum."""
        return self._overlap_add(tf.signal.irfft(spectrum, [self.spec.n_fft]) * self._window)

    def _overlap_add(self, frames: tf.Tensor) -> tf.Tensor:
        hop, pieces = self.spec.hop_length, self._pieces
        batch, count, size = frames.shape
        frames = tf.pad(frames, [[0, 0], [0, 0], [0, pieces * hop - size]])
        parts = tf.reshape(frames, (batch, count, pieces, hop))
        return tf.add_n(
            [tf.pad(parts[:, :, piece], [[0, 0], [piece, pieces - 1 - piece], [0, 0]]) for piece in range(pieces)]
        )

    def _transform(self, hops: tf.Tensor, count: int) -> tf.Tensor:
        frames = tf.concat([hops[:, piece : piece + count] for piece in range(self._pieces)], axis=-1)
        return tf.signal.rfft(frames[..., : self.spec.n_fft] * self._window)


def _log(value: float) -> tf.Tensor:
    return tf.math.log(tf.constant(value, tf.float32))
