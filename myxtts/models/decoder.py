"""The flow-matching decoder: noisy mel + text features → the velocity that carries noise to speech.

Dense dilated convolutions at frame rate, nothing strided: on a CPU they run at the speed of a large matrix product, and a clip's
neighbours in a packed row stay out of reach.
"""

from __future__ import annotations

import keras
import tensorflow as tf

from myxtts.models.layers import FrameNorm, MaskedConv1D
from myxtts.models.layout import RowLayout

TIME_CHANNELS = 64


@keras.saving.register_keras_serializable("myxtts")
class FlowBlock(keras.layers.Layer):
    """Norm modulated by the clip's condition, dilated convolution, projection, added back."""

    def __init__(self, dilation: int, dropout: float, **kwargs):
        super().__init__(**kwargs)
        self.dilation = dilation
        self.dropout = dropout

    def build(self, input_shape):
        channels = input_shape[-1]
        self.norm = FrameNorm(dtype=self.dtype_policy, name="norm")
        self.norm.build(input_shape)
        self.modulation = keras.layers.Dense(
            2 * channels, kernel_initializer="zeros", dtype=self.dtype_policy, name="modulation"
        )
        self.modulation.build((None, None, TIME_CHANNELS))
        self.widen = MaskedConv1D(2 * channels, dilation=self.dilation, dtype=self.dtype_policy, name="widen")
        self.widen.build(input_shape)
        self.narrow = keras.layers.Dense(channels, kernel_initializer="zeros", dtype=self.dtype_policy, name="narrow")
        self.narrow.build((*input_shape[:-1], 2 * channels))

    def call(self, values, condition, layout: RowLayout, randomness):
        # All that can be is computed for each clip, not for each frame; spreading is also the mask, and a channel is dropped
        # for a whole clip.
        gain, shift = tf.split(self.modulation(condition), 2, axis=-1)
        gain = (1 + gain) * tf.cast(self.norm.scale, gain.dtype)
        gain, shift = randomness.dropout_per_clip(self.path, (gain, shift), self.dropout)
        modulated = self.norm.unscaled(values) * layout.spread(gain) + layout.spread(shift)
        return values + self.narrow(self.widen(modulated))

    def get_config(self):
        return super().get_config() | {"dilation": self.dilation, "dropout": self.dropout}


@keras.saving.register_keras_serializable("myxtts")
class FlowDecoder(keras.layers.Layer):
    """Velocity (rows, frames, n_mels) at a flow time of each clip."""

    def __init__(self, n_mels: int, channels: int, layers: int, dilations: tuple[int, ...], dropout: float, **kwargs):
        # Flow time stays float32 in mixed precision: its sines need more digits than half a float has.
        super().__init__(autocast=False, **kwargs)
        self.n_mels = n_mels
        self.channels = channels
        self.layers = layers
        self.dilations = tuple(dilations)
        self.dropout = dropout

    def build(self, input_shape):
        features = (*input_shape[:-1], self.channels)
        policy = self.dtype_policy
        self.noisy_projection = keras.layers.Dense(self.channels, dtype=policy, name="noisy_projection")
        self.noisy_projection.build((*input_shape[:-1], self.n_mels))
        self.text_projection = keras.layers.Dense(self.channels, use_bias=False, dtype=policy, name="text_projection")
        self.text_projection.build(input_shape)
        self.time_hidden = keras.layers.Dense(TIME_CHANNELS, activation="silu", dtype=policy, name="time_hidden")
        self.time_hidden.build((None, None, TIME_CHANNELS))
        self.blocks = [
            FlowBlock(self.dilations[number % len(self.dilations)], self.dropout, dtype=policy, name=f"block_{number}")
            for number in range(self.layers)
        ]
        for block in self.blocks:
            block.build(features)
        self.output_norm = FrameNorm(dtype=policy, name="output_norm")
        self.output_norm.build(features)
        self.output_projection = keras.layers.Dense(
            self.n_mels, kernel_initializer="zeros", dtype="float32", name="output_projection"
        )
        self.output_projection.build(features)

    def project_text(self, text_features):
        """The part of the input that is the same at every flow time, so that sampling computes it once."""
        return self.text_projection(text_features)

    def call(self, projected_text, noisy, time, condition, layout: RowLayout, randomness):
        """`noisy` (rows, frames, n_mels), `time` (rows, slots) in [0, 1], `condition` (rows, slots, TIME_CHANNELS)."""
        values = self.noisy_projection(noisy) + projected_text
        embedded = self.time_hidden(time_features(time)) + tf.cast(condition, values.dtype)
        for block in self.blocks:
            values = block(values, embedded, layout=layout, randomness=randomness)
        return self.output_projection(self.output_norm(values)) * layout.mask

    def get_config(self):
        own = ("n_mels", "channels", "layers", "dropout")
        return super().get_config() | {name: getattr(self, name) for name in own} | {"dilations": list(self.dilations)}


def time_features(time: tf.Tensor) -> tf.Tensor:
    """Sines and cosines of a flow time: (rows, slots) → (rows, slots, TIME_CHANNELS)."""
    frequencies = 1000.0 ** (tf.range(TIME_CHANNELS // 2, dtype=tf.float32) / (TIME_CHANNELS // 2))
    angles = time[..., tf.newaxis] * frequencies
    return tf.concat([tf.sin(angles), tf.cos(angles)], axis=-1)
