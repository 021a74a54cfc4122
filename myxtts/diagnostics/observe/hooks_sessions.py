"""Hooks into `tf.compat.v1.Session`: each `run` is a call, and operations that are added to its graph between them are noted."""

from __future__ import annotations

import sys
import time
import weakref
from typing import Any

from myxtts.diagnostics.observe.recording import FunctionCall, FunctionRecord, GraphGrowth
from myxtts.diagnostics.observe.source_lines import UNKNOWN, SourceLocation, is_user_code, location_of

clock = time.perf_counter
RUNS_BEFORE_GROWTH = 3
"""The first ones initialize variables and restore checkpoints."""
MOST_LINES_READ = 50


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


def install(watcher: Any, patches: Any) -> None:
    """Install the hook into sessions."""
    from tensorflow.python.client import session

    patches.replace(session.BaseSession, "run", SessionHooks(watcher).watch_run)
