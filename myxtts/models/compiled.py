"""Parts of a step that XLA compiles on every device, also where the step as a whole is not compiled."""

from __future__ import annotations

import functools
from collections.abc import Callable

import tensorflow as tf

_is_allowed = True


def allow_xla(is_allowed: bool) -> None:
    """Whether functions that are traced from now on in this process are compiled; else TensorFlow runs them as graphs."""
    global _is_allowed
    _is_allowed = is_allowed


def compiled_by_xla(function: Callable) -> Callable:
    """Compile a function of tensors, once for each set of static shapes, where XLA is allowed.

    Calls the concrete function of the shapes. A call of the traced function would do the same, and TensorFlow would accuse a
    network whose layers have five widths of retracing.
    """
    compiled = tf.function(function, jit_compile=True, autograph=False)
    plain = tf.function(function, autograph=False)

    @functools.wraps(function)
    def call(*tensors):
        traced = compiled if _is_allowed else plain
        return traced.get_concrete_function(*tensors)(*tensors)

    return call
