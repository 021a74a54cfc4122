"""Griffin-Lim: log-mel frames (batch, frames, n_mels) → samples (batch, (frames - 1) * hop_length), in TensorFlow.

The fast variant with momentum, and one step more than the usual one: a mel does not say how strong each frequency is, only
each band. Instead of guessing that once and holding on to it, every round scales the spectrum that the last round's sound
really has until its mel is the given one. The sound's own mel is then three times nearer to the given one after the same
number of rounds (docs/synthesis.md). Nothing is random, and frames beyond a clip's length change nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import tensorflow as tf

from myxtts.audio.mel import MelSpec, analysis_window, mel_filterbank

TINY = 1e-8
"""Keeps a quotient finite where a band is empty; far below any `log_floor`."""
PEAK_REACH = 5
"""Frequencies follow the phase of the nearest peak up to 2^5 bins away."""


@dataclass(frozen=True)
class GriffinLimSettings:
    """How hard the vocoder tries."""

    iterations: int = 24
    """Rounds of inverse transform, transform, correction."""
    momentum: float = 0.8
    """How far each round goes beyond its own result. With the correction to the mel, 0.8 converges faster than 0.99."""
    spread_iterations: int = 5
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
        bands = tf.where(mel > _log(spec.log_floor) + 1e-3, tf.exp(mel), 0.0) * mask
        coverage = 1.0 / tf.maximum(self._overlap_add(mask * self._window**2), 1e-3)

        magnitude = self._spread(bands)
        phase = _peak_phase(magnitude, spec.n_fft, spec.hop_length)
        spectrum = tf.complex(magnitude * tf.cos(phase), magnitude * tf.sin(phase))
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


def _peak_phase(magnitude: tf.Tensor, n_fft: int, hop_length: int) -> tf.Tensor:
    """A start for the phases (batch, frames, bins): each peak of the spectrum is a sine that goes on from frame to frame.

    Its frequency is read from a parabola through the peak; the bins around a peak follow it, half a turn from bin to bin.
    """
    level = tf.math.log(magnitude + 1e-6)
    below, here, above = level[..., :-2], level[..., 1:-1], level[..., 2:]
    is_peak = (here >= below) & (here > above)
    offset = tf.where(is_peak, 0.5 * (below - above) / tf.minimum(below - 2 * here + above, -1e-6), 0.0)
    edges = [[0, 0], [0, 0], [1, 1]]
    bins = tf.range(magnitude.shape[-1])
    nearest = _nearest_peak(tf.pad(is_peak, edges), bins)
    own = tf.cast(bins, tf.float32) + tf.pad(offset, edges)
    turns_per_hop = tf.gather(own, nearest, batch_dims=2) * (hop_length / n_fft)
    # Whole turns are dropped before the sum: a long clip's phase must not lose digits.
    turns = tf.cumsum(turns_per_hop - tf.floor(turns_per_hop), axis=1)
    turns = tf.gather(turns - tf.floor(turns), nearest, batch_dims=2)
    return 2 * math.pi * turns + math.pi * tf.cast(bins - nearest, tf.float32)


def _nearest_peak(is_peak: tf.Tensor, bins: tf.Tensor) -> tf.Tensor:
    """int32 (batch, frames, bins): the bin of the nearest peak, or the bin itself if there is none within reach."""
    far = 1 << 20
    lower = tf.where(is_peak, bins, -far)
    upper = tf.where(is_peak, bins, far)
    for power in range(PEAK_REACH):
        step = 2**power
        lower = tf.maximum(lower, tf.pad(lower[..., :-step], [[0, 0], [0, 0], [step, 0]], constant_values=-far))
        upper = tf.minimum(upper, tf.pad(upper[..., step:], [[0, 0], [0, 0], [0, step]], constant_values=far))
    nearest = tf.where(bins - lower <= upper - bins, lower, upper)
    return tf.where(tf.abs(nearest) < far, nearest, bins)
