"""The mel of `myxtts.audio.mel` in TensorFlow ops: in a graph, in tf.data, for samples of any (also unknown) length.

In: float32 (..., samples). Out: float32 (..., frames, n_mels), with frames = 1 + samples // hop_length.
"""

from __future__ import annotations

import tensorflow as tf

from myxtts.audio.mel import MelSpec, analysis_window, mel_filterbank


def mel_tensorflow(samples: tf.Tensor, spec: MelSpec) -> tf.Tensor:
    """Log-mel of one clip (samples,) or of several of the same length (..., samples); equals `mel_numpy`."""
    samples = tf.convert_to_tensor(samples, tf.float32)
    num_samples = tf.shape(samples)[-1] if samples.shape[-1] is None else samples.shape[-1]
    left = spec.n_fft // 2
    positions = tf.range(-left, num_samples + spec.n_fft - left)
    padded = tf.gather(samples, _reflect(positions, num_samples), axis=-1)
    frames = tf.signal.frame(padded, spec.n_fft, spec.hop_length)
    frames = frames[..., : 1 + num_samples // spec.hop_length, :]
    magnitude = tf.abs(tf.signal.rfft(frames * analysis_window(spec)))
    mel = tf.math.log(tf.maximum(tf.matmul(magnitude, mel_filterbank(spec)), spec.log_floor))
    return tf.ensure_shape(mel, [*samples.shape[:-1], mel.shape[-2], spec.n_mels])


def _reflect(positions: tf.Tensor, num_samples: tf.Tensor | int) -> tf.Tensor:
    """Positions mirrored at both ends as often as needed: `tf.pad` refuses clips that are shorter than the padding."""
    last = num_samples - 1
    within_period = tf.math.floormod(positions, tf.maximum(2 * last, 1))
    return last - tf.abs(last - within_period)
