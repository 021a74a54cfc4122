"""Layers that ignore padding: convolutions mask their input, attention stays within a clip, norms are per position.

`convolve` is the dilated convolution beneath them, which runs on every processor. Some parts are compiled by XLA on every device,
also where the step as a whole is not (`compiled_by_xla`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from myxtts.models.layout import RowLayout
from myxtts.models.spec import NORM_EPSILON

NATIVE = "native"
"""TensorFlow's convolution: oneDNN, cuDNN."""
MATMUL = "matmul"
"""One matrix product over shifted copies: runs wherever a matrix product does."""
DESCRIPTIONS = {
    NATIVE: "native (TensorFlow's own)",
    MATMUL: "matmul (TensorFlow has no gradient of a dilated convolution here: oneDNN is off or missing)",
}

_is_xla_allowed = True


def allow_xla(is_allowed: bool) -> None:
    """Choose whether functions that are traced from now on in this process are compiled; otherwise they run as plain graphs."""
    global _is_xla_allowed
    _is_xla_allowed = is_allowed


def compiled_by_xla(function: Callable) -> Callable:
    """Compile a function of tensors, once for each set of static shapes, where XLA is allowed.

    Calls the concrete function of the shapes. Calling the traced function would give the same result, but TensorFlow would
    warn of retracing in a network whose layers have five widths.
    """
    compiled = tf.function(function, jit_compile=True, autograph=False)
    plain = tf.function(function, autograph=False)

    @functools.wraps(function)
    def call(*tensors):
        traced = compiled if _is_xla_allowed else plain
        return traced.get_concrete_function(*tensors)(*tensors)

    return call


def fused_by_xla(function: Callable) -> Callable:
    """Compile a chain of elementwise operations and its gradient, each into one loop over memory, where XLA is allowed.

    The gradient computes the chain again from its arguments: reading memory costs more than the arithmetic. Arguments and results
    keep their dtype; inside, `function` gets float32.
    """

    @compiled_by_xla
    def forward(*tensors):
        return tf.cast(function(*(tf.cast(tensor, tf.float32) for tensor in tensors)), tensors[0].dtype)

    @compiled_by_xla
    def backward(upstream, *tensors):
        with tf.GradientTape() as tape:
            wide = [tf.cast(tensor, tf.float32) for tensor in tensors]
            tape.watch(wide)
            result = function(*wide)
        gradients = tape.gradient(result, wide, tf.cast(upstream, tf.float32))
        return [
            tf.cast(tf.convert_to_tensor(gradient), tensor.dtype)
            for gradient, tensor in zip(gradients, tensors, strict=True)
        ]

    @tf.custom_gradient
    def fused(*tensors):
        # Without stop_gradient a tape would record the compiled function too, and build a second gradient for it.
        result = forward(*(tf.stop_gradient(tensor) for tensor in tensors))
        return result, lambda upstream: backward(upstream, *tensors)

    @functools.wraps(function)
    def call(*tensors):
        return fused(*(tf.convert_to_tensor(tensor) for tensor in tensors))

    return call


def convolve(values: tf.Tensor, kernel: tf.Tensor, dilation: int) -> tf.Tensor:
    """Convolution over time with zeros beyond both ends, on every processor.

    TensorFlow has a gradient for dilated convolutions on GPUs, under XLA and in oneDNN. Its own CPU kernels have none ("Current
    CPU implementations do not yet support dilation rates larger than 1"), and TensorFlow switches oneDNN on by itself only for
    processors with AVX512-VNNI, AVX-VNNI or AMX. `import myxtts` therefore asks for oneDNN; where it is missing or off (ARM,
    `TF_ENABLE_ONEDNN_OPTS=0`, TensorFlow imported first), the same convolution is one matrix product over shifted copies of its
    input. Measured on two AVX2 cores, (5, 800, 192) → 384 channels, kernel 3, forward and backward: oneDNN 32 ms, the product
    34 ms without oneDNN and 37 ms with it; three products and TensorFlow's own gradient 50 ms; folding the dilation into the
    batch 39 ms.

    Args:
        values: (rows, size, channels).
        kernel: (kernel_size, channels, filters), kernel_size odd.
        dilation: positions between two taps of the kernel.

    Returns:
        (rows, size, filters).
    """
    if convolution_path() == NATIVE:
        return tf.nn.conv1d(values, kernel, stride=1, padding="SAME", dilations=dilation)
    return convolve_by_matmul(values, kernel, dilation)


