"""The neural vocoder: log-mel frames to samples, at frame rate, as harmonics plus noise in the frequency domain.

A small network estimates the pitch from the mel. Its integral gives every harmonic a phase that is continuous over time, which
no network with a limited receptive field could predict. A trunk of dense convolutions shapes the two parts of each frame,
harmonics and noise, by correcting spectral envelopes that follow from the mel, and the phase of the harmonics. The bands are
then brought to the level of the mel, one inverse Fourier transform makes the samples of each frame, and a few gains place
sounds within it.

Even without the trunk this is intelligible, natural speech (docs/vocoder.md). A vocoder with an inverse transform but without
harmonics (Vocos, arXiv 2306.00814; FreeV, arXiv 2406.08196) reaches that only after long training, because it has to predict
phases from mels that hardly depend on them. Sources of the idea: harmonic plus noise models (Stylianou 2001), neural
source-filter models (arXiv 1904.12088), Wavehax (arXiv 2411.06807).

The Fourier transforms, which the losses also use, are products with a matrix of cosines and sines: those run at the speed of
the processor's arithmetic and have a gradient of the same kind, while TensorFlow's FFT on a CPU has neither several threads nor
a fast gradient. The inverse is the same product as in the exported ONNX graph.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from myxtts.audio.mel import mel_filterbank
from myxtts.models.layers import FrameNorm
from myxtts.models.spec import (
    CHIRP_BINS,
    HIGHEST_LOG_MAGNITUDE,
    INPUT_DEVIATION,
    INPUT_MEAN,
    LARGEST_LEVEL_CHANGE,
    LARGEST_PITCH_STEP,
    LEVEL_ROUNDS,
    LOBE_BINS,
    LOBE_SHARPNESS,
    MIDDLE_HZ,
    NOISE_START,
    PITCH_CLASSES,
    PITCH_NEIGHBORS,
    TIME_POINTS,
    VocoderSpec,
    envelope_matrix,
    pitch_classes,
    time_interpolation,
)


class Spectrum(NamedTuple):
    """What the inverse transform takes, and the pitch that it was made from."""

    real: Any
    """(batch, frames, bins)."""
    imaginary: Any
    pitch_logits: Any
    """(batch, frames, PITCH_CLASSES)."""
    pitch: Any
    """Hz (batch, frames), also where nothing is voiced."""
    gains: Any
    """Factors of the samples of each frame: (batch, frames, n_fft)."""


class Vocoder(keras.Model):
    """`mel` (batch, frames, n_mels) → samples (batch, (frames - 1) * hop_length)."""

    def __init__(self, spec: VocoderSpec, **kwargs):
        super().__init__(**kwargs)
        self.spec = spec
        self.pitch_input = keras.layers.Conv1D(spec.pitch_channels, 5, padding="same", name="pitch_input")
        self.pitch_blocks = [VocoderBlock(2, name=f"pitch_block_{number}") for number in range(spec.pitch_blocks)]
        self.pitch_norm = FrameNorm(name="pitch_norm")
        self.pitch_head = keras.layers.Dense(PITCH_CLASSES, name="pitch_head")
        self.input_convolution = keras.layers.Conv1D(
            spec.channels, spec.first_kernel, padding="same", name="input_convolution"
        )
        self.blocks = [VocoderBlock(spec.widening, name=f"block_{number}") for number in range(spec.blocks)]
        self.output_norm = FrameNorm(name="output_norm")
        # Small at the start, so that training begins with the envelopes of the mel.
        small: Any = keras.initializers.RandomNormal(stddev=0.01)
        self.harmonic_head = keras.layers.Dense(spec.bins, kernel_initializer=small, name="harmonic_head")
        self.noise_head = keras.layers.Dense(spec.bins, kernel_initializer=small, name="noise_head")
        self.phase_head = keras.layers.Dense(2 * spec.bins, kernel_initializer=small, name="phase_head")
        self.gain_head = keras.layers.Dense(spec.mel.n_mels, kernel_initializer=small, name="gain_head")
        self.time_head = keras.layers.Dense(TIME_POINTS, kernel_initializer=small, name="time_head")
        self._filterbank = mel_filterbank(spec.mel)
        self._time_interpolation = time_interpolation(spec.mel.n_fft)
        self._area, self._interpolation = envelope_matrix(spec.mel)

    def build(self, input_shape=None):
        spec = self.spec
        self.pitch_input.build((None, None, spec.mel.n_mels))
        for part in (*self.pitch_blocks, self.pitch_norm, self.pitch_head):
            part.build((None, None, spec.pitch_channels))
        self.input_convolution.build((None, None, spec.mel.n_mels + 1))
        heads = (self.harmonic_head, self.noise_head, self.phase_head, self.gain_head, self.time_head)
        for part in (*self.blocks, self.output_norm, *heads):
            part.build((None, None, spec.channels))
        self.built = True

    def pitch(self, mel: Any) -> tuple[Any, Any]:
        """Hz (batch, frames), also where nothing is voiced, and the logits of the classes."""
        values = self.pitch_input((mel - INPUT_MEAN) / INPUT_DEVIATION)
        for block in self.pitch_blocks:
            values = block(values)
        logits = self.pitch_head(self.pitch_norm(values))
        best = tf.expand_dims(tf.argmax(logits, axis=-1, output_type=tf.int32), -1)
        is_near = tf.abs(tf.range(PITCH_CLASSES) - best) <= PITCH_NEIGHBORS
        weights = tf.nn.softmax(tf.where(is_near, logits, -1e9))
        return tf.exp(tf.reduce_sum(weights * pitch_classes(), axis=-1)), logits

    def call(self, mel: Any, noise_phases: Any) -> Spectrum:
        """
        Args:
            mel: (batch, frames, n_mels).
            noise_phases: random numbers from 0 to 1, the phases of the noise in turns: (copies * batch, frames, bins). The trunk
                runs once for all copies, which differ in their noise.
        """
        pitch, logits = self.pitch(mel)
        # Gradients through the phases of high harmonics are noise; the pitch learns from its labels alone.
        pitch = smoothed(tf.stop_gradient(pitch))
        log_pitch = tf.math.log(pitch / MIDDLE_HZ)[..., tf.newaxis]
        values = tf.concat([(mel - INPUT_MEAN) / INPUT_DEVIATION, log_pitch], axis=-1)
        values = self.input_convolution(values)
        for block in self.blocks:
            values = block(values)
        values = self.output_norm(values)

        envelope = tf.matmul(mel - self._area, self._interpolation)
        real, imaginary = self._harmonics(values, envelope, pitch)
        noise_level = envelope + self.noise_head(values) + NOISE_START + self.spec.noise_gain
        noise = tf.exp(tf.minimum(noise_level, HIGHEST_LOG_MAGNITUDE))
        level = mel + self.gain_head(values)
        gains = tf.clip_by_value(self.time_head(values), -LARGEST_LEVEL_CHANGE, LARGEST_LEVEL_CHANGE)
        gains = tf.exp(tf.matmul(gains, self._time_interpolation))

        copies = noise_phases.shape[0] // mel.shape[0]
        real, imaginary, noise, level, gains = (
            tf.tile(part, (copies, 1, 1)) if copies > 1 else part for part in (real, imaginary, noise, level, gains)
        )
        real += noise * tf.cos(2 * math.pi * noise_phases)
        imaginary += noise * tf.sin(2 * math.pi * noise_phases)
        factor = self._level_factor(real, imaginary, level)
        return Spectrum(real * factor, imaginary * factor, logits, pitch, gains)

    def _harmonics(self, values: Any, envelope: Any, pitch: Any) -> tuple[Any, Any]:
        """Real and imaginary part of the harmonics (batch, frames, bins): each bin belongs to the nearest one."""
        mel_spec = self.spec.mel
        frame_seconds = mel_spec.hop_length / mel_spec.sample_rate
        bin_hertz = mel_spec.sample_rate / mel_spec.n_fft
        hertz = tf.range(self.spec.bins, dtype=tf.float32) * bin_hertz
        harmonic = tf.maximum(tf.round(hertz / pitch[..., tf.newaxis]), 1.0)
        distance = (hertz - harmonic * pitch[..., tf.newaxis]) / bin_hertz
        # A harmonic whose frequency changes within the window has a wider and lower peak, and a phase that bends over it: the
        # Fourier transform of a chirp under a Gaussian window.
        bend = CHIRP_BINS / bin_hertz**2 * harmonic * pitch_slope(pitch, frame_seconds)[..., tf.newaxis]
        spread = 1.0 + tf.square(bend)
        lobe = LOBE_SHARPNESS * tf.square(distance) / spread
        # The mean magnitude of a band is spread over a peak for each harmonic.
        peak = tf.math.log(pitch / (bin_hertz * LOBE_BINS))[..., tf.newaxis] - 0.25 * tf.math.log(spread)
        level = envelope + peak + self.harmonic_head(values) - lobe
        residual_real, residual_imaginary = tf.split(self.phase_head(values), 2, axis=-1)
        residual_real += 1.0
        scale = tf.math.rsqrt(tf.square(residual_real) + tf.square(residual_imaginary) + 1e-9)
        # Half a turn for every odd bin: phases are counted from the start of a frame, the harmonics' from its center. Whole
        # turns are taken off before the cosine, which loses digits with large angles.
        turns = harmonic * phase_turns(pitch, frame_seconds)[..., tf.newaxis]
        turns += 0.5 * tf.cast(tf.range(self.spec.bins) % 2, tf.float32)
        angle = 2 * math.pi * (turns - tf.floor(turns)) + 0.5 * tf.atan(bend) - lobe * bend
        cosine, sine = tf.cos(angle), tf.sin(angle)
        magnitude = scale * tf.exp(tf.minimum(level, HIGHEST_LOG_MAGNITUDE))
        real = magnitude * (cosine * residual_real - sine * residual_imaginary)
        imaginary = magnitude * (sine * residual_real + cosine * residual_imaginary)
        return real, imaginary

    def _level_factor(self, real: Any, imaginary: Any, level: Any) -> Any:
        """What brings the bands of a spectrum to a log-mel, as a factor for each bin: (batch, frames, bins)."""
        magnitude = tf.sqrt(tf.square(real) + tf.square(imaginary) + 1e-14)
        log_factor = 0.0
        for _ in range(LEVEL_ROUNDS):
            bands = tf.matmul(magnitude * tf.exp(log_factor), self._filterbank)
            change = level - tf.math.log(tf.maximum(bands, self.spec.mel.log_floor))
            change = tf.clip_by_value(change, -LARGEST_LEVEL_CHANGE, LARGEST_LEVEL_CHANGE)
            log_factor += tf.matmul(change, self._interpolation)
        return tf.exp(log_factor)

    def samples(self, mel: Any, noise_phases: Any) -> Any:
        """Samples between the centers of the first and the last frame."""
        return self.waveform(self(mel, noise_phases))

    def waveform(self, spectrum: Spectrum) -> Any:
        """The samples of a spectrum: (batch, (frames - 1) * hop_length)."""
        mel = self.spec.mel
        return inverse_stft(spectrum.real, spectrum.imaginary, mel.n_fft, mel.hop_length, spectrum.gains)


def smoothed(pitch: Any) -> Any:
    """Mean of each frame's pitch (batch, frames) and its neighbors, which count half."""
    padded = tf.concat([pitch[:, :1], pitch, pitch[:, -1:]], axis=1)
    return 0.25 * padded[:, :-2] + 0.5 * pitch + 0.25 * padded[:, 2:]


