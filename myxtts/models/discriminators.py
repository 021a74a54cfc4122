"""Discriminators of the vocoder's adversarial phase: small enough for a CPU.

`SpectrumDiscriminator` has the magnitudes of one resolution as input and strided convolutions over frequency, as UnivNet's
(arXiv 2106.07889); `PeriodDiscriminator` folds the samples into rows of one period, as HiFi-GAN's (arXiv 2010.05646), with a
tenth of its channels. Each returns its score map and the features of its layers, which the feature-matching loss compares.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import keras
import tensorflow as tf

from myxtts.models.stft import magnitude, stft

LEAK = 0.1
"""Slope of the leaky rectifier below 0, as in HiFi-GAN (arXiv 2010.05646)."""
SPECTRUM_RESOLUTIONS = ((512, 128), (1024, 256), (256, 64))
"""n_fft and hop of each spectrum discriminator. Chosen; not measured."""
PERIODS = (2, 5, 11)
"""As different as small primes can be, so that together they see most of the structure of a pitch period. Three of
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
