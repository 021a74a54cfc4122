"""Small trainings for the tests of the diagnosis, each healthy but for what a test adds; and what tests ask of a report."""

import inspect
from collections.abc import Iterable

import tensorflow as tf

from myxtts.diagnostics.observe.issues import Finding, Issue
from myxtts.diagnostics.observe.recording import (
    Fetch,
    FunctionCall,
    FunctionRecord,
    IteratorRecord,
    LineSample,
    Recording,
)
from myxtts.diagnostics.observe.report import Report
from myxtts.diagnostics.observe.sampler import MachineLoad
from myxtts.diagnostics.observe.source_lines import SourceLocation

STEP_OF_A_SCRIPT = """import tensorflow as tf
weights = tf.Variable(tf.ones((64, 64)))

@tf.function
def train_step(batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.matmul(batch, weights) ** 2)
    weights.assign_sub(1e-3 * tape.gradient(loss, weights))
    return loss
"""


class Trainable:
    """One matrix and a step that updates it."""

    def __init__(self, jit: bool = False, size: int = 64):
        self.weights = tf.Variable(tf.random.normal((size, size), seed=1))
        self.size = size
        self.train_step = tf.function(self._step, jit_compile=jit)

    def _step(self, batch, scale=1.0):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.matmul(batch, self.weights) ** 2) * scale
        self.weights.assign_sub(1e-3 * tape.gradient(loss, self.weights))
        return loss

    def batch(self, rows: int = 8) -> tf.Tensor:
        return tf.ones((rows, self.size))

    def dataset(self, batches: int = 30) -> tf.data.Dataset:
        return tf.data.Dataset.from_tensors(self.batch()).repeat(batches).prefetch(2)


STEP, WORK, STALL = (SourceLocation("train.py", line, "loop", 1) for line in (10, 20, 30))
"""Lines of a recorded loop: where it calls its step, works in Python, and works in some steps only."""


def recorded_loop(
    python: Iterable[float], wait: float = 0.0, device: float = 0.01, first: float = 2.0, others: float = 0.0
) -> Recording:
    """A loop over a `tf.function` as it would be recorded, without a clock.

    Args:
        python: Seconds of Python in each step; what is longer than in the first step was seen at the line `STALL`.
        wait: Seconds that each step waits for its batch.
        device: Seconds of each call.
        first: Seconds of the first call, which traces.
        others: Fraction of the processors that other processes used.
    """
    recording = Recording(machine_load=MachineLoad(others, 0.0, None), lines=[WORK, STALL])
    recording.functions = [FunctionRecord(0, "train_step", STEP, STEP, 0.0, False, updates_variables=True,
                                          call_locations=[STEP])]  # fmt: skip
    recording.iterators = [IteratorRecord(0, -1, 0.0, STEP)]
    now, usual = 0.0, None
    for seconds in python:
        usual = seconds if usual is None else usual
        samples = [now + 0.001 * index for index in range(round(1000 * seconds))]
        recording.line_samples += [LineSample(at, int(at - now >= usual), "python") for at in samples]
        now += seconds
        if wait:
            recording.fetches.append(Fetch(now, now + wait, 0, 0, False))
            now += wait
        is_first = not recording.calls
        spent = first if is_first else device
        recording.calls.append(FunctionCall(0, now, now + spent, int(is_first), 0, 0.0, 0.0, 0))
        now += spent
    recording.ended_at = now
    return recording


def line_of(function, text: str) -> int:
    """Line number of the first line of a function's source that contains a text."""
    source, first = inspect.getsourcelines(function)
    return next(first + index for index, line in enumerate(source) if text in line)


def issues_in(report: Report) -> set[str]:
    """Slugs of all findings, those that gain less than 1 % included; every fix must compile."""
    found = [*report.findings, *report.minor_findings]
    for finding in found:
        compile(finding.fix, str(finding.issue), "exec")
    return {str(finding.issue) for finding in found}


def finding(report: Report, issue: Issue) -> Finding:
    """The finding of an issue, whatever it could gain here."""
    assert issue in issues_in(report), f"{issue} is not among {issues_in(report)}"
    return next(found for found in [*report.findings, *report.minor_findings] if found.issue == issue)