@functools.cache
def convolution_path() -> str:
    """How this process convolves: `NATIVE` if the gradient of a small dilated convolution runs on its device, otherwise `MATMUL`.

    The answer depends on the processor, on TensorFlow's build and on the environment that it was imported with, none of which
    changes during a process.
    """
    values, kernel, upstream = (1, 1, 8, 4), (1, 3, 4, 2), (1, 1, 8, 2)  # conv1d is a conv2d of height 1
    settings = {"strides": (1, 1, 1, 1), "padding": "SAME", "dilations": (1, 1, 2, 1)}
    with tf.init_scope():  # also when the first layer asks while it is being traced; a tape would not record here
        try:
            tf.raw_ops.Conv2DBackpropInput(
                input_sizes=values, filter=tf.ones(kernel), out_backprop=tf.ones(upstream), **settings
            )
            tf.raw_ops.Conv2DBackpropFilter(
                input=tf.ones(values), filter_sizes=kernel, out_backprop=tf.ones(upstream), **settings
            )
        except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError, tf.errors.NotFoundError):
            return MATMUL
    return NATIVE


def convolve_by_matmul(values: Any, kernel: Any, dilation: int) -> tf.Tensor:
    """`convolve` as one matrix product. Its gradient is written out: TensorFlow's own takes half as long again."""
    taps, channels, filters = kernel.shape

    @tf.custom_gradient
    def product(values: tf.Tensor, kernel: tf.Tensor):
        rows, size = tf.unstack(tf.shape(values)[:2])
        stacked = tf.reshape(tf.concat(_shifted(values, taps, dilation), axis=-1), (-1, taps * channels))
        weights = tf.reshape(kernel, (taps * channels, filters))

        def gradient(upstream: tf.Tensor):
            upstream = tf.reshape(upstream, (-1, filters))
            of_stacked = tf.reshape(tf.matmul(upstream, weights, transpose_b=True), (rows, size, taps, channels))
            # The gradient of what tap k read k shifts to the left belongs there: the taps in reverse order.
            of_taps = tf.unstack(of_stacked, axis=2)
            of_values = tf.add_n([_shifted(of_tap, taps, dilation)[-1 - tap] for tap, of_tap in enumerate(of_taps)])
            of_kernel = tf.reshape(tf.matmul(stacked, upstream, transpose_a=True), (taps, channels, filters))
            return of_values, of_kernel

        return tf.reshape(tf.matmul(stacked, weights), (rows, size, filters)), gradient

    result = product(values, kernel)
    return tf.ensure_shape(result, (*values.shape[:2], filters))


def _shifted(values: tf.Tensor, taps: int, dilation: int) -> list[tf.Tensor]:
    """What each tap of the kernel reads at each position: `taps` tensors of the shape of `values`."""
    reach = dilation * (taps // 2)
    padded = tf.pad(values, ((0, 0), (reach, reach), (0, 0)))
    ends = [-dilation * (taps - 1 - tap) or None for tap in range(taps)]
    return [padded[:, tap * dilation : end] for tap, end in enumerate(ends)]


@fused_by_xla
def modulated_norm(values, gain, shift):
    """RMSNorm of each position, times a gain, plus a shift, all (rows, size, channels)."""
    return _normalized(values) * gain + shift


@fused_by_xla
def _scaled_norm(values, scale):
    return _normalized(values) * scale


@fused_by_xla
def _masked_norm(values, scale, keep):
    return _normalized(values) * scale * keep


def _normalized(values):
    return values * tf.math.rsqrt(tf.reduce_mean(tf.square(values), axis=-1, keepdims=True) + NORM_EPSILON)


@keras.saving.register_keras_serializable("myxtts")
class FrameNorm(keras.layers.Layer):
    """RMSNorm over the channels of each position (Zhang and Sennrich, arXiv 1910.07467); a norm over time would see the padding.

    Call with values (rows, size, channels); the result has the same shape.
    """

    def build(self, input_shape):
        self.scale = self.add_weight(name="scale", shape=(input_shape[-1],), initializer="ones")

    def call(self, values, keep=None):
        """Normalize `values`; with `keep` (rows, size, 1), 1 on clips, the result is 0 elsewhere, at no cost."""
        if keep is None:
            return _scaled_norm(values, self.scale)
        return _masked_norm(values, self.scale, keep)


@keras.saving.register_keras_serializable("myxtts")
class MaskedConv1D(keras.layers.Layer):
    """SiLU of a convolution over time whose input is masked: (rows, size, channels) → (rows, size, filters).

    Args:
        filters: channels of the result.
        kernel_size: taps, odd.
        dilation: positions between two taps.
    """

    def __init__(self, filters: int, kernel_size: int = 3, dilation: int = 1, **kwargs):
        super().__init__(**kwargs)
        self.filters = filters
        self.kernel_size = kernel_size
        self.dilation = dilation

    def build(self, input_shape):
        shape = (self.kernel_size, input_shape[-1], self.filters)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer="glorot_uniform")
        self.bias = self.add_weight(name="bias", shape=(self.filters,), initializer="zeros")

    def call(self, values, keep=None):
        """Convolve `values` (rows, size, channels), which are first set to 0 where `keep` (rows, size, 1) is 0.

        Without `keep`, `values` must already be 0 outside clips. (The name `mask` has another meaning in Keras.)
        """
        if keep is not None:
            values *= tf.cast(keep, values.dtype)
        kernel, bias = tf.cast(self.kernel, values.dtype), tf.cast(self.bias, values.dtype)
        return biased_silu(convolve(values, kernel, self.dilation), bias)

    def get_config(self):
        own = {"filters": self.filters, "kernel_size": self.kernel_size, "dilation": self.dilation}
        return super().get_config() | own


