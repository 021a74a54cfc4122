"""Small trainings for the tests of the diagnosis, each healthy but for what a test adds; and what tests ask of a report."""

import inspect

import tensorflow as tf

from myxtts.diagnostics.observe.issues import Finding, Issue
from myxtts.diagnostics.observe.report import Report

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
