"""Watches TensorFlow and Keras at work: installs hooks into both, writes what they see into a `Recording`, removes them.

A hook costs a microsecond or two, and only calls from the watched thread that are not inside another watched call are
recorded: what a graph, a data pipeline or Keras does for itself is not the user's doing. The hooks change nothing else.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import time
import weakref
from collections.abc import Hashable
from types import FunctionType
from typing import Any

from myxtts.diagnostics.observe import hooks_data as instrument_data
from myxtts.diagnostics.observe import hooks_keras as instrument_keras
from myxtts.diagnostics.observe import hooks_numpy as instrument_numpy
from myxtts.diagnostics.observe.recording import FunctionCall, FunctionRecord, Recording, TimedEvent
from myxtts.diagnostics.observe.sampler import LineSampler
from myxtts.diagnostics.observe.source_lines import (
    SourceLocation,
    caller_location,
    code_of,
    is_called_by_framework,
    is_called_by_keras,
    is_user_code,
    location_of,
    location_of_code,
)
from myxtts.runtime.machine import accelerators
from myxtts.runtime.signatures import argument_names, signature_of
from myxtts.runtime.tensorflow_counters import (
    BYTES_FETCHED,
    ITERATOR_BUSY_MICROSECONDS,
    XLA_COMPILATION_MICROSECONDS,
    XLA_COMPILATIONS,
    find_counter,
    why_unavailable,
)

# MERGED: Replaces attributes of modules and classes for a while and puts every one back.

_ABSENT = object()


class PatchSet:
    """Attributes that were replaced, and what they were."""

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, str, Any]] = []

    def replace(self, owner: Any, name: str, make_replacement: Any) -> None:
        """Set `owner.name` to `make_replacement(original)`."""
        original = getattr(owner, name)
        self._replaced.append((owner, name, vars(owner).get(name, _ABSENT)))
        replacement = make_replacement(original)
        if isinstance(original, FunctionType) and isinstance(replacement, FunctionType):
            for attribute in ("__name__", "__qualname__", "__doc__"):
                setattr(replacement, attribute, getattr(original, attribute))
        setattr(owner, name, replacement)

    def restore(self) -> None:
        """Everything as it was, last replaced first."""
        while self._replaced:
            owner, name, original = self._replaced.pop()
            if original is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, original)


clock = time.perf_counter
_FETCHING_METHODS = (
    "numpy",
    "__float__",
    "__int__",
    "__index__",
    "__bool__",
    "__array__",
    "__format__",
    "__str__",
    "__repr__",
)
_WHOLE_VALUES = ("numpy", "__array__", "np.asarray", "np.array")
"""Fetches that count even if a framework makes them on the user's call; what decides a branch inside Keras does not."""


def _zero() -> int:
    return 0


