"""The decoder: velocity of the flow from noise to mel (conditional flow matching, arXiv 2210.02747), as in Matcha-TTS.

Matcha-TTS (arXiv 2309.03199) and P-Flow (NeurIPS 2023) condition such a decoder on the aligned text. Here it is a stack of dense
dilated convolutions at frame rate, nothing strided: on a CPU they run at the speed of a large matrix product, and with the gaps
of a packed row no convolution reaches from one clip into another.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from myxtts.models.layers import FrameNorm, MaskedConv1D
from myxtts.models.layout import RowLayout
from myxtts.models.spec import TIME_CHANNELS


@keras.saving.register_keras_serializable("myxtts")
class FlowBlock(keras.layers.Layer):
    """Residual block: norm scaled and shifted by the clip's condition, dilated convolution, projection.

    Modulation and projection start at zero (adaLN-Zero of DiT, arXiv 2212.09748), so that a new block is the identity.

    Args:
        dilation: of the convolution.
        dropout: fraction of the channels that is dropped for a whole clip.
    """

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
        """`values` (rows, frames, channels) and `condition` (rows, slots, TIME_CHANNELS) to (rows, frames, channels)."""
        # Gain and shift are computed per clip, not per frame; spreading them over the frames is also the mask.
        gain, shift = tf.split(self.modulation(condition), 2, axis=-1)
        gain = (1 + gain) * tf.cast(self.norm.scale, gain.dtype)
        gain, shift = randomness.dropout_per_clip(self.path, (gain, shift), self.dropout)
        modulated = self.norm.unscaled(values) * layout.spread(gain) + layout.spread(shift)
        return values + self.narrow(self.widen(modulated))

    def get_config(self):
        return super().get_config() | {"dilation": self.dilation, "dropout": self.dropout}


@keras.saving.register_keras_serializable("myxtts")
class FlowDecoder(keras.layers.Layer):
    """Velocity (rows, frames, n_mels) at the flow time of each clip.

    Args:
        n_mels: bands of the mel.
        channels: width of the blocks.
        layers: number of blocks.
        dilations: of the blocks' convolutions, repeated cyclically.
        dropout: of each block.
    """

    def __init__(self, n_mels: int, channels: int, layers: int, dilations: tuple[int, ...], dropout: float, **kwargs):
        # The flow time stays float32 in mixed precision: its sines need more digits than float16 has.
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
            FlowBlock(self.dilations[index % len(self.dilations)], self.dropout, dtype=policy, name=f"block_{index}")
            for index in range(self.layers)
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
        """The part of the input that is the same at every flow time, computed once when sampling.

        Args:
            text_features: (rows, frames, text_channels + n_mels), text features and means of each frame.

        Returns:
            (rows, frames, channels).
        """
        return self.text_projection(text_features)

    def call(self, projected_text, noisy, time, condition, layout: RowLayout, randomness):
        """The velocity at a flow time.

        Args:
            projected_text: result of `project_text`.
            noisy: (rows, frames, n_mels), the point of the flow.
            time: (rows, slots), in [0, 1].
            condition: (rows, slots, TIME_CHANNELS), speaker and language of each clip.
            layout: where the clips are in the rows.
            randomness: source of the dropout.

        Returns:
            float32 (rows, frames, n_mels), 0 outside clips.
        """
        values = self.noisy_projection(noisy) + projected_text
        embedded = self.time_hidden(time_features(time)) + tf.cast(condition, values.dtype)
        for block in self.blocks:
            values = block(values, embedded, layout=layout, randomness=randomness)
        return self.output_projection(self.output_norm(values)) * layout.mask

    def get_config(self):
        own = ("n_mels", "channels", "layers", "dropout")
        return super().get_config() | {name: getattr(self, name) for name in own} | {"dilations": list(self.dilations)}


def time_features(time: Any) -> tf.Tensor:
    """Sines and cosines of a flow time: (rows, slots) → (rows, slots, TIME_CHANNELS), at frequencies from 1 to 1000."""
    frequencies = 1000.0 ** (tf.range(TIME_CHANNELS // 2, dtype=tf.float32) / (TIME_CHANNELS // 2))
    angles = time[..., tf.newaxis] * frequencies
    return tf.concat([tf.sin(angles), tf.cos(angles)], axis=-1)
