"""What a vocoder is trained against: spectral losses, masked above the bandwidth of the recording, and discriminators.

Log magnitudes and their relative error at several resolutions are those of Parallel WaveGAN (arXiv 1910.11480); the distance of
log-mels is HiFi-GAN's (arXiv 2010.05646). All compare magnitudes: phases differ between two recordings of the same sound.

Each distance is an energy distance (arXiv 2008.01160): two copies of a crop are made that differ in their noise, and a part of
the distance between them is subtracted from their mean distance to the recording. Without that, noise is an error at every place,
and the vocoder learns to leave noise out.

The discriminators of the adversarial phase are small enough for a CPU. `SpectrumDiscriminator` has the magnitudes of one
resolution as input and strided convolutions over frequency, as UnivNet's (arXiv 2106.07889); `PeriodDiscriminator` folds the
samples into rows of one period, as HiFi-GAN's (arXiv 2010.05646), with a tenth of its channels. Each returns its score map and
the features of its layers, which the feature-matching loss compares.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from myxtts.audio.mel import MelSpec, hz_to_mel, mel_filterbank, mel_to_hz
from myxtts.models.spec import LOWEST_HZ, pitch_classes
from myxtts.models.vocoder import Spectrum, Vocoder, inverse_stft, magnitude, stft

RESOLUTIONS = ((2048, 480), (1024, 240), (512, 120), (256, 60), (128, 30))
"""n_fft and hop of the transforms."""
FLOOR = 1e-4
"""Lower limit of magnitudes before their logarithm. Chosen; not measured."""
PITCH_DEVIATION = 0.02
"""Standard deviation of the target over the classes of the pitch, in log frequency: a little more than one class."""
CORNER_HZ = 700.0
"""Corner frequency of the mel scale. 8 % of the bins, and 31 % of their weight, are below 1 kHz: copies lost the phase of low
harmonics (docs/vocoder.md), which short transforms show in these bins."""
LEAST_TOTAL = 0.1
"""Lower limit of the sum of the magnitudes of a crop, which may be silent. Chosen; not measured."""
GROSS_ERROR = 0.05
"""A pitch that is farther off, in log frequency, is an error: almost a semitone."""


class Losses(NamedTuple):
    """Scalars."""

    mel: Any
    magnitude: Any
    relative: Any
    pitch: Any
    pitch_errors: Any
    """Fraction of the voiced frames whose pitch is wrong; not part of the loss."""


class Made(NamedTuple):
    """What the vocoder makes of a crop, next to the recording: samples between the centers of the first and last frame."""

    spectrum: Spectrum
    samples: Any
    """(copies * crops, (frames - 1) * hop_length)."""
    target: Any
    """(crops, (frames - 1) * hop_length)."""


def copy_synthesis(vocoder: Vocoder, samples: Any, deviations: Any, noise_phases: Any) -> Made:
    """Crops to mels and back, once for each noise.

    Args:
        samples: (crops, samples).
        deviations: (crops, frames, n_mels), added to the log-mels that the vocoder gets.
        noise_phases: (copies * crops, frames, bins).
    """
    spec = vocoder.spec.mel
    spectrum = vocoder(log_mel(*stft(samples, spec.n_fft, spec.hop_length), spec) + deviations, noise_phases)
    half, length = spec.n_fft // 2, (spectrum.real.shape[1] - 1) * spec.hop_length
    return Made(spectrum, vocoder.waveform(spectrum), samples[:, half : half + length])


def spectral_losses(made: Made, mel: MelSpec, bandwidths: Any, pitch: Any, repulsion: float) -> Losses:
    """Distances between what was made, two copies of each crop, and the recording.

    Args:
        bandwidths: (crops,) in Hz; nothing above counts.
        pitch: (crops, frames) in Hz, 0 where unvoiced.
        repulsion: 1 is the energy distance, 0 the mean distance of the copies.
    """
    half = mel.n_fft // 2
    everything = tf.concat([made.samples, made.target], axis=0)
    inner = everything[:, half:-half]  # the ends lack overlapping frames
    distance, relative = 0.0, 0.0
    for n_fft, hop_length in RESOLUTIONS:
        mask = bin_mask(bandwidths, n_fft, mel.sample_rate)
        weights = mask * hearing_weights(n_fft, mel.sample_rate)
        magnitudes = magnitude(*stft(inner, n_fft, hop_length), FLOOR)
        distance += energy_distance(
            tf.math.log(magnitudes), lambda values, weights=weights: masked_mean(values, weights), repulsion
        )
        total = tf.reduce_sum(mask * magnitudes[-made.target.shape[0] :], axis=(1, 2)) + LEAST_TOTAL

        def of_total(values: Any, mask: Any = mask, total: Any = total) -> Any:
            return tf.reduce_mean(tf.reduce_sum(mask * values, axis=(1, 2)) / total)

        relative += energy_distance(magnitudes, of_total, repulsion)
    mels = log_mel(*stft(everything, mel.n_fft, mel.hop_length), mel)
    band = band_mask(bandwidths, mel)
    cross_entropy, errors = pitch_losses(made.spectrum.pitch_logits, made.spectrum.pitch, pitch)
    return Losses(
        mel=energy_distance(mels, lambda values: masked_mean(values, band), repulsion),
        magnitude=distance / len(RESOLUTIONS),
        relative=relative / len(RESOLUTIONS),
        pitch=cross_entropy,
        pitch_errors=errors,
    )


def energy_distance(values: Any, mean: Callable[[Any], Any], repulsion: float) -> Any:
    """Mean distance of two copies to the recording, minus half of `repulsion` times their distance to each other.

    Args:
        values: (3 * crops, …): the first copies, the second copies, the recordings.
        mean: of absolute differences (crops, …).
    """
    first, second, wanted = tf.split(values, 3)
    near = 0.5 * (mean(tf.abs(first - wanted)) + mean(tf.abs(second - wanted)))
    return near - 0.5 * repulsion * mean(tf.abs(first - second))


def pitch_losses(logits: Any, found: Any, pitch: Any) -> tuple[Any, Any]:
    """Cross entropy of the classes over voiced frames, and the fraction of them whose pitch is wrong."""
    is_voiced = tf.cast(pitch > 0, tf.float32)
    count = tf.maximum(tf.reduce_sum(is_voiced), 1.0)
    logarithm = tf.math.log(tf.maximum(pitch, LOWEST_HZ))
    distances = (logarithm[..., tf.newaxis] - pitch_classes()) / PITCH_DEVIATION
    wanted = tf.nn.softmax(-0.5 * tf.square(distances))
    cross_entropy = -tf.reduce_sum(wanted * tf.nn.log_softmax(logits), axis=-1)
    is_wrong = tf.cast(tf.abs(tf.math.log(found) - logarithm) > GROSS_ERROR, tf.float32)
    return tf.reduce_sum(cross_entropy * is_voiced) / count, tf.reduce_sum(is_wrong * is_voiced) / count


def within_band(made: Made, bandwidths: Any, mel: MelSpec) -> tuple[Any, Any]:
    """Samples of the first copies for discriminators, and the recording's: above its bandwidth, both are the recording.

    The difference of the two is transformed, cut above the bandwidth and transformed back, which costs two matrix products.
    """
    hop_length = mel.n_fft // 4
    real, imaginary = stft(made.samples[: made.target.shape[0]] - made.target, mel.n_fft, hop_length)
    mask = bin_mask(bandwidths, mel.n_fft, mel.sample_rate)
    kept = inverse_stft(mask * real, mask * imaginary, mel.n_fft, hop_length)
    half = mel.n_fft // 2
    length = (real.shape[1] - 1) * hop_length
    target = made.target[:, half : half + length]
    return target + kept, target


def log_mel(real: Any, imaginary: Any, mel: MelSpec) -> Any:
    """`myxtts.audio.mel` of a spectrum: (crops, frames, bins) → (crops, frames, n_mels)."""
    bands = tf.matmul(magnitude(real, imaginary, 1e-7), mel_filterbank(mel))
    return tf.math.log(tf.maximum(bands, mel.log_floor))


def bin_mask(bandwidths: Any, n_fft: int, sample_rate: int) -> Any:
    """1 for frequencies up to the bandwidth: (crops,) → (crops, 1, bins)."""
    hertz = np.arange(n_fft // 2 + 1, dtype=np.float32) * (sample_rate / n_fft)
    return tf.cast(hertz <= bandwidths[:, tf.newaxis, tf.newaxis], tf.float32)


def hearing_weights(n_fft: int, sample_rate: int) -> np.ndarray:
    """How many mels each bin spans, relative to the lowest: float32 (bins,)."""
    hertz = np.arange(n_fft // 2 + 1, dtype=np.float32) * (sample_rate / n_fft)
    return CORNER_HZ / (CORNER_HZ + hertz)


def band_mask(bandwidths: Any, mel: MelSpec) -> Any:
    """1 for mel bands that lie wholly below the bandwidth: (crops,) → (crops, 1, n_mels)."""
    return tf.cast(upper_edges(mel) <= bandwidths[:, tf.newaxis, tf.newaxis] + 1.0, tf.float32)


@functools.lru_cache(maxsize=8)
def upper_edges(mel: MelSpec) -> np.ndarray:
    """The highest frequency (Hz) of each mel band: float32 (n_mels,)."""
    edges = mel_to_hz(np.linspace(hz_to_mel(mel.f_min), hz_to_mel(mel.f_max), mel.n_mels + 2))
    return edges[2:].astype(np.float32)


def masked_mean(values: Any, mask: Any) -> Any:
    """Mean of the values (crops, frames, size) weighted by the mask (crops, 1, size)."""
    return tf.reduce_sum(values * mask) / tf.maximum(tf.reduce_sum(mask) * values.shape[1], 1.0)


LEAK = 0.1
"""Slope of the leaky rectifier below 0, as in HiFi-GAN (arXiv 2010.05646)."""
SPECTRUM_RESOLUTIONS = ((512, 128), (1024, 256), (256, 64))
"""n_fft and hop of each spectrum discriminator. Chosen; not measured."""
PERIODS = (2, 5, 11)
"""As different as small primes can be, so that together they cover most of the structure of a pitch period. Three of
HiFi-GAN's five. Chosen; not measured."""


