"""Dilated convolution over time, on every processor.

TensorFlow has a gradient for dilated convolutions on GPUs, under XLA and in oneDNN. Its own CPU kernels have none ("Current CPU
implementations do not yet support dilation rates larger than 1"), and TensorFlow switches oneDNN on by itself only for
processors with AVX512-VNNI, AVX-VNNI or AMX. `import myxtts` therefore asks for oneDNN; where it is missing or off (ARM,
`TF_ENABLE_ONEDNN_OPTS=0`, TensorFlow imported first), the same convolution is one matrix product over shifted copies of its
input. Measured on two AVX2 cores, (5, 800, 192) → 384 channels, kernel 3, forward and backward: oneDNN 32 ms, the product 34 ms
without oneDNN and 37 ms with it; three products and TensorFlow's own gradient 50 ms; folding the dilation into the batch 39 ms.
"""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

NATIVE = "native"
"""TensorFlow's convolution: oneDNN, cuDNN."""
MATMUL = "matmul"
"""One matrix product over shifted copies: runs wherever a matrix product does."""

DESCRIPTIONS = {
    NATIVE: "native (TensorFlow's own)",
    MATMUL: "matmul (TensorFlow has no gradient of a dilated convolution here: oneDNN is off or missing)",
}


def convolve(values: tf.Tensor, kernel: tf.Tensor, dilation: int) -> tf.Tensor:
    """Convolution over time with zeros beyond both ends.

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
    """How this process convolves: `NATIVE` if the gradient of a small dilated convolution runs on its device, else `MATMUL`.

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