class Instrumentation:
    """The hooks of one observation. `install` and `remove` may be called once each, from the thread that trains."""

    def __init__(self, sample_lines: bool = True):
        self.recording = Recording()
        self.depth = 0
        """How many watched calls are open in the watched thread."""
        self.keras_calls: list[SourceLocation] = []
        """Where `fit`, `evaluate`, `predict` or `train_on_batch` were called that are running now."""
        self._patches = PatchSet()
        self._thread = threading.get_ident()
        self._sampler = LineSampler(self.recording, self._thread) if sample_lines else None
        self._functions: dict[int, tuple[weakref.ref, FunctionRecord]] = {}
        self._object_tokens: dict[int, tuple[Any, Hashable]] = {}
        self._next_token = itertools.count()
        self.own_spans: list[tuple[float, float]] = self.recording.own_spans

    def install(self) -> Recording:
        """Start watching TensorFlow and Keras; both are imported here at the latest."""
        self.install_tensorflow()
        self.install_keras()
        return self.recording

    def install_keras(self) -> None:
        """Start watching Keras, once it is completely imported."""
        instrument_keras.install(self, self._patches.replace)

    def install_tensorflow(self) -> None:
        """Start watching TensorFlow, once it is completely imported."""
        import tensorflow as tf
        from tensorflow.python import pywrap_tfe
        from tensorflow.python.eager import backprop
        from tensorflow.python.eager.polymorphic_function import polymorphic_function
        from tensorflow.python.framework import ops
        from tensorflow.python.ops import resource_variable_ops, script_ops

        self.executing_eagerly = tf.executing_eagerly
        self.count_compilations = find_counter(XLA_COMPILATIONS) or _zero
        self.count_compile_time = find_counter(XLA_COMPILATION_MICROSECONDS) or _zero
        self.count_wait_time = find_counter(ITERATOR_BUSY_MICROSECONDS) or _zero
        self.count_bytes = find_counter(BYTES_FETCHED) or _zero
        self.recording.counters_missing = why_unavailable()
        replace = self._patches.replace
        replace(polymorphic_function.Function, "__init__", self._watch_creation)
        replace(polymorphic_function.Function, "__call__", self._watch_call)
        for method in _FETCHING_METHODS:
            replace(ops.EagerTensor.__mro__[1], method, self._watch_fetch)
        replace(resource_variable_ops.BaseResourceVariable, "numpy", self._watch_fetch)
        replace(resource_variable_ops.BaseResourceVariable, "__init__", self._watch_variable)
        replace(backprop.GradientTape, "gradient", self.watch_span(self.recording.gradients, "tape.gradient"))
        replace(script_ops, "_internal_py_func", self._watch_python_function)
        replace(pywrap_tfe, "TFE_Py_FastPathExecute", self._watch_operation)
        replace(pywrap_tfe, "TFE_Py_Execute", self._watch_operation)
        replace(tf.config, "run_functions_eagerly", self._watch_eager_switch)
        instrument_data.install(self, replace)
        instrument_numpy.install(self, replace)
        self.recording.started_at = clock()
        if self._sampler is not None:
            self._sampler.start()

    def remove(self) -> Recording:
        """Stop watching; TensorFlow and Keras are as they were."""
        self.recording.ended_at = clock()
        self.recording.has_accelerator = bool(accelerators())
        self._patches.restore()
        if self._sampler is not None:
            self._sampler.stop()
        return self.recording

    def is_watched(self) -> bool:
        """Whether the current call is one to record: the training thread, outside of other watched calls."""
        return self.depth == 0 and threading.get_ident() == self._thread

    def on_thread(self) -> bool:
        """Whether the current thread is the one that trains."""
        return threading.get_ident() == self._thread

    def object_key(self, value: Any) -> Hashable:
        """A key that tells a new object from an old one, even if it got the old one's address."""
        known = self._object_tokens.get(id(value))
        if known is not None and known[0]() is value:
            return known[1]
        spec = getattr(value, "element_spec", None)
        token: Hashable = str(spec) if spec is not None else next(self._next_token)
        with contextlib.suppress(
            TypeError
        ):  # only a weak reference: TensorFlow asks whether earlier objects still live
            self._object_tokens[id(value)] = (weakref.ref(value), token)
        return token

    # Functions

    def _watch_creation(self, original: Any) -> Any:
        def watched(function: Any, *args: Any, **kwargs: Any) -> None:
            original(function, *args, **kwargs)
            if threading.get_ident() == self._thread:
                self.record_of(function, is_creation=True)

        return watched

    def record_of(self, function: Any, is_creation: bool = False) -> FunctionRecord:
        """The record of a `tf.function`, made at its creation or, if that was before, at its first call."""
        known = self._functions.get(id(function))
        if known is not None and known[0]() is function:
            return known[1]
        code = code_of(_unwrapped(function._python_function))
        location = caller_location() if is_creation else location_of_code(code)
        parameters = function._function_type.parameters
        record = FunctionRecord(
            index=len(self.recording.functions),
            name=code.co_name if code is not None else str(function._name),
            definition=location_of_code(code),
            creation=location,
            created_at=clock() if is_creation else self.recording.started_at,
            is_jit=bool(function._jit_compile),
            has_signature=function.input_signature is not None,
            argument_names=tuple(parameters),
            is_user=code is None or is_user_code(code.co_filename),
        )
        self.recording.functions.append(record)
        self._functions[id(function)] = (weakref.ref(function), record)
        return record

    def _watch_call(self, original: Any) -> Any:
        def watched(function: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.is_watched() or not self.executing_eagerly() or function._run_functions_eagerly:
                return original(function, *args, **kwargs)
            self.recording.last_step = None
            record = self.record_of(function)
            traces = function.experimental_get_tracing_count()
            compilations, compile_time = self.count_compilations(), self.count_compile_time()
            waited, fetched = self.count_wait_time(), self.count_bytes()
            self.depth += 1
            start = clock()
            try:
                return original(function, *args, **kwargs)
            finally:
                end = clock()
                self.depth -= 1
                new_traces = function.experimental_get_tracing_count() - traces
                signature = signature_of((args, kwargs), self.object_key)
                call = FunctionCall(
                    record.index,
                    start,
                    end,
                    new_traces,
                    self.count_compilations() - compilations,
                    (self.count_compile_time() - compile_time) / 1e6,
                    min((self.count_wait_time() - waited) / 1e6, end - start),
                    self.count_bytes() - fetched,
                    record.index_of(signature),
                )
                self.recording.add(self.recording.calls, call)
                if new_traces:
                    self._note_trace(function, record, signature, args, kwargs)
                if record.updates_variables and all(entry[0] != "object" for entry in signature):
                    self.recording.last_step = (function, args, kwargs)

        return watched

    def _note_trace(self, function: Any, record: FunctionRecord, signature: tuple, args: tuple, kwargs: dict) -> None:
        if len(record.traced_signatures) < 1000:
            start = clock()
            record.traced_signatures.append(signature)
            named = dict(zip(record.argument_names, args, strict=False))
            named.update({f"{index}": value for index, value in enumerate(args) if index >= len(named)})
            record.traced_names.append(argument_names({**named, **kwargs}))
            record.call_locations.append(location_of(sys._getframe(2)))
            if len(record.traced_signatures) == 1:
                record.updates_variables = _updates_variables(function)
            self.own_spans.append((start, clock()))

    # Values, variables, single operations

    def _watch_fetch(self, original: Any) -> Any:
        label = original.__name__

        def watched(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.is_watched():
                return original(tensor, *args, **kwargs)
            self.depth += 1
            start = clock()
            try:
                return original(tensor, *args, **kwargs)
            finally:
                end = clock()
                self.depth -= 1
                self.note_fetch(start, end, label, sys._getframe(1))

        return watched

    def note_fetch(self, start: float, end: float, label: str, frame: Any) -> None:
        """A value was fetched. What Keras fetches for itself in `fit` is not the user's doing; `get_weights()` is."""
        location = location_of(frame)
        if is_called_by_framework(frame):
            is_asked_for = label in _WHOLE_VALUES and is_called_by_keras(frame) and location not in self.keras_calls
            if not is_asked_for:
                return
        self.recording.add(self.recording.syncs, TimedEvent(start, end, location, label))

    def _watch_variable(self, original: Any) -> Any:
        from tensorflow.python.ops.resource_variable_ops import _UnreadVariable

        def watched(variable: Any, *args: Any, **kwargs: Any) -> None:
            start = clock()
            original(variable, *args, **kwargs)
            if threading.get_ident() == self._thread and not isinstance(
                variable, _UnreadVariable
            ):  # the result of an assign
                name = str(kwargs.get("name") or kwargs.get("handle_name") or "Variable")
                self.recording.add(self.recording.variables, TimedEvent(start, clock(), caller_location(), name))

        return watched

    def watch_span(self, records: list, label: str) -> Any:
        def make(original: Any) -> Any:
            def watched(*args: Any, **kwargs: Any) -> Any:
                if not self.is_watched() or not self.executing_eagerly():
                    return original(*args, **kwargs)
                start = clock()
                try:
                    return original(*args, **kwargs)
                finally:
                    self.recording.add(records, TimedEvent(start, clock(), caller_location(), label))

            return watched

        return make

    def _watch_python_function(self, original: Any) -> Any:
        def watched(*args: Any, **kwargs: Any) -> Any:
            is_eager = kwargs.get("use_eager_py_func", kwargs.get("eager", False))
            now = clock()
            label = "py_function" if is_eager else "numpy_function"
            self.recording.add(self.recording.python_functions, TimedEvent(now, now, caller_location(), label))
            return original(*args, **kwargs)

        return watched

    def _watch_operation(self, original: Any) -> Any:
        thread, times = self._thread, self.recording.eager_op_times
        current_thread = threading.get_ident

        def watched(*args: Any) -> Any:
            if self.depth == 0 and current_thread() == thread and len(times) < 5_000_000:
                times.append(clock())
            return original(*args)

        return watched

    def _watch_eager_switch(self, original: Any) -> Any:
        def watched(run_eagerly: bool) -> None:
            original(run_eagerly)
            if run_eagerly:
                now = clock()
                span = TimedEvent(now, now, caller_location(), "tf.config.run_functions_eagerly(True)")
                self.recording.add(self.recording.eager_switches, span)

        return watched


def _unwrapped(function: Any) -> Any:
    from tensorflow.python.util import tf_decorator

    return tf_decorator.unwrap(function)[1]


def _updates_variables(function: Any) -> bool:
    """Whether a traced function writes to variables: a training step does, an evaluation of the model does not."""
    for concrete in function._list_all_concrete_functions():
        graph = concrete.graph.as_graph_def()
        nodes = itertools.chain(graph.node, *(inner.node_def for inner in graph.library.function))
        if any(
            node.op.startswith(("Assign", "ResourceApply", "ResourceSparseApply", "ResourceScatter")) for node in nodes
        ):
            return True
    return False
