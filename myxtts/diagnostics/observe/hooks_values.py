"""Hooks into what fetches the value of a tensor, so that the host waits for the device: its methods and NumPy's functions.

NumPy reads the memory of an eager tensor by the buffer protocol, which cannot be hooked: `np.mean(loss)` fetches the value
without calling TensorFlow. So NumPy's usual functions are hooked.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from myxtts.diagnostics.observe.recording import TimedEvent
from myxtts.diagnostics.observe.source_lines import is_called_by_framework, is_called_by_keras, location_of

clock = time.perf_counter
_METHODS = ("numpy", "__float__", "__int__", "__index__", "__bool__", "__array__", "__format__", "__str__", "__repr__")
_WHOLE_VALUES = ("numpy", "__array__", "np.asarray", "np.array")
"""Fetches that count even if a framework makes them on the user's call; what decides a branch inside Keras does not."""
_NUMPY_FUNCTIONS = (
    "asarray", "array", "asanyarray", "ascontiguousarray", "copy", "mean", "sum", "prod", "min", "max", "amin", "amax", "std",
    "var", "median", "average", "percentile", "argmax", "argmin", "any", "all", "allclose", "array_equal", "stack", "vstack",
    "hstack", "concatenate", "append", "nanmean", "squeeze", "ravel", "round", "isnan", "isinf", "isfinite",
)  # fmt: skip


class _Watched:
    """A NumPy function or ufunc, called through; everything else of it is its own."""

    def __init__(self, original: Any, tensor: type, note: Any):
        self._original, self._tensor, self._note = original, tensor, note

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for value in args:
            kind = type(value)
            if kind is self._tensor or (kind in (list, tuple) and self._holds_tensor(value)):
                return self._note(self._original, args, kwargs)
        return self._original(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def _holds_tensor(self, values: list | tuple) -> bool:
        return any(type(part) is self._tensor for part in values[:8])


def install(watcher: Any, patches: Any) -> None:
    """Install the hooks; those into NumPy unless Numba is loaded, which compiles calls of NumPy's own functions only."""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import resource_variable_ops

    def watch_method(original: Any) -> Any:
        def watched(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if not watcher.is_watched():
                return original(tensor, *args, **kwargs)
            return timed(original, original.__name__, (tensor, *args), kwargs)

        return watched

    def watch_function(original: Any, args: tuple, kwargs: dict) -> Any:
        if not watcher.is_watched():
            return original(*args, **kwargs)
        return timed(original, f"np.{original.__name__}", args, kwargs, depth=3)

    def timed(original: Any, label: str, args: tuple, kwargs: dict, depth: int = 2) -> Any:
        watcher.depth += 1
        start = clock()
        try:
            return original(*args, **kwargs)
        finally:
            end = clock()
            watcher.depth -= 1
            note_fetch(watcher, start, end, label, sys._getframe(depth))

    for method in _METHODS:
        patches.replace(ops.EagerTensor.__mro__[1], method, watch_method)
    patches.replace(resource_variable_ops.BaseResourceVariable, "numpy", watch_method)
    if "numba" in sys.modules:
        watcher.recording.failed_hooks.append("NumPy's functions on tensors (Numba is loaded)")
        return
    import numpy as np

    for name in _NUMPY_FUNCTIONS:
        patches.replace(np, name, lambda original: _Watched(original, ops.EagerTensor, watch_function))


def note_fetch(watcher: Any, start: float, end: float, label: str, frame: Any) -> None:
    """A value was fetched. What Keras fetches for itself in `fit` is not the user's code; `get_weights()` is."""
    location = location_of(frame)
    is_asked_for = not is_called_by_framework(frame) or (
        label in _WHOLE_VALUES and is_called_by_keras(frame) and location not in watcher.keras_calls
    )
    if is_asked_for:
        watcher.recording.add(watcher.recording.syncs, TimedEvent(start, end, location, label))
    watcher.own_spans.append((end, clock()))