def pitch_slope(pitch: Any, frame_seconds: float) -> Any:
    """Change of the pitch in Hz per second, 0 where it jumps: (batch, frames)."""
    padded = tf.concat([pitch[:, :1], pitch, pitch[:, -1:]], axis=1)
    change = padded[:, 2:] - padded[:, :-2]
    return tf.where(tf.abs(change) < LARGEST_PITCH_STEP * pitch, change / (2 * frame_seconds), 0.0)


def phase_turns(pitch: Any, frame_seconds: float) -> Any:
    """The phase of the first harmonic at the center of each frame, in turns from 0 to 1: (batch, frames).

    Summed as float64: in float32 the sum over 30 s was 0.005 turns off, which is a quarter of a turn at the 50th harmonic.
    """
    wide = tf.cast(pitch, tf.float64)
    steps = 0.5 * frame_seconds * (wide[:, 1:] + wide[:, :-1])
    turns = tf.cumsum(tf.pad(steps, ((0, 0), (1, 0))), axis=1)
    return tf.cast(turns - tf.floor(turns), tf.float32)


class VocoderBlock(keras.layers.Layer):
    """Dense convolution over three frames, norm, two projections with a SiLU between them; added back (as a ConvNeXt block).

    On a CPU a dense convolution is a matrix product at full speed; the usual depthwise one has a third of the arithmetic and took
    as long.
    """

    def __init__(self, widening: int, **kwargs):
        super().__init__(**kwargs)
        self.widening = widening

    def build(self, input_shape):
        channels = input_shape[-1]
        self.convolution = keras.layers.Conv1D(channels, 3, padding="same", name="convolution")
        self.convolution.build(input_shape)
        self.norm = FrameNorm(name="norm")
        self.norm.build(input_shape)
        self.widen = keras.layers.Dense(self.widening * channels, name="widen")
        self.widen.build(input_shape)
        self.narrow = keras.layers.Dense(channels, name="narrow")
        self.narrow.build((*input_shape[:-1], self.widening * channels))
        self.scale = self.add_weight(name="scale", shape=(channels,), initializer=keras.initializers.Constant(0.125))

    def call(self, values):
        inner = self.widen(self.norm(self.convolution(values)))
        return values + self.scale * self.narrow(tf.nn.silu(inner))