@fused_by_xla
def biased_silu(values, bias):
    """SiLU of values + bias: (rows, size, channels) and (channels,)."""
    biased = values + bias
    return biased * tf.sigmoid(biased)


class AttentionContext(NamedTuple):
    """Tensors shared by all attention layers over the same rows."""

    cosine: tf.Tensor
    """(rows, 1, size, head_channels / 2): rotary position embedding; positions restart at each clip."""
    sine: tf.Tensor
    """The same shape."""
    bias: tf.Tensor
    """(rows, 1, size, size): 0 within a clip, -1e9 elsewhere. Finite, so that the softmax of a padding position is not NaN."""


def attention_context(layout: RowLayout, head_channels: int) -> AttentionContext:
    """The context of a layout, computed once for all layers.

    Args:
        layout: where the clips are in the rows.
        head_channels: channels of one attention head, even.
    """
    frequencies = 10000.0 ** (-2 * tf.range(head_channels // 2, dtype=tf.float32) / head_channels)
    angles = tf.cast(layout.positions, tf.float32)[:, tf.newaxis, :, tf.newaxis] * frequencies
    bias = tf.where(layout.same_clip(layout)[:, tf.newaxis], 0.0, -1e9)
    return AttentionContext(tf.cos(angles), tf.sin(angles), bias)


@keras.saving.register_keras_serializable("myxtts")
class ClipAttention(keras.layers.Layer):
    """Multi-head self-attention within each clip, with rotary position embedding (RoFormer, arXiv 2104.09864).

    Args:
        heads: attention heads; the channels must be a multiple of twice this number.

    Call with values (rows, size, channels) and the `AttentionContext` of the rows; the result has the shape of the values.
    """

    def __init__(self, heads: int, **kwargs):
        super().__init__(autocast=False, **kwargs)  # the context stays float32: -1e9 is infinite in float16
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

    def call(self, values, context: AttentionContext):
        rows, size, channels = values.shape
        projected = tf.reshape(self.query_key_value(values), (rows, size, 3, self.heads, self.head_channels))
        query, key, value = tf.unstack(tf.transpose(projected, (2, 0, 3, 1, 4)))
        scale = self.head_channels**-0.5
        query = rotate(query, context.cosine * scale, context.sine * scale)
        key = rotate(key, context.cosine, context.sine)
        scores = tf.cast(tf.matmul(query, key, transpose_b=True), tf.float32) + context.bias
        mixed = tf.matmul(tf.cast(tf.nn.softmax(scores), value.dtype), value)
        return self.output_projection(tf.reshape(tf.transpose(mixed, (0, 2, 1, 3)), (rows, size, channels)))

    def get_config(self):
        return super().get_config() | {"heads": self.heads}


def rotate(values: tf.Tensor, cosine: tf.Tensor, sine: tf.Tensor) -> tf.Tensor:
    """Rotate pairs of channels of `values` (rows, heads, size, channels) by the angles of their positions."""
    first, second = tf.split(values, 2, axis=-1)
    cosine, sine = tf.cast(cosine, values.dtype), tf.cast(sine, values.dtype)
    return tf.concat([first * cosine - second * sine, first * sine + second * cosine], axis=-1)
