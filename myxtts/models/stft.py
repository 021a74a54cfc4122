"""Short-time Fourier transforms as matrix products, for losses and for the vocoder's inverse transform.

A product with a matrix of cosines and sines runs at the speed of the processor's arithmetic and has a gradient of the same kind;
TensorFlow's FFT on a CPU has neither several threads nor a fast gradient. The inverse is the same product as in the exported ONNX
graph.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf


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
