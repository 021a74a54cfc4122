"""Hooks into what runs a graph: `tf.function` and `tf.compat.v1.Session`.

Of a function they record where it is made and each outermost call, with its traces and compilations. Each `run` of a session is a
call as well, and operations that are added to its graph between them are noted.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
import weakref
from collections.abc import Callable, Hashable
from typing import Any

from myxtts.diagnostics.observe.recording import FunctionCall, FunctionRecord, GraphGrowth
from myxtts.diagnostics.observe.source_lines import (
    UNKNOWN,
    SourceLocation,
    caller_location,
    code_of,
    is_user_code,
    location_of,
    location_of_code,
)
from myxtts.runtime.signatures import argument_names, signature_of

clock = time.perf_counter
_UPDATING_OPS = ("Assign", "ResourceApply", "ResourceSparseApply", "ResourceScatter")
RUNS_BEFORE_GROWTH = 3
"""The first runs of a session initialize variables and restore checkpoints."""
MOST_LINES_READ = 50
"""Growing runs of a session whose line is searched."""


class FunctionHooks:
    """State of the hooks into `tf.function`."""

    def __init__(self, watcher: Any):
        self.watcher = watcher
        self.recording = watcher.recording
        self._functions: dict[int, tuple[weakref.ref, FunctionRecord]] = {}
        self._object_tokens: dict[int, tuple[Any, Hashable]] = {}
        self._next_token = itertools.count()
        self._last_variables: tuple[Callable[[], Any], tuple] = (lambda: None, ())

    def watch_creation(self, original: Any) -> Any:
        def watched(function: Any, *args: Any, **kwargs: Any) -> None:
            original(function, *args, **kwargs)
            if self.watcher.on_thread():
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
            argument_names=tuple(function._function_type.parameters),
            is_user=code is None or is_user_code(code.co_filename),
        )
        self.recording.functions.append(record)
        self._functions[id(function)] = (weakref.ref(function), record)
        return record

    def watch_call(self, original: Any) -> Any:
        def watched(function: Any, *args: Any, **kwargs: Any) -> Any:
            entered = clock()
            if not self.watcher.executing_eagerly() or function._run_functions_eagerly:
                return original(function, *args, **kwargs)
            if not self.watcher.is_watched() and not self.watcher.adopts_thread():
                return original(function, *args, **kwargs)
            self.recording.last_step = None
            record = self.record_of(function)
            traces = function.experimental_get_tracing_count()
            compilations, compile_time = self.watcher.count_compilations(), self.watcher.count_compile_time()
            waited = self.watcher.count_wait_time()
            self.watcher.depth += 1
            start = clock()
            try:
                return original(function, *args, **kwargs)
            finally:
                end = clock()
                self.watcher.depth -= 1
                new_traces = function.experimental_get_tracing_count() - traces
                signature = signature_of((args, kwargs), self.object_key)
                call = FunctionCall(
                    record.index,
                    start,
                    end,
                    new_traces,
                    self.watcher.count_compilations() - compilations,
                    (self.watcher.count_compile_time() - compile_time) / 1e6,
                    min((self.watcher.count_wait_time() - waited) / 1e6, end - start),
                    record.index_of(signature),
                )
                self.recording.add(self.recording.calls, call)
                if new_traces:
                    self._note_trace(function, record, signature, args, kwargs)
                if record.updates_variables:
                    if all(entry[0] != "object" for entry in signature):
                        self.recording.last_step = (function, args, kwargs, self._variables_of(function, new_traces))
                    if not self.watcher.keras_calls:
                        self.watcher.count_step()
                    elif not record.is_user:
                        self.recording.fit_function = function
                self.watcher.own_spans.append((entered, start))
                self.watcher.own_spans.append((end, clock()))

        return watched

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
                record.is_evaluation = self.watcher.data.is_evaluating


class SessionHooks:
    """State of the hooks into sessions."""

    def __init__(self, watcher: Any):
        self.watcher = watcher
        self.recording = watcher.recording
        self._records: dict[SourceLocation, FunctionRecord] = {}
        self._graphs: weakref.WeakKeyDictionary[Any, GraphGrowth] = weakref.WeakKeyDictionary()

    def watch_run(self, original: Any) -> Any:
        """`BaseSession.run`."""
        watcher = self.watcher

        def watched(session: Any, fetches: Any, *args: Any, **kwargs: Any) -> Any:
            if not watcher.is_watched():
                return original(session, fetches, *args, **kwargs)
            entered = clock()
            self._note_growth(session.graph)
            record = self._record_of(location_of(sys._getframe(1)), fetches)
            watcher.depth += 1
            start = clock()
            try:
                return original(session, fetches, *args, **kwargs)
            finally:
                end = clock()
                watcher.depth -= 1
                call = FunctionCall(record.index, start, end, 0, 0, 0.0, 0.0, -1)
                self.recording.add(self.recording.calls, call)
                watcher.own_spans.append((entered, start))
                watcher.own_spans.append((end, clock()))
                if record.updates_variables:
                    watcher.count_step()

        return watched

    def _record_of(self, location: SourceLocation, fetches: Any) -> FunctionRecord:
        """One record for each line that calls `run`; one that fetches an operation (not its value) updates something."""
        record = self._records.get(location)
        if record is None:
            record = FunctionRecord(
                index=len(self.recording.functions),
                name="Session.run",
                definition=location,
                creation=location,
                created_at=clock(),
                is_jit=False,
                updates_variables=_has_operation(fetches),
                call_locations=[location],
            )
            self.recording.functions.append(record)
            self._records[location] = record
        return record

    def _note_growth(self, graph: Any) -> None:
        growth = self._graphs.get(graph)
        if growth is None:
            growth = self._graphs[graph] = GraphGrowth(operations=graph.version)
            self.recording.graphs.append(growth)
        growth.runs += 1
        if graph.version > growth.operations and growth.runs > RUNS_BEFORE_GROWTH:
            growth.growing_runs += 1
            growth.added += graph.version - growth.operations
            if growth.growing_runs <= MOST_LINES_READ:
                location = _made_at(graph.get_operations()[-1])
                growth.lines[location] = growth.lines.get(location, 0) + 1
        growth.operations = graph.version


def install(watcher: Any, patches: Any) -> None:
    """Install the hooks into functions and sessions."""
    from tensorflow.python.client import session
    from tensorflow.python.eager.polymorphic_function import polymorphic_function

    hooks = FunctionHooks(watcher)
    patches.replace(polymorphic_function.Function, "__init__", hooks.watch_creation)
    patches.replace(polymorphic_function.Function, "__call__", hooks.watch_call)
    patches.replace(session.BaseSession, "run", SessionHooks(watcher).watch_run)


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


def _has_operation(fetches: Any) -> bool:
    from tensorflow.python.framework.ops import Operation

    parts = (
        fetches.values() if isinstance(fetches, dict) else fetches if isinstance(fetches, (list, tuple)) else [fetches]
    )
    return any(isinstance(part, Operation) for part in parts)


def _made_at(operation: Any) -> SourceLocation:
    """The user's line that made an operation: TensorFlow keeps its stack."""
    for frame in reversed(list(operation.traceback or ())):
        if is_user_code(frame.filename):
            return SourceLocation(frame.filename, frame.lineno or 0, frame.name)
    return UNKNOWN
