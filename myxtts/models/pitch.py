"""Pitch of the frames: predicted from the text, and given to the decoder as the harmonics that it causes in the mel.

A mel of speech has ripples, the harmonics, whose distance is the pitch. A decoder that is not given the pitch averages over
all likely ones and blurs them: next to those of recordings, the differences between neighboring bands were half as large. As in
FastPitch (arXiv 2006.06873) the pitch of the recording is given in training and a predicted one when the voice speaks; here for
every frame, and as the ripple that it causes in each band.
"""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf

from myxtts.models.layers import FrameNorm, MaskedConv1D
from myxtts.models.layout import RowLayout
from myxtts.models.spec import (
    HIGHEST_PITCH,
    PITCH_CENTER_HZ,
    PITCH_CHANNELS,
    PITCH_DILATIONS,
    PITCH_LOG_SPREAD,
    ModelSpec,
    mel_bands,
)

VOICING_WEIGHT = 0.2
"""Of the cross entropy of voicing, next to the squared error of the pitch. Chosen; not measured."""


@keras.saving.register_keras_serializable("myxtts")
class PitchPredictor(keras.layers.Layer):
    """Text features of each frame to its pitch and its voicing.

    Args:
        channels: of the convolutions.
        dilations: of the convolutions, one each.
    """

    def __init__(self, channels: int = PITCH_CHANNELS, dilations: tuple[int, ...] = PITCH_DILATIONS, **kwargs):
        super().__init__(**kwargs)
        self.channels = channels
        self.dilations = tuple(dilations)

    def build(self, input_shape):
        hidden = (*input_shape[:-1], self.channels)
        self.input_projection = keras.layers.Dense(self.channels, dtype=self.dtype_policy, name="input")
        self.input_projection.build(input_shape)
        self.norms = [FrameNorm(dtype=self.dtype_policy, name=f"norm_{index}") for index in range(len(self.dilations))]
        self.convolutions = [
            MaskedConv1D(self.channels, dilation=dilation, dtype=self.dtype_policy, name=f"convolution_{index}")
            for index, dilation in enumerate(self.dilations)
        ]
        for layer in (*self.norms, *self.convolutions):
            layer.build(hidden)
        self.output_projection = keras.layers.Dense(2, kernel_initializer="zeros", dtype="float32", name="output")
        self.output_projection.build(hidden)

    def call(self, text, condition, layout: RowLayout):
        """The pitch of frames.

        Args:
            text: (rows, frames, text_channels).
            condition: (rows, frames, channels), speaker and language, added to the projected text.
            layout: where the clips are in the rows.

        Returns:
            float32 (rows, frames): standardized pitch, and the logit of being voiced.
        """
        values = self.input_projection(text)
        values += tf.cast(condition, values.dtype)
        for norm, convolution in zip(self.norms, self.convolutions, strict=True):
            values += convolution(norm(values, layout.mask))
        pitch, voicing = tf.unstack(self.output_projection(values), axis=-1)
        return pitch, voicing

    def get_config(self):
        return super().get_config() | {"channels": self.channels, "dilations": list(self.dilations)}


def standardized_pitch(hertz: Any) -> tf.Tensor:
    """Hz to the units of the predictor; unvoiced frames (0 Hz) become 0."""
    is_voiced = hertz > 0
    ratio = tf.where(is_voiced, hertz, PITCH_CENTER_HZ) / PITCH_CENTER_HZ
    return tf.math.log(ratio) / PITCH_LOG_SPREAD


def pitch_errors(predicted: tuple[Any, Any], hertz: Any) -> tf.Tensor:
    """The loss of every frame (rows, frames): squared error of the pitch where it is voiced, and cross entropy of voicing."""
    pitch, voicing = predicted
    is_voiced = tf.cast(hertz > 0, tf.float32)
    of_voicing = tf.nn.sigmoid_cross_entropy_with_logits(is_voiced, voicing)
    return is_voiced * tf.square(pitch - standardized_pitch(hertz)) + VOICING_WEIGHT * of_voicing


def pitch_features(pitch: Any, voiced: Any, spec: ModelSpec) -> tf.Tensor:
    """What the decoder gets of the pitch: (rows, frames, n_mels + 2), 0 in unvoiced frames.

    The ripple that harmonics cause in each band, weaker where a band is wide next to their distance (the Fourier transform of its
    triangle, a squared sinc); the pitch itself; and whether the frame is voiced.

    Args:
        pitch: (rows, frames), standardized.
        voiced: (rows, frames), 1 in voiced frames.
    """
    centers, widths = mel_bands(spec.n_mels, spec.f_min, spec.f_max)
    limited = tf.clip_by_value(pitch, -HIGHEST_PITCH, HIGHEST_PITCH)
    column: Any = tf.expand_dims(limited, axis=-1)
    period = tf.exp(-PITCH_LOG_SPREAD * column) / PITCH_CENTER_HZ
    angle = math.pi * widths * period
    ripple = tf.square(tf.sin(angle) / angle) * tf.cos(2 * math.pi * centers * period)
    return tf.concat([ripple, column, tf.ones_like(period)], axis=-1) * tf.expand_dims(voiced, axis=-1)
