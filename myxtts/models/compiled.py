"""Parts of a step that XLA compiles on every device, also where the step as a whole is not compiled."""

from __future__ import annotations

import functools
from collections.abc import Callable

import tensorflow as tf


def compiled_by_xla(function: Callable) -> Callable:
    """Compile a function of tensors, once for each set of static shapes.

    Calls the concrete function of the shapes. A call of the traced function would do the same, and TensorFlow would accuse a
    network whose layers have five widths of retracing.
    """
    traced = tf.function(function, jit_compile=True, autograph=False)

    @functools.wraps(function)
    def call(*tensors):
        return traced.get_concrete_function(*tensors)(*tensors)

    return call
