"""Hooks into where TensorFlow and Python meet.

A graph or a dataset calls Python: `py_function`, `numpy_function`, generators of datasets, `tf.print`. And Python fetches the
value of a tensor, so that the host waits for the device: by the tensor's methods, or by NumPy. NumPy reads the memory of an eager
tensor by the buffer protocol, which cannot be hooked (`np.mean(loss)` does not call TensorFlow), so NumPy's usual functions are.
"""

from __future__ import annotations

import functools
import sys
import time
from typing import Any

from myxtts.diagnostics.observe.recording import PipelineCall, TimedEvent
from myxtts.diagnostics.observe.source_lines import (
    SourceLocation,
    caller_location,
    code_of,
    is_called_by_framework,
    is_called_by_keras,
    is_user_code,
    location_of,
)

clock = time.perf_counter
_METHODS = ("numpy", "__float__", "__int__", "__index__", "__bool__", "__array__", "__format__", "__str__", "__repr__")
_WHOLE_VALUES = ("numpy", "__array__", "np.asarray", "np.array")
"""Fetches that count even if a framework makes them on the user's call; what decides a branch inside Keras does not."""
_NUMPY_FUNCTIONS = (
    "asarray", "array", "asanyarray", "ascontiguousarray", "copy", "mean", "sum", "prod", "min", "max", "amin", "amax", "std",
    "var", "median", "average", "percentile", "argmax", "argmin", "any", "all", "allclose", "array_equal", "stack", "vstack",
    "hstack", "concatenate", "append", "nanmean", "squeeze", "ravel", "round", "isnan", "isinf", "isfinite",
)  # fmt: skip


class PythonHooks:
    """The hooks into Python functions of graphs and datasets."""

    def __init__(self, watcher: Any):
        self.watcher = watcher
        self.recording = watcher.recording

    def watch_python_function(self, original: Any) -> Any:
        def watched(func: Any, *args: Any, **kwargs: Any) -> Any:
            is_eager = kwargs.get("use_eager_py_func", kwargs.get("eager", False))
            now, location = clock(), caller_location()
            label = "py_function" if is_eager else "numpy_function"
            self.recording.add(self.recording.python_functions, TimedEvent(now, now, location, label))
            code = code_of(func)
            is_users = code is not None and is_user_code(code.co_filename)
            if self.watcher.data.is_tracing_dataset:  # a generator is called by a function of TensorFlow's own
                return original(self._timed_in_pipeline(func), *args, **kwargs)
            if not is_users or self.watcher.executing_eagerly() or kwargs.get("is_grad_func"):
                return original(func, *args, **kwargs)
            return original(self._timed_python(func, location, label), *args, **kwargs)

        return watched

    def _timed_python(self, function: Any, location: SourceLocation, label: str) -> Any:
        """The same function, whose calls from inside the graph are timed."""

        @functools.wraps(function)
        def timed(*args: Any) -> Any:
            start = clock()
            try:
                return function(*args)
            finally:
                if not self.watcher.is_removed:
                    event = TimedEvent(start, clock(), location, label)
                    self.recording.add(self.recording.python_in_graphs, event)

        return timed

    def _timed_in_pipeline(self, function: Any) -> Any:
        """The same function, whose calls from inside a dataset are recorded with their processor time."""

        @functools.wraps(function)
        def timed(*args: Any) -> Any:
            start, before = clock(), time.thread_time()
            try:
                return function(*args)
            finally:
                if not self.watcher.is_removed:
                    call = PipelineCall(start, time.thread_time() - before)
                    self.recording.add(self.recording.pipeline_python, call)

        return timed

    def watch_print(self, original: Any) -> Any:
        def watched(*inputs: Any, **kwargs: Any) -> Any:
            if not self.watcher.executing_eagerly() and not self.watcher.data.is_tracing_dataset:
                now = clock()
                shapes = [f"{value.dtype.name} {value.shape}" for value in inputs if hasattr(value, "dtype")]
                event = TimedEvent(now, now, caller_location(), ", ".join(shapes))
                self.recording.add(self.recording.graph_prints, event)
            return original(*inputs, **kwargs)

        return watched


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
    """Install the hooks into Python functions, `tf.print` and fetched values."""
    import tensorflow as tf
    from tensorflow.python.ops import script_ops

    hooks = PythonHooks(watcher)
    patches.replace(script_ops, "_internal_py_func", hooks.watch_python_function)
    patches.replace(tf, "print", hooks.watch_print)
    _install_fetches(watcher, patches)


def _install_fetches(watcher: Any, patches: Any) -> None:
    """Those into NumPy unless Numba is loaded, which compiles calls of NumPy's own functions only."""
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
