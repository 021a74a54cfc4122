"""Hooks into what calls Python from a graph: `py_function`, `numpy_function`, generators of datasets, `tf.print`."""

from __future__ import annotations

import functools
import time
from typing import Any

from myxtts.diagnostics.observe.recording import PipelineCall, TimedEvent
from myxtts.diagnostics.observe.source_lines import SourceLocation, caller_location, code_of, is_user_code

clock = time.perf_counter


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


def install(watcher: Any, patches: Any) -> None:
    """Install the hooks into Python functions and `tf.print`."""
    import tensorflow as tf
    from tensorflow.python.ops import script_ops

    hooks = PythonHooks(watcher)
    patches.replace(script_ops, "_internal_py_func", hooks.watch_python_function)
    patches.replace(tf, "print", hooks.watch_print)