class SpectrumDiscriminator(keras.Model):
    """Samples (batch, samples) → score (batch, frames / 2, bins / 16, 1).

    The strides come early: with the first at the second convolution and none over frames, an adversarial step took 1.7 times the
    CPU time.
    """

    def __init__(self, n_fft: int, hop_length: int, channels: int = 32, **kwargs):
        super().__init__(**kwargs)
        self.n_fft, self.hop_length = n_fft, hop_length
        settings: Any = {"padding": "same", "kernel_initializer": "he_normal"}
        self.convolutions = [
            *(
                keras.layers.Conv2D(channels, (3, 9), strides=strides, name=f"conv_{number}", **settings)
                for number, strides in enumerate(((1, 2), (2, 2), (1, 2), (1, 2)))
            ),
            keras.layers.Conv2D(channels, (3, 3), name="conv_4", **settings),
        ]
        self.score = keras.layers.Conv2D(1, (3, 3), name="score", padding="same")

    def build(self, input_shape=None):
        build_in_turn([*self.convolutions, self.score], (None, None, self.n_fft // 2, 1))
        self.built = True

    def call(self, samples: Any) -> tuple[Any, list[Any]]:
        level = magnitude(*stft(samples, self.n_fft, self.hop_length), floor=1e-4)[:, :, 1:]
        return score_and_features(tf.expand_dims(tf.math.log(level), -1), self.convolutions, self.score)


class PeriodDiscriminator(keras.Model):
    """Samples (batch, samples) → score (batch, rows / 81, period, 1)."""

    CHANNELS = (8, 24, 64, 128)

    def __init__(self, period: int, **kwargs):
        super().__init__(**kwargs)
        self.period = period
        settings: Any = {"padding": "same", "kernel_initializer": "he_normal"}
        self.convolutions = [
            *(
                keras.layers.Conv2D(channels, (5, 1), strides=(3, 1), name=f"conv_{number}", **settings)
                for number, channels in enumerate(self.CHANNELS)
            ),
            keras.layers.Conv2D(self.CHANNELS[-1], (5, 1), name=f"conv_{len(self.CHANNELS)}", **settings),
        ]
        self.score = keras.layers.Conv2D(1, (3, 1), name="score", padding="same")

    def build(self, input_shape=None):
        build_in_turn([*self.convolutions, self.score], (None, None, self.period, 1))
        self.built = True

    def call(self, samples: Any) -> tuple[Any, list[Any]]:
        rows = samples.shape[1] // self.period
        folded = tf.reshape(samples[:, : rows * self.period], (-1, rows, self.period, 1))
        return score_and_features(folded, self.convolutions, self.score)


def build_in_turn(layers: Iterable[keras.layers.Layer], shape: tuple[int | None, ...]) -> None:
    """Build each layer for the output of the layer before; `shape` is the input of the first."""
    for layer in layers:
        layer.build(shape)
        shape = layer.compute_output_shape(shape)


def score_and_features(values: Any, layers, score) -> tuple[Any, list[Any]]:
    """Run the layers with a leaky rectifier after each."""
    features = []
    for layer in layers:
        values = tf.nn.leaky_relu(layer(values), LEAK)
        features.append(values)
    return score(values), features
