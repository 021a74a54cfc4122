"""Layers that see clips and never padding: convolutions mask their input, attention stays within a clip, norms are per frame."""

from __future__ import annotations

import keras
import tensorflow as tf

from myxtts.models.layout import RowLayout


@keras.saving.register_keras_serializable("myxtts")
class FrameNorm(keras.layers.Layer):
    """RMS normalisation over the channels of each position; a norm over time would see the padding."""

    def __init__(self, epsilon: float = 1e-5, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def build(self, input_shape):
        self.scale = self.add_weight(name="scale", shape=(input_shape[-1],), initializer="ones")

    def call(self, values):
        wide = tf.cast(values, tf.float32)
        inverse = tf.math.rsqrt(tf.reduce_mean(tf.square(wide), axis=-1, keepdims=True) + self.epsilon)
        return values * tf.cast(inverse, values.dtype) * tf.cast(self.scale, values.dtype)

    def get_config(self):
        return super().get_config() | {"epsilon": self.epsilon}


@keras.saving.register_keras_serializable("myxtts")
class MaskedConv1D(keras.layers.Layer):
    """Convolution over time whose input is masked: (rows, size, channels) → (rows, size, filters)."""

    def __init__(self, filters: int, kernel_size: int = 3, dilation: int = 1, **kwargs):
        super().__init__(**kwargs)
        self.filters = filters
        self.kernel_size = kernel_size
        self.dilation = dilation

    def build(self, input_shape):
        shape = (self.kernel_size, input_shape[-1], self.filters)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer="glorot_uniform")
        self.bias = self.add_weight(name="bias", shape=(self.filters,), initializer="zeros")

    def call(self, values, keep):
        """`keep` (rows, size, 1) is 1 on clips. (Not called mask: Keras has a meaning of its own for that name.)"""
        masked = values * tf.cast(keep, values.dtype)
        kernel = tf.cast(self.kernel, values.dtype)
        convolved = tf.nn.conv1d(masked, kernel, stride=1, padding="SAME", dilations=self.dilation)
        return tf.nn.bias_add(convolved, tf.cast(self.bias, values.dtype))

    def get_config(self):
        own = {"filters": self.filters, "kernel_size": self.kernel_size, "dilation": self.dilation}
        return super().get_config() | own


@keras.saving.register_keras_serializable("myxtts")
class ClipAttention(keras.layers.Layer):
    """Multi-head self-attention within each clip, with rotary positions that restart at each clip."""

    def __init__(self, heads: int, **kwargs):
        super().__init__(**kwargs)
        self.heads = heads

    def build(self, input_shape):
        channels = input_shape[-1]
        if channels % (2 * self.heads):
            raise ValueError(
                f"ClipAttention needs an even width per head. Received: {channels} channels, {self.heads} heads. "
                f"Try a width that is a multiple of {2 * self.heads}."
            )
        self.head_channels = channels // self.heads
        self.query_key_value = keras.layers.Dense(3 * channels, use_bias=False, dtype=self.dtype_policy, name="qkv")
        self.query_key_value.build(input_shape)
        self.output_projection = keras.layers.Dense(channels, dtype=self.dtype_policy, name="output")
        self.output_projection.build(input_shape)

    def call(self, values, layout: RowLayout):
        rows, size, channels = values.shape
        projected = tf.reshape(self.query_key_value(values), (rows, size, 3, self.heads, self.head_channels))
        query, key, value = tf.unstack(tf.transpose(projected, (2, 0, 3, 1, 4)))
        cosine, sine = rotary_angles(layout.positions, self.head_channels // 2)
        query, key = rotate(query, cosine, sine), rotate(key, cosine, sine)
        scores = tf.cast(tf.matmul(query, key, transpose_b=True), tf.float32) * self.head_channels**-0.5
        # A finite value: rows of padding see nothing at all, and an all -inf row would be NaN.
        scores = tf.where(layout.same_clip(layout)[:, tf.newaxis], scores, -1e9)
        mixed = tf.matmul(tf.cast(tf.nn.softmax(scores), value.dtype), value)
        return self.output_projection(tf.reshape(tf.transpose(mixed, (0, 2, 1, 3)), (rows, size, channels)))

    def get_config(self):
        return super().get_config() | {"heads": self.heads}


def rotary_angles(positions: tf.Tensor, half_channels: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Cosine and sine (rows, 1, size, half_channels) of the rotary position encoding."""
    frequencies = 10000.0 ** (-tf.range(half_channels, dtype=tf.float32) / half_channels)
    angles = tf.cast(positions, tf.float32)[:, tf.newaxis, :, tf.newaxis] * frequencies
    return tf.cos(angles), tf.sin(angles)


def rotate(values: tf.Tensor, cosine: tf.Tensor, sine: tf.Tensor) -> tf.Tensor:
    """Rotate pairs of channels (rows, heads, size, channels) by the angles of their positions."""
    first, second = tf.split(values, 2, axis=-1)
    cosine, sine = tf.cast(cosine, values.dtype), tf.cast(sine, values.dtype)
    return tf.concat([first * cosine - second * sine, first * sine + second * cosine], axis=-1)
