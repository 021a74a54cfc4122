"""Observes TensorFlow and Keras at work: installs hooks into both, records their calls in a `Recording`, removes the hooks.

A hook costs a microsecond or two, which is recorded as the observation's own time. Only calls from the training thread that are
not inside another observed call are recorded: what a graph, a data pipeline or Keras does internally is not the user's code.
"""

from __future__ import annotations

import sys
import threading
import time
from types import FunctionType
from typing import Any

from myxtts.diagnostics.observe import (
    hooks_data,
    hooks_graphs,
    hooks_keras,
    hooks_python,
)
from myxtts.diagnostics.observe.growth import GrowthWatch
from myxtts.diagnostics.observe.recording import (
    MOST_OPERATIONS,
    Recording,
    TimedEvent,
)
from myxtts.diagnostics.observe.sampler import LineSampler, LoadMeter
from myxtts.diagnostics.observe.source_lines import (
    SourceLocation,
    caller_location,
)
from myxtts.runtime.tensorflow_counters import (
    BYTES_FETCHED,
    ITERATOR_BUSY_MICROSECONDS,
    XLA_COMPILATION_MICROSECONDS,
    XLA_COMPILATIONS,
    find_counter,
    why_unavailable,
)

clock = time.perf_counter
_ABSENT = object()


