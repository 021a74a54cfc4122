"""Speaker encoder: the mel of a reference recording to one vector that describes the speaker."""

from __future__ import annotations

import keras
import tensorflow as tf

from myxtts.models.layers import FrameNorm, MaskedConv1D

FRAMES_PER_STEP = 4
"""Neighboring frames are stacked, which takes a quarter of the computation. Chosen; not measured."""


@keras.saving.register_keras_serializable("myxtts")
class SpeakerEncoder(keras.layers.Layer):
    """References (clips, frames, n_mels) → speaker vectors (clips, channels), RMS-normalized.

    Residual convolutions, then mean and deviation over time (statistics pooling, as in x-vectors, Snyder et al., 2018).

    Args:
        channels: of the layers and of the vectors.
        layers: number of convolutions.
    """

    def __init__(self, channels: int, layers: int = 3, **kwargs):
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
