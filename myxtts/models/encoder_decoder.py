"""Text encoder, duration predictor and decoder: symbols to features and log durations, and from those and noise to a mel.

The text encoder is a Transformer whose feed-forward layers are convolutions, as in Glow-TTS (arXiv 2005.11129) and Matcha-TTS
(arXiv 2309.03199), with rotary positions as in the latter. Attention and convolutions stay within each clip.

The decoder is the velocity of the flow from noise to mel (conditional flow matching, arXiv 2210.02747). Matcha-TTS and P-Flow
(NeurIPS 2023) condition such a decoder on the aligned text. Here it is a stack of dense dilated convolutions at frame rate,
nothing strided: on a CPU they run at the speed of a large matrix product, and with the gaps of a packed row no convolution
reaches from one clip into another.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from myxtts.models.layers import (
    AttentionContext,
    ClipAttention,
    FrameNorm,
    MaskedConv1D,
    attention_context,
    modulated_norm,
)
from myxtts.models.layout import RowLayout
from myxtts.models.spec import DURATION_LAYERS, TIME_CHANNELS


@keras.saving.register_keras_serializable("myxtts")
class TextBlock(keras.layers.Layer):
    """Residual attention and residual convolution, each after a norm.

    Args:
        heads: attention heads.
        dropout: rate after each of the two.
    """

    def __init__(self, heads: int, dropout: float, **kwargs):
        super().__init__(autocast=False, **kwargs)  # the attention context stays float32
        self.heads = heads
        self.dropout = dropout

    def build(self, input_shape):
        channels = input_shape[-1]
        self.attention_norm = FrameNorm(dtype=self.dtype_policy, name="attention_norm")
        self.attention = ClipAttention(self.heads, dtype=self.dtype_policy, name="attention")
        self.convolution_norm = FrameNorm(dtype=self.dtype_policy, name="convolution_norm")
        self.widen = MaskedConv1D(2 * channels, dtype=self.dtype_policy, name="widen")
        self.narrow = keras.layers.Dense(channels, dtype=self.dtype_policy, name="narrow")
        for layer in (self.attention_norm, self.attention, self.convolution_norm, self.widen):
            layer.build(input_shape)
        self.narrow.build((*input_shape[:-1], 2 * channels))

    def call(self, values, context: AttentionContext, layout: RowLayout, randomness):
        """`values` (rows, size, channels) to the same shape."""
        attended = self.attention(self.attention_norm(values), context=context)
        values += randomness.dropout(f"{self.path}/attention", layout, attended, self.dropout)
        hidden = self.narrow(self.widen(self.convolution_norm(values, layout.mask)))
        return values + randomness.dropout(f"{self.path}/convolution", layout, hidden, self.dropout)

    def get_config(self):
        return super().get_config() | {"heads": self.heads, "dropout": self.dropout}


@keras.saving.register_keras_serializable("myxtts")
class TextEncoder(keras.layers.Layer):
    """Blank-expanded symbols and a condition to features.

    Args:
        num_symbols: size of the symbol table.
        channels: of the features.
        layers: number of blocks.
        heads: attention heads of each block.
        dropout: rate of each block.
    """

    def __init__(self, num_symbols: int, channels: int, layers: int, heads: int, dropout: float, **kwargs):
        super().__init__(**kwargs)
        self.num_symbols = num_symbols
        self.channels = channels
        self.layers = layers
        self.heads = heads
        self.dropout = dropout

    def build(self, input_shape):
        del input_shape
        features = (None, None, self.channels)
        self.embedding = keras.layers.Embedding(
            self.num_symbols,
            self.channels,
            embeddings_initializer=keras.initializers.RandomNormal(stddev=1.0),  # pyright: ignore[reportArgumentType]
            dtype=self.dtype_policy,
            name="embedding",
        )
        self.embedding.build((None, None))
        self.blocks = [
            TextBlock(self.heads, self.dropout, dtype=self.dtype_policy, name=f"block_{index}")
            for index in range(self.layers)
        ]
        self.output_norm = FrameNorm(dtype=self.dtype_policy, name="output_norm")
        for layer in (*self.blocks, self.output_norm):
            layer.build(features)

    def call(self, tokens, condition, layout: RowLayout, randomness):
        """Encode `tokens` int32 (rows, size) with `condition` (rows, size, channels): (rows, size, channels), normalized."""
        values = self.embedding(tokens)
        values = (values + tf.cast(condition, values.dtype)) * tf.cast(layout.mask, values.dtype)
        context = attention_context(layout, self.channels // self.heads)
        for block in self.blocks:
            values = block(values, context=context, layout=layout, randomness=randomness)
        return self.output_norm(values)

    def get_config(self):
        own = ("num_symbols", "channels", "layers", "heads", "dropout")
        return super().get_config() | {name: getattr(self, name) for name in own}


@keras.saving.register_keras_serializable("myxtts")
class DurationPredictor(keras.layers.Layer):
    """Text features to the logarithm of the frames of each symbol.

    Args:
        channels: of the convolutions.
        dropout: rate after each convolution.
        layers: number of convolutions.
    """

    def __init__(self, channels: int, dropout: float, layers: int = DURATION_LAYERS, **kwargs):
        super().__init__(**kwargs)
        self.channels = channels
        self.dropout = dropout
        self.layers = layers

    def build(self, input_shape):
        hidden = (*input_shape[:-1], self.channels)
        self.convolutions = [
            MaskedConv1D(self.channels, dtype=self.dtype_policy, name=f"convolution_{index}")
            for index in range(self.layers)
        ]
        self.norms = [FrameNorm(dtype=self.dtype_policy, name=f"norm_{index}") for index in range(self.layers)]
        self.output_projection = keras.layers.Dense(1, kernel_initializer="zeros", dtype="float32", name="output")
        for index, (convolution, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            convolution.build(input_shape if index == 0 else hidden)
            norm.build(hidden)
        self.output_projection.build(hidden)

    def call(self, values, layout: RowLayout, randomness):
        """`values` (rows, size, channels) to log durations float32 (rows, size)."""
        for index, (convolution, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            values = norm(convolution(values, layout.mask))
            values = randomness.dropout(f"{self.path}/{index}", layout, values, self.dropout)
        return self.output_projection(values)[..., 0]

    def get_config(self):
        return super().get_config() | {"channels": self.channels, "dropout": self.dropout, "layers": self.layers}


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
        modulated = modulated_norm(values, layout.spread(gain), layout.spread(shift))
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