class PatchSet:
    """Replaces attributes of modules and classes, and puts every one back."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._replaced: list[tuple[Any, str, Any]] = []

    def replace(self, owner: Any, name: str, make_replacement: Any) -> None:
        """Set `owner.name` to `make_replacement(original)`; what this version does not have is noted and left out."""
        if not hasattr(owner, name):
            self._recording.failed_hooks.append(f"{getattr(owner, '__name__', owner)}.{name}")
            return
        original = getattr(owner, name)
        self._replaced.append((owner, name, vars(owner).get(name, _ABSENT)))
        replacement = make_replacement(original)
        if isinstance(original, FunctionType) and isinstance(replacement, FunctionType):
            for attribute in ("__name__", "__qualname__", "__doc__"):
                setattr(replacement, attribute, getattr(original, attribute))
        setattr(owner, name, replacement)

    def restore(self, only: Any = None) -> None:
        """Everything as it was, last replaced first; or only the attributes of one owner."""
        for entry in list(reversed(self._replaced)):
            owner, name, original = entry
            if only is not None and owner is not only:
                continue
            self._replaced.remove(entry)
            if original is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, original)


class Instrumentation:
    """The hooks of one observation. `install` and `remove` may be called once each, from the thread that trains."""

    def __init__(self, sample_lines: bool = True, steps_limit: int | None = None, use_counters: bool = True):
        self.recording = Recording(steps_limit=steps_limit)
        self.depth = 0
        """How many observed calls are open in the training thread."""
        self.keras_calls: list[SourceLocation] = []
        """Where `fit`, `evaluate`, `predict` or `train_on_batch` were called that are running now."""
        self.own_spans: list[tuple[float, float]] = self.recording.own_spans
        self._patches = PatchSet(self.recording)
        self._threads = {threading.get_ident()}
        self._sampler = LineSampler(self.recording, threading.get_ident()) if sample_lines else None
        self._load: LoadMeter | None = None
        self._growth = GrowthWatch(self.recording)
        self._open_calls: dict[int, list[str]] = {}
        self._steps_seen = 0
        self.is_removed = False
        self.data: Any = None
        self._use_counters = use_counters
        self.count_compilations = self.count_compile_time = self.count_wait_time = self.count_bytes = _zero

    def install(self) -> Recording:
        """Start observing TensorFlow and Keras; both are imported here at the latest."""
        self.begin()
        self.install_tensorflow()
        self.install_keras()
        return self.recording

    def begin(self) -> None:
        """Start the clock, and sample lines: also what comes before TensorFlow's import belongs to the run."""
        self._load = LoadMeter()
        self.recording.started_at = clock()
        if self._sampler is not None:
            self._sampler.start()

    def install_keras(self) -> None:
        """Start observing Keras, once it is completely imported; only on TensorFlow."""
        start = clock()
        hooks_keras.install(self, self._patches)
        self.own_spans.append((start, clock()))

    def install_tensorflow(self) -> None:
        """Start observing TensorFlow, once it is completely imported."""
        start = clock()
        import tensorflow as tf
        from tensorflow.python import pywrap_tfe
        from tensorflow.python.distribute import mirrored_run
        from tensorflow.python.eager import backprop
        from tensorflow.python.ops import resource_variable_ops

        self.executing_eagerly = tf.executing_eagerly
        self._find_counters()
        replace = self._patches.replace
        replace(resource_variable_ops.BaseResourceVariable, "__init__", self._watch_variable)
        replace(backprop.GradientTape, "gradient", self.watch_event(self.recording.gradients, "tape.gradient"))
        replace(pywrap_tfe, "TFE_Py_FastPathExecute", self._watch_operation)
        replace(pywrap_tfe, "TFE_Py_Execute", self._watch_operation)
        replace(tf.config, "run_functions_eagerly", self._watch_eager_switch)
        replace(mirrored_run._MirroredReplicaThread, "run", self._watch_replica)
        for owner, method in ((tf.train.Checkpoint, "save"), (tf.train.Checkpoint, "write"),
                              (tf.train.CheckpointManager, "save"), (tf.saved_model, "save")):  # fmt: skip
            replace(owner, method, self.watch_outermost(self.recording.checkpoints, f"{owner.__name__}.{method}"))
        for hooks in (hooks_graphs, hooks_data, hooks_python):
            hooks.install(self, self._patches)
        self.own_spans.append((start, clock()))

    def _find_counters(self) -> None:
        if not self._use_counters:
            self.recording.counters_missing = "TensorFlow's internal counters are switched off."
            return
        self.count_compilations = find_counter(XLA_COMPILATIONS) or _zero
        self.count_compile_time = find_counter(XLA_COMPILATION_MICROSECONDS) or _zero
        self.count_wait_time = find_counter(ITERATOR_BUSY_MICROSECONDS) or _zero
        self.count_bytes = find_counter(BYTES_FETCHED) or _zero
        self.recording.counters_missing = why_unavailable()

    def release_numpy(self) -> None:
        """Remove the hooks into NumPy: Numba compiles calls of NumPy's own functions only."""
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            self._patches.restore(only=numpy)
            self.recording.failed_hooks.append("NumPy's functions on tensors (Numba is loaded)")

    def remove(self) -> Recording:
        """Stop observing; TensorFlow and Keras are as they were. Nothing happens at a second call."""
        if self.is_removed:
            return self.recording
        self.is_removed = True
        self.recording.ended_at = clock()
        self._growth.stop()
        self._patches.restore()
        if self._sampler is not None:
            self._sampler.stop()
        if self.recording.operation_ends:
            self.recording.operation_hook_seconds = _operation_hook_seconds()
        self.recording.machine_load = self._load.read() if self._load is not None else None
        self.recording.has_accelerator = _has_accelerator()
        return self.recording

    def abandon(self) -> None:
        """Remove the hooks in a forked process; the sampler's thread does not exist there."""
        self.is_removed = True
        self._growth.stop()
        self._threads.clear()
        self._patches.restore()
        if self._sampler is not None:
            self._sampler.restore_switching()

    def is_watched(self) -> bool:
        """Whether the current call is one to record: the training thread, outside of other observed calls."""
        return self.depth == 0 and threading.get_ident() in self._threads

    def on_thread(self) -> bool:
        """Whether the current thread is the one that trains."""
        return threading.get_ident() in self._threads

    def count_step(self) -> None:
        """A step ended: after the last one that was asked for, the script is left alone."""
        self._steps_seen += 1
        self._growth.at_step_end(self._steps_seen)
        limit = self.recording.steps_limit
        if limit is not None and self._steps_seen >= limit:
            self.remove()

    def adopts_thread(self) -> bool:
        """A script may train in a thread of its own: the first one that calls a function is the training thread."""
        if self.depth or self.recording.calls or threading.current_thread() is threading.main_thread():
            return False
        if isinstance(threading.current_thread(), threading._DummyThread):  # one of TensorFlow's own
            return False
        self._threads.add(threading.get_ident())
        if self._sampler is not None:
            self._sampler.watched_thread = threading.get_ident()
        return True

    def _watch_variable(self, original: Any) -> Any:
        from tensorflow.python.ops.resource_variable_ops import _UnreadVariable

        def watched(variable: Any, *args: Any, **kwargs: Any) -> None:
            start = clock()
            original(variable, *args, **kwargs)
            is_result_of_assign = isinstance(variable, _UnreadVariable)
            if threading.get_ident() in self._threads and not is_result_of_assign:
                name = str(kwargs.get("name") or kwargs.get("handle_name") or "Variable")
                self.recording.add(self.recording.variables, TimedEvent(start, clock(), caller_location(), name))

        return watched

    def watch_event(self, records: list, label: str) -> Any:
        """Record each call outside of graphs and other observed calls."""

        def make(original: Any) -> Any:
            def watched(*args: Any, **kwargs: Any) -> Any:
                if not self.is_watched() or not self.executing_eagerly():
                    return original(*args, **kwargs)
                start = clock()
                try:
                    return original(*args, **kwargs)
                finally:
                    end = clock()
                    self.recording.add(records, TimedEvent(start, end, caller_location(), label))
                    self.own_spans.append((end, clock()))
                    if records is self.recording.updates and not self.keras_calls:
                        self.count_step()

            return watched

        return make

    def watch_outermost(self, records: list, label: str) -> Any:
        """Record each call of the training thread that is not inside another one of the same kind."""
        open_calls: list[str] = self._open_calls.setdefault(id(records), [])

        def make(original: Any) -> Any:
            def watched(*args: Any, **kwargs: Any) -> Any:
                if open_calls or not self.on_thread():
                    return original(*args, **kwargs)
                open_calls.append(label)
                start = clock()
                try:
                    return original(*args, **kwargs)
                finally:
                    open_calls.pop()
                    end = clock()
                    self.recording.add(records, TimedEvent(start, end, caller_location(), label))
                    self.own_spans.append((end, clock()))

            return watched

        return make

    def _watch_operation(self, original: Any) -> Any:
        threads, recording = self._threads, self.recording
        starts, ends = recording.operation_starts, recording.operation_ends
        current_thread = threading.get_ident

        def watched(*args: Any) -> Any:
            if self.depth or current_thread() not in threads or len(starts) >= MOST_OPERATIONS:
                return original(*args)
            start = clock()
            result = original(*args)
            starts.append(start)
            ends.append(clock())
            return result

        return watched

    def _watch_eager_switch(self, original: Any) -> Any:
        def watched(run_eagerly: bool) -> None:
            original(run_eagerly)
            if run_eagerly:
                now = clock()
                event = TimedEvent(now, now, caller_location(), "tf.config.run_functions_eagerly(True)")
                self.recording.add(self.recording.eager_switches, event)

        return watched

    def _watch_replica(self, original: Any) -> Any:
        """`strategy.run` outside of a tf.function runs each replica in a thread: its operations count as well."""

        def watched(thread: Any) -> Any:
            self._threads.add(threading.get_ident())
            try:
                return original(thread)
            finally:
                self._threads.discard(threading.get_ident())

        return watched


def _zero() -> int:
    return 0


def _operation_hook_seconds() -> float:
    """What the hook adds to each operation: the fastest of a few rounds, with and without it, on one that does nothing."""

    def nothing(*args: Any) -> None:
        pass

    def fastest(function: Any) -> float:
        rounds = []
        for _ in range(5):
            start = clock()
            for _ in range(400):
                function(None)
            rounds.append((clock() - start) / 400)
        return min(rounds)

    watched = Instrumentation(sample_lines=False)._watch_operation(nothing)
    return max(fastest(watched) - fastest(nothing), 0.0)


def _has_accelerator() -> bool:
    """Whether TensorFlow, if it is loaded, has another device than the CPU."""
    tensorflow: Any = sys.modules.get("tensorflow")
    if not hasattr(tensorflow, "config"):
        return False
    return any(device.device_type != "CPU" for device in tensorflow.config.list_physical_devices())
