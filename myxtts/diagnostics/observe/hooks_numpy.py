"""Hooks into NumPy's functions for calls with tensors: `np.mean(loss)` fetches the value without calling TensorFlow.

NumPy reads the memory of an eager tensor by the buffer protocol, which cannot be hooked; so the usual functions are.
"""

from __future__ import annotations

import sys
import time
from typing import Any

clock = time.perf_counter
_FUNCTIONS = (
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
    """Install the hooks into NumPy, unless Numba is loaded: it compiles calls of NumPy's own functions only."""
    if "numba" in sys.modules:
        watcher.recording.failed_hooks.append("NumPy's functions on tensors (Numba is loaded)")
        return
    import numpy as np
    from tensorflow.python.framework import ops

    def note(original: Any, args: tuple, kwargs: dict) -> Any:
        if not watcher.is_watched():
            return original(*args, **kwargs)
        watcher.depth += 1
        start = clock()
        try:
            return original(*args, **kwargs)
        finally:
            end = clock()
            watcher.depth -= 1
            watcher.note_fetch(start, end, f"np.{original.__name__}", sys._getframe(2))

    for name in _FUNCTIONS:
        patches.replace(np, name, lambda original: _Watched(original, ops.EagerTensor, note))
