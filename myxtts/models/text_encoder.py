"""Text encoder and duration predictor: symbols to features and log durations.

A Transformer encoder whose feed-forward layers are convolutions, as in Glow-TTS (arXiv 2005.11129) and Matcha-TTS
(arXiv 2309.03199), with rotary positions as in the latter. Attention and convolutions stay within each clip.
"""

from __future__ import annotations

import keras
import tensorflow as tf

from myxtts.models.layers import AttentionContext, ClipAttention, FrameNorm, MaskedConv1D, attention_context
from myxtts.models.layout import RowLayout
from myxtts.models.spec import DURATION_LAYERS


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
