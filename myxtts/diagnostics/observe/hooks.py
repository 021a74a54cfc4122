"""Observes TensorFlow and Keras at work: installs hooks into both, records their calls in a `Recording`, removes the hooks.

A hook costs a microsecond or two, which is recorded as the observation's own time. Only calls from the training thread that are
not inside another observed call are recorded: what a graph, a data pipeline or Keras does internally is not the user's code.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
import threading
import time
import weakref
from collections.abc import Callable, Hashable
from types import FunctionType
from typing import Any

from myxtts.diagnostics.observe import hooks_data, hooks_keras, hooks_values
from myxtts.diagnostics.observe.recording import (
    MOST_OPERATIONS,
    FunctionCall,
    FunctionRecord,
    PipelineCall,
    Recording,
    TimedEvent,
)
from myxtts.diagnostics.observe.sampler import LineSampler, LoadMeter
from myxtts.diagnostics.observe.source_lines import (
    SourceLocation,
    caller_location,
    code_of,
    is_user_code,
    location_of,
    location_of_code,
)
from myxtts.runtime.signatures import argument_names, signature_of
from myxtts.runtime.tensorflow_counters import (
    BYTES_FETCHED,
    ITERATOR_BUSY_MICROSECONDS,
    XLA_COMPILATION_MICROSECONDS,
    XLA_COMPILATIONS,
    find_counter,
    why_unavailable,
)

clock = time.perf_counter
_UPDATING_OPS = ("Assign", "ResourceApply", "ResourceSparseApply", "ResourceScatter")


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
        self._functions: dict[int, tuple[weakref.ref, FunctionRecord]] = {}
        self._object_tokens: dict[int, tuple[Any, Hashable]] = {}
        self._next_token = itertools.count()
        self._last_variables: tuple[Callable[[], Any], tuple] = (lambda: None, ())
        self._open_calls: dict[int, list[str]] = {}
        self._steps_seen = 0
        self._is_removed = False
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
        from tensorflow.python.eager.polymorphic_function import polymorphic_function
        from tensorflow.python.ops import resource_variable_ops, script_ops

        self.executing_eagerly = tf.executing_eagerly
        self._find_counters()
        replace = self._patches.replace
        replace(polymorphic_function.Function, "__init__", self._watch_creation)
        replace(polymorphic_function.Function, "__call__", self._watch_call)
        replace(resource_variable_ops.BaseResourceVariable, "__init__", self._watch_variable)
        replace(backprop.GradientTape, "gradient", self.watch_event(self.recording.gradients, "tape.gradient"))
        replace(script_ops, "_internal_py_func", self._watch_python_function)
        replace(pywrap_tfe, "TFE_Py_FastPathExecute", self._watch_operation)
        replace(pywrap_tfe, "TFE_Py_Execute", self._watch_operation)
        replace(tf.config, "run_functions_eagerly", self._watch_eager_switch)
        replace(tf, "print", self._watch_print)
        replace(mirrored_run._MirroredReplicaThread, "run", self._watch_replica)
        for owner, method in ((tf.train.Checkpoint, "save"), (tf.train.Checkpoint, "write"),
                              (tf.train.CheckpointManager, "save"), (tf.saved_model, "save")):  # fmt: skip
            replace(owner, method, self.watch_outermost(self.recording.checkpoints, f"{owner.__name__}.{method}"))
        hooks_data.install(self, self._patches)
        hooks_values.install(self, self._patches)
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
        if self._is_removed:
            return self.recording
        self._is_removed = True
        self.recording.ended_at = clock()
        self._patches.restore()
        if self._sampler is not None:
            self._sampler.stop()
        self.recording.machine_load = self._load.read() if self._load is not None else None
        self.recording.has_accelerator = _has_accelerator()
        return self.recording

    def abandon(self) -> None:
        """Remove the hooks in a forked process; the sampler's thread does not exist there."""
        self._is_removed = True
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
        limit = self.recording.steps_limit
        if limit is not None and self._steps_seen >= limit:
            self.remove()

    def object_key(self, value: Any) -> Hashable:
        """A key that distinguishes a new object from an old one, even if it got the old one's address."""
        known = self._object_tokens.get(id(value))
        if known is not None and known[0]() is value:
            return known[1]
        spec = getattr(value, "element_spec", None)
        token: Hashable = str(spec) if spec is not None else next(self._next_token)
        with contextlib.suppress(
            TypeError
        ):  # only a weak reference: TensorFlow checks whether earlier objects still exist
            self._object_tokens[id(value)] = (weakref.ref(value), token)
        return token

    # Functions

    def _watch_creation(self, original: Any) -> Any:
        def watched(function: Any, *args: Any, **kwargs: Any) -> None:
            original(function, *args, **kwargs)
            if threading.get_ident() in self._threads:
                self.record_of(function, is_creation=True)

        return watched

    def record_of(self, function: Any, is_creation: bool = False) -> FunctionRecord:
        """The record of a `tf.function`, made at its creation or, if that was before, at its first call."""
        known = self._functions.get(id(function))
        if known is not None and known[0]() is function:
            return known[1]
        code = code_of(_unwrapped(function._python_function))
        location = caller_location() if is_creation else location_of_code(code)
        record = FunctionRecord(
            index=len(self.recording.functions),
            name=code.co_name if code is not None else str(function._name),
            definition=location_of_code(code),
            creation=location,
            created_at=clock() if is_creation else self.recording.started_at,
            is_jit=bool(function._jit_compile),
            has_signature=function.input_signature is not None,
            argument_names=tuple(function._function_type.parameters),
            is_user=code is None or is_user_code(code.co_filename),
        )
        self.recording.functions.append(record)
        self._functions[id(function)] = (weakref.ref(function), record)
        return record

    def _watch_call(self, original: Any) -> Any:
        def watched(function: Any, *args: Any, **kwargs: Any) -> Any:
            entered = clock()
            if not self.executing_eagerly() or function._run_functions_eagerly:
                return original(function, *args, **kwargs)
            if not self.is_watched() and not self._adopts_thread():
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
                if record.updates_variables:
                    if all(entry[0] != "object" for entry in signature):
                        self.recording.last_step = (function, args, kwargs, self._variables_of(function, new_traces))
                    if not self.keras_calls:
                        self.count_step()
                    elif not record.is_user:
                        self.recording.fit_function = function
                self.own_spans.append((entered, start))
                self.own_spans.append((end, clock()))

        return watched

    def _adopts_thread(self) -> bool:
        """A script may train in a thread of its own: the first one that calls a function is the training thread."""
        if self.depth or self.recording.calls or threading.current_thread() is threading.main_thread():
            return False
        if isinstance(threading.current_thread(), threading._DummyThread):  # one of TensorFlow's own
            return False
        self._threads.add(threading.get_ident())
        if self._sampler is not None:
            self._sampler.watched_thread = threading.get_ident()
        return True

    def _variables_of(self, function: Any, is_changed: int) -> Any:
        """The variables of the newest step, kept: a model that lives inside `main()` is gone before its step is timed alone."""
        known = self._last_variables
        if known[0]() is not function or is_changed:
            found: dict[int, Any] = {}
            for concrete in function._list_all_concrete_functions():
                found.update({id(variable): variable for variable in concrete.graph.variables})
            known = self._last_variables = (weakref.ref(function), tuple(found.values()))
        return known[1]

    def _note_trace(self, function: Any, record: FunctionRecord, signature: tuple, args: tuple, kwargs: dict) -> None:
        if len(record.traced_signatures) < 1000:
            record.traced_signatures.append(signature)
            named = dict(zip(record.argument_names, args, strict=False))
            named.update({f"{index}": value for index, value in enumerate(args) if index >= len(named)})
            record.traced_names.append(argument_names({**named, **kwargs}))
            record.call_locations.append(location_of(sys._getframe(2)))
            if len(record.traced_signatures) == 1:
                record.updates_variables = _updates_variables(function)
                record.is_evaluation = self.data.is_evaluating

    # Variables, single operations

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
                    self.recording.add(records, TimedEvent(start, clock(), caller_location(), label))
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
                    self.recording.add(records, TimedEvent(start, clock(), caller_location(), label))

            return watched

        return make

    def _watch_python_function(self, original: Any) -> Any:
        def watched(func: Any, *args: Any, **kwargs: Any) -> Any:
            is_eager = kwargs.get("use_eager_py_func", kwargs.get("eager", False))
            now, location = clock(), caller_location()
            label = "py_function" if is_eager else "numpy_function"
            self.recording.add(self.recording.python_functions, TimedEvent(now, now, location, label))
            code = code_of(func)
            is_users = code is not None and is_user_code(code.co_filename)
            if self.data.is_tracing_dataset:  # a generator is called by a function of TensorFlow's own
                return original(self._timed_in_pipeline(func), *args, **kwargs)
            if not is_users or self.executing_eagerly() or kwargs.get("is_grad_func"):
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
                if not self._is_removed:
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
                if not self._is_removed:
                    call = PipelineCall(start, time.thread_time() - before)
                    self.recording.add(self.recording.pipeline_python, call)

        return timed

    def _watch_print(self, original: Any) -> Any:
        def watched(*inputs: Any, **kwargs: Any) -> Any:
            if not self.executing_eagerly() and not self.data.is_tracing_dataset:
                now = clock()
                shapes = [f"{value.dtype.name} {value.shape}" for value in inputs if hasattr(value, "dtype")]
                event = TimedEvent(now, now, caller_location(), ", ".join(shapes))
                self.recording.add(self.recording.graph_prints, event)
            return original(*inputs, **kwargs)

        return watched

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


_ABSENT = object()


def _zero() -> int:
    return 0


def _unwrapped(function: Any) -> Any:
    from tensorflow.python.util import tf_decorator

    return tf_decorator.unwrap(function)[1]


def _updates_variables(function: Any) -> bool:
    """Whether a traced function writes to variables: a training step does, an evaluation of the model does not."""
    for concrete in function._list_all_concrete_functions():
        graph = concrete.graph.as_graph_def()
        nodes = itertools.chain(graph.node, *(inner.node_def for inner in graph.library.function))
        if any(node.op.startswith(_UPDATING_OPS) for node in nodes):
            return True
    return False


def _has_accelerator() -> bool:
    """Whether TensorFlow, if it is loaded, has another device than the CPU."""
    tensorflow: Any = sys.modules.get("tensorflow")
    if not hasattr(tensorflow, "config"):
        return False
    return any(device.device_type != "CPU" for device in tensorflow.config.list_physical_devices())
