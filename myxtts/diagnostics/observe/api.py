"""The diagnosis as a library: a context manager for a custom loop, a Keras callback, and an assertion for tests.

with observe() as observation:
    train()
print(observation.report.to_text())
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras

from myxtts.diagnostics.observe.hooks import Instrumentation, clock
from myxtts.diagnostics.observe.issues import percent
from myxtts.diagnostics.observe.page import report_to_html
from myxtts.diagnostics.observe.recording import Recording
from myxtts.diagnostics.observe.report import Report, build_report
from myxtts.errors import DiagnosisError
from myxtts.runtime.safe_files import write_atomically


class Observation:
    """What an `observe` block records; `report` is available after it."""

    def __init__(self, recording: Recording):
        self._recording = recording
        self._report: Report | None = None

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """Marks one step, for loops that cannot be recognized: wrap fetching the batch and training on it."""
        start = clock()
        yield
        self._recording.add(self._recording.marked_steps, (start, clock()))

    @property
    def report(self) -> Report:
        """The report of the block."""
        if self._report is None:
            raise DiagnosisError("The report is made when the `with observe()` block ends. Read it after the block.")
        return self._report

    def finish(self) -> None:
        """Make the report."""
        self._recording.drop_objects()
        self._report = build_report(self._recording)


@contextlib.contextmanager
def observe(sample_lines: bool = True) -> Iterator[Observation]:
    """Observe the training inside the block, in this thread. TensorFlow and Keras are restored afterwards."""
    watcher = Instrumentation(sample_lines=sample_lines)
    observation = Observation(watcher.install())
    try:
        yield observation
    finally:
        watcher.remove()
        observation.finish()


class DiagnosisCallback(keras.callbacks.Callback):
    """Observes `Model.fit` from within: `model.fit(..., callbacks=[DiagnosisCallback(html="report.html")])`."""

    def __init__(self, json_file: str | Path | None = None, html: str | Path | None = None):
        super().__init__()
        self._json, self._html = json_file, html
        self._watcher: Instrumentation | None = None
        self.report: Report | None = None

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Install the hooks: they see every batch from the first on."""
        self._watcher = Instrumentation()
        self._watcher.install()

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Remove the hooks, make the report, write the files that were asked for."""
        if self._watcher is None:
            return
        observation = Observation(self._watcher.remove())
        observation.finish()
        self._watcher, self.report = None, observation.report
        content = self.report.to_json()
        if self._json is not None:
            write_atomically(self._json, json.dumps(content, indent=1))
        if self._html is not None:
            write_atomically(self._html, report_to_html(content, "Model.fit"))


@contextlib.contextmanager
def assert_compiled_once(
    max_traces: int = 1, max_compilations: int | None = 1, max_wait_share: float | None = None
) -> Iterator[Observation]:
    """For tests: the block may trace each function at most `max_traces` times, compile each with XLA at most
    `max_compilations` times, and wait for data at most `max_wait_share` of the steps' time; otherwise AssertionError."""
    with observe(sample_lines=False) as observation:
        yield observation
    report, problems = observation.report, []
    for function in report.functions:
        if function.traces > max_traces:
            causes = f" ({'; '.join(function.causes)})" if function.causes else ""
            problems.append(
                f"{function.name} ({function.location}): {function.traces} traces, at most {max_traces}{causes}"
            )
        if max_compilations is not None and function.compilations > max_compilations:
            problems.append(
                f"{function.name} ({function.location}): {function.compilations} XLA compilations, at most {max_compilations}"
            )
    if max_wait_share is not None:
        if report.split is None:
            problems.append("no step was seen, so waiting could not be measured; mark it: with observation.step(): ...")
        else:
            fraction = report.split.wait_seconds / max(report.split.steady_seconds, 1e-9)
            if fraction > max_wait_share:
                problems.append(f"waiting for data {percent(fraction)} of the time, at most {percent(max_wait_share)}")
    if problems:
        raise AssertionError("\n".join(problems))
