"""Speakers: the vector of a reference recording, and virtual speakers made by warping the mel axis in the step.

A clip whose frequencies are all multiplied by one factor sounds like another speaker, so pitch and formants of a clip and of its
reference are shifted alike. Warping costs two gathers per step, and every step draws new factors. Resampled copies in the cache
would be exact in pitch, but would take their size again on the disk, be the same few speakers in every epoch, and change the
tempo as well.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from myxtts.audio.mel import (
    LINEAR_HZ_PER_MEL,
    LOGARITHMIC_FROM_HZ,
    LOGARITHMIC_FROM_MEL,
    LOGARITHMIC_STEP,
    hz_to_mel,
    mel_to_hz,
)
from myxtts.batch import Batch
from myxtts.models.layers import FrameNorm, MaskedConv1D
from myxtts.models.layout import RowLayout
from myxtts.models.spec import FRAMES_PER_STEP, SPEAKER_LAYERS, ModelSpec

LOWEST_FACTOR, HIGHEST_FACTOR = 0.85, 1.18
"""About three semitones each way: beyond that, speech sounds unnatural. Chosen; not measured."""


@keras.saving.register_keras_serializable("myxtts")
class SpeakerEncoder(keras.layers.Layer):
    """References (clips, frames, n_mels) → speaker vectors (clips, channels), RMS-normalized.

    Residual convolutions, then mean and deviation over time (statistics pooling, as in x-vectors, Snyder et al., 2018).

    Args:
        channels: of the layers and of the vectors.
        layers: number of convolutions.
    """

    def __init__(self, channels: int, layers: int = SPEAKER_LAYERS, **kwargs):
        super().__init__(**kwargs)
        self.channels = channels
        self.layers = layers

    def build(self, input_shape):
        features = (None, None, self.channels)
        self.stem = keras.layers.Dense(self.channels, dtype=self.dtype_policy, name="stem")
        self.stem.build((None, None, FRAMES_PER_STEP * input_shape[-1]))
        self.norms = [FrameNorm(dtype=self.dtype_policy, name=f"norm_{index}") for index in range(self.layers)]
        self.convolutions = [
            MaskedConv1D(self.channels, dtype=self.dtype_policy, name=f"convolution_{index}")
            for index in range(self.layers)
        ]
        self.output_projection = keras.layers.Dense(self.channels, dtype=self.dtype_policy, name="output")
        self.output_norm = FrameNorm(dtype="float32", name="output_norm")
        for layer in (*self.norms, *self.convolutions):
            layer.build(features)
        self.output_projection.build((None, 2 * self.channels))
        self.output_norm.build((None, self.channels))

    def call(self, references):
        clips, frames, n_mels = references.shape
        steps = frames // FRAMES_PER_STEP
        stacked = tf.reshape(references[:, : steps * FRAMES_PER_STEP], (clips, steps, FRAMES_PER_STEP * n_mels))
        values = self.stem(stacked)
        for norm, convolution in zip(self.norms, self.convolutions, strict=True):
            values += convolution(norm(values))
        mean, variance = tf.nn.moments(tf.cast(values, tf.float32), axes=1)
        pooled = tf.concat([mean, tf.sqrt(variance + 1e-5)], axis=-1)
        return self.output_norm(self.output_projection(pooled))

    def get_config(self):
        return super().get_config() | {"channels": self.channels, "layers": self.layers}


def low_passed(references: Any, randomness, spec: ModelSpec) -> tf.Tensor:
    """References (clips, frames, n_mels), a fraction of them without the bands above a random one in the upper half."""
    if spec.reference_lowpass == 0:
        return references
    is_low_passed = randomness.hides("low-pass", spec.reference_lowpass)
    highest = tf.cast(spec.n_mels, tf.float32) * (0.5 + 0.5 * randomness.uniform_per_clip("highest band"))
    kept = tf.where(is_low_passed, highest, float(spec.n_mels))
    is_kept = tf.range(spec.n_mels, dtype=tf.float32) < tf.reshape(kept, (-1, 1, 1))
    return tf.where(is_kept, references, tf.math.log(spec.log_floor))


def with_virtual_speakers(batch: Batch, frames: RowLayout, randomness, spec: ModelSpec) -> tuple[Batch, Any]:
    """The batch with a fraction of its clips spoken by virtual speakers, and which these are; None: no virtual speakers."""
    if spec.virtual_speakers == 0:
        return batch, None
    is_virtual, factors = draw_factors(randomness, spec.virtual_speakers)
    positions = source_bands(factors, spec.n_mels, spec.f_min, spec.f_max)
    of_frames = frames.spread(tf.cast(is_virtual, tf.float32)[..., tf.newaxis]) > 0
    mel = tf.where(of_frames, warped(batch.mel, frames.spread(positions)), batch.mel)
    bands = tf.where(is_virtual, warped_bands(batch.bands, positions), batch.bands)
    references = batch.references
    if spec.has_speakers:
        rows, slots, size, n_mels = references.shape
        flat = tf.reshape(references, (rows * slots, size, n_mels))
        of_references = tf.repeat(tf.reshape(positions, (rows * slots, 1, n_mels)), size, axis=1)
        shifted = tf.reshape(warped(flat, of_references), references.shape)
        references = tf.where(is_virtual[..., tf.newaxis, tf.newaxis], shifted, references)
    pitch = batch.pitch
    if spec.pitch:
        pitch *= tf.squeeze(frames.spread(factors[..., tf.newaxis]), axis=-1)
    return batch._replace(mel=mel, bands=bands, references=references, pitch=pitch), is_virtual


def draw_factors(randomness, fraction: float) -> tuple[Any, Any]:
    """Which clips get another speaker, bool (rows, slots), and the factors of their frequencies, 1 for the others."""
    is_virtual = randomness.hides("virtual speaker", fraction)
    drawn = randomness.uniform_per_clip("virtual speaker's factor")
    factors = LOWEST_FACTOR * (HIGHEST_FACTOR / LOWEST_FACTOR) ** drawn
    return is_virtual, tf.where(is_virtual, factors, 1.0)


def source_bands(factors: Any, n_mels: int, f_min: float, f_max: float) -> tf.Tensor:
    """The (fractional) band that each band of a warped mel is read from: (…,) → (…, n_mels); may lie beyond the last one."""
    edges = np.linspace(hz_to_mel(f_min), hz_to_mel(f_max), n_mels + 2)
    centers_hz = tf.constant(mel_to_hz(edges)[1:-1], tf.float32)
    hz = centers_hz / factors[..., tf.newaxis]
    above = LOGARITHMIC_FROM_MEL + tf.math.log(tf.maximum(hz, LOGARITHMIC_FROM_HZ) / LOGARITHMIC_FROM_HZ) / float(
        LOGARITHMIC_STEP
    )
    mel = tf.where(hz < LOGARITHMIC_FROM_HZ, hz / LINEAR_HZ_PER_MEL, above)
    return (mel - float(edges[0])) / float(edges[1] - edges[0]) - 1


def warped(mel: Any, positions: Any) -> tf.Tensor:
    """A mel (rows, frames, n_mels) read at fractional bands (rows, frames, n_mels), by linear interpolation."""
    last = mel.shape[-1] - 1
    positions = tf.clip_by_value(positions, 0.0, float(last))
    below = tf.minimum(tf.cast(positions, tf.int32), last - 1)
    fraction = positions - tf.cast(below, tf.float32)
    return tf.gather(mel, below, batch_dims=2) * (1 - fraction) + tf.gather(mel, below + 1, batch_dims=2) * fraction


def warped_bands(bands: Any, positions: Any) -> tf.Tensor:
    """Bands that a warped recording contains, int32 (rows, slots): those that are read from bands it contained before.

    Args:
        bands: int32 (rows, slots), of the recording.
        positions: (rows, slots, n_mels), result of `source_bands`.
    """
    is_real = positions <= tf.cast(bands, tf.float32)[..., tf.newaxis] - 1
    return tf.reduce_sum(tf.cast(is_real, tf.int32), axis=-1)