@functools.lru_cache(maxsize=16)
def hann_window(n_fft: int) -> np.ndarray:
    """Periodic Hann window: float32 (n_fft,)."""
    return (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n_fft) / n_fft)).astype(np.float32)


@functools.lru_cache(maxsize=16)
def forward_basis(n_fft: int) -> np.ndarray:
    """Windowed Fourier basis, real part then imaginary part: float32 (n_fft, 2 * bins)."""
    angles = 2 * np.pi * np.outer(np.arange(n_fft), np.arange(n_fft // 2 + 1)) / n_fft
    return (hann_window(n_fft)[:, None] * np.concatenate([np.cos(angles), -np.sin(angles)], axis=1)).astype(np.float32)


@functools.lru_cache(maxsize=16)
def inverse_basis(n_fft: int) -> np.ndarray:
    """Windowed inverse Fourier basis for a real part followed by an imaginary part: float32 (2 * bins, n_fft)."""
    bins = n_fft // 2 + 1
    angles = 2 * np.pi * np.outer(np.arange(bins), np.arange(n_fft)) / n_fft
    weights = np.full((bins, 1), 2.0)
    weights[[0, -1]] = 1.0
    basis = np.concatenate([weights * np.cos(angles), -weights * np.sin(angles)]) / n_fft
    return (basis * hann_window(n_fft)).astype(np.float32)


@functools.lru_cache(maxsize=32)
def _on_device(make: Callable[..., np.ndarray], *sizes: int) -> tf.Tensor:
    """A matrix as a tensor outside of every graph: a constant inside would be folded and copied by the compiler, for minutes."""
    with tf.init_scope():
        return tf.constant(make(*sizes))


def frame(samples: tf.Tensor, n_fft: int, hop_length: int) -> tf.Tensor:
    """Overlapping frames that lie wholly inside the samples: (batch, samples) → (batch, frames, n_fft)."""
    return tf.signal.frame(samples, n_fft, hop_length)


def stft(samples: tf.Tensor, n_fft: int, hop_length: int) -> tuple[Any, Any]:
    """Real and imaginary parts (batch, frames, bins) of the frames that lie wholly inside `samples` (batch, samples)."""
    real, imaginary = tf.split(
        tf.matmul(frame(samples, n_fft, hop_length), _on_device(forward_basis, n_fft)), 2, axis=-1
    )
    return real, imaginary


def magnitude(real: tf.Tensor, imaginary: tf.Tensor, floor: float = 1e-5) -> tf.Tensor:
    """Magnitude with a floor under its square, so that the gradient stays finite at silence."""
    return tf.sqrt(tf.square(real) + tf.square(imaginary) + floor * floor)


def inverse_stft(
    real: tf.Tensor, imaginary: tf.Tensor, n_fft: int, hop_length: int, gains: tf.Tensor | None = None
) -> tf.Tensor:
    """Samples between the centers of the first and the last frame: (batch, frames, bins) → (batch, (frames - 1) * hop_length).

    `gains` (batch, frames, n_fft) multiply the samples of each frame before they are added.
    """
    pieces = tf.matmul(tf.concat([real, imaginary], axis=-1), _on_device(inverse_basis, n_fft))
    if gains is not None:
        pieces *= gains
    frames: Any = pieces.shape[1]
    added = tf.signal.overlap_and_add(pieces, hop_length)
    half = n_fft // 2
    return (added / overlap_weights(frames, n_fft, hop_length))[:, half : half + (frames - 1) * hop_length]


@functools.lru_cache(maxsize=64)
def overlap_weights(frames: int, n_fft: int, hop_length: int) -> np.ndarray:
    """Sum of the squared windows at each sample of overlapped frames: float32 (samples,), never 0."""
    weights = np.zeros((frames - 1) * hop_length + n_fft, np.float64)
    square = hann_window(n_fft).astype(np.float64) ** 2
    for number in range(frames):
        weights[number * hop_length : number * hop_length + n_fft] += square
    return np.maximum(weights, 1e-3).astype(np.float32)
