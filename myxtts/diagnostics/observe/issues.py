"""What a rule may say, and what it may look at."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from myxtts.diagnostics.observe.pipeline import PipelineFacts, training_pipelines
from myxtts.diagnostics.observe.recording import Recording
from myxtts.diagnostics.observe.source_lines import Place
from myxtts.diagnostics.observe.split_steps import StepTable
from myxtts.diagnostics.observe.traces import TracedCode, explain_traces

# MERGED: The names of what can be wrong with a training: one stable slug for each disease, used in reports, JSON and tests.


class Disease(StrEnum):
    """What a finding accuses; the value is the stable slug."""

    RETRACE_SHAPE = "retrace-shape"
    """A `tf.function` is traced again because the shape of an argument changed."""
    RETRACE_DTYPE = "retrace-dtype"
    """... because the dtype of an argument changed."""
    RETRACE_PYTHON_VALUE = "retrace-python-value"
    """... because a Python number, string or bool among its arguments changed."""
    RETRACE_NEW_OBJECT = "retrace-new-object"
    """... because a Python object among its arguments is a new one each time."""
    FUNCTION_IN_LOOP = "function-in-loop"
    """The same `tf.function` is made anew again and again, and each one is traced."""
    XLA_RECOMPILE = "xla-recompile"
    """XLA compiles the same function again, without any retrace, for every new shape or needed value."""
    MANY_SIGNATURES = "many-signatures"
    """The batches come in many shapes: the cause behind retraces or recompilations, or a cost in waiting."""
    INPUT_BOUND = "input-bound"
    """The step waits for its data."""
    LATE_VARIABLES = "late-variables"
    """Variables are still created after the first steps."""
    HOST_SYNC = "host-sync"
    """A value is fetched from the device in every step (`.numpy()`, `float(tensor)`, `if tensor:`)."""
    NUMPY_FUNCTION = "numpy-function"
    """`tf.numpy_function` runs Python for each element of the input pipeline."""
    PY_FUNCTION = "py-function"
    """`tf.py_function` runs Python and eager TensorFlow for each element of the input pipeline."""
    FROM_GENERATOR = "from-generator"
    """A Python generator feeds the input pipeline."""
    MISSING_PREFETCH = "missing-prefetch"
    """No prefetch: loading and training take turns instead of overlapping."""
    MISSING_PARALLEL_MAP = "missing-parallel-map"
    """A costly map runs on one thread."""
    MISSING_CACHE = "missing-cache"
    """The same costly work is done again in every epoch."""
    CYCLIC_STALL = "cyclic-stall"
    """Every so many steps one step takes much longer."""
    EAGER_BY_MISTAKE = "eager-by-mistake"
    """The training step runs op by op from Python instead of as one graph."""
    SLOW_STAGE = "slow-stage"
    """One stage of the input pipeline costs more than the rest and bounds the loader."""
    DEVICE_IDLE = "device-idle"
    """The host is busy between the steps while the device has nothing to do."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: what, how it is known, where, what to write instead, and the most it could gain."""

    disease: Disease
    what: str
    evidence: str
    place: Place
    fix: str
    """A line of code."""
    gain_seconds: float
    """At most, of the time that was measured."""
    gain_share: float
    """The same as a share of the time of all steps."""
    also: tuple[Place, ...] = ()
    """Other lines that have to do with it."""


class Facts:
    """A recording with everything that follows from it, computed once."""

    def __init__(self, recording: Recording, steps: StepTable):
        self.recording = recording
        self.steps = steps

    @cached_property
    def codes(self) -> list[TracedCode]:
        """Traced code, most time first."""
        return explain_traces(self.recording)

    @cached_property
    def pipelines(self) -> list[PipelineFacts]:
        """The input pipelines of the training."""
        return training_pipelines(self.recording, self.steps)

    @cached_property
    def total_seconds(self) -> float:
        """Time of all steps."""
        return max(float(self.steps.seconds.sum()), 1e-9)

    @cached_property
    def middle_step(self) -> int:
        """Half of the steps, or of the first pass over the data: later passes bring no new shapes, whatever the first did."""
        passes = np.flatnonzero(self.steps.is_epoch_start)
        first_pass = int(passes[1]) if len(passes) > 1 else len(self.steps)
        return min(len(self.steps) // 2, max(first_pass // 2, 10))

    @cached_property
    def middle(self) -> float:
        """The moment at which the middle step begins."""
        return float(self.steps.start[self.middle_step])

    @cached_property
    def steady(self) -> np.ndarray:
        """Mask of the steps in which nothing was traced or compiled; all but the first if there are none."""
        steady = self.steps.is_steady
        return steady if steady.sum() >= 2 else np.arange(len(self.steps)) > 0

    def steady_share(self, seconds: np.ndarray) -> float:
        """Share of the steady steps' time."""
        return float(seconds[self.steady].sum() / max(self.steps.seconds[self.steady].sum(), 1e-9))

    def steady_mean(self, seconds: np.ndarray) -> float:
        """Mean over the steady steps."""
        return float(seconds[self.steady].mean())

    @cached_property
    def within_pass(self) -> np.ndarray:
        """Mask of the steady steps that do not begin a pass: there a pipeline starts, which is not its speed."""
        within = self.steady & ~self.steps.is_epoch_start
        return within if within.sum() >= 0.5 * self.steady.sum() else self.steady

    @cached_property
    def wait_share(self) -> float:
        """Share of the steady time spent waiting for data."""
        return float(self.wait_seconds / max(self.steps.seconds[self.within_pass].sum(), 1e-9))

    @cached_property
    def wait_per_step(self) -> float:
        """Seconds waited in a steady step, on average."""
        return float(self.steps.wait[self.within_pass].mean())

    @cached_property
    def wait_seconds(self) -> float:
        """Seconds waited in all steady steps."""
        return float(self.steps.wait[self.within_pass].sum())

    def is_ongoing(self, moments: list[float], calls: int) -> bool:
        """Whether something goes on and on, rather than meeting a closed set of cases once each at the beginning.

        Buckets are traced once each, early, and then reused; a sick function is traced in the second half, too, or is
        hardly ever called twice for one trace.
        """
        late = sum(moment > self.middle for moment in moments)
        return len(moments) >= 2 and (late >= 2 or calls < 3 * (len(moments) + 1))

    @cached_property
    def generator_share(self) -> float:
        """Share of the host's steady time in which one of the user's own generators made the next batch for the loop."""
        samples = self.recording.line_samples
        if not samples or not self.recording.generator_samples:
            return 0.0
        steady = np.flatnonzero(self.steady)
        inside = np.array([time for time, _, _ in self.recording.generator_samples])
        everything = np.array([time for time, _ in samples])
        everything = everything[~self._is_inside_calls(everything)]
        in_generator = np.isin(self.steps.window_of(inside[~self._is_inside_calls(inside)]), steady).sum()
        return float(in_generator / max(np.isin(self.steps.window_of(everything), steady).sum(), 1))

    def finding(
        self,
        disease: Disease,
        what: str,
        evidence: str,
        place: Place,
        fix: str,
        gain: float,
        also: tuple[Place, ...] = (),
    ) -> Finding:
        """A finding with its share of the time."""
        others = tuple(dict.fromkeys(other for other in also if other != place and other.line > 0))
        share = min(gain / self.total_seconds, 1.0)
        return Finding(disease, what, evidence, place, fix, gain, share, others)

    def lines_in(self, steps: np.ndarray, only_host: bool = True) -> list[tuple[Place, float]]:
        """The lines that the training thread was seen at in the given steps, with their share, most first."""
        samples = self.recording.line_samples
        if not samples:
            return []
        times = np.array([time for time, _ in samples])
        numbers = np.array([number for _, number in samples])
        chosen = np.isin(self.steps.window_of(times), np.flatnonzero(steps))
        if only_host:
            chosen &= ~self._is_inside_calls(times)
        counts = np.bincount(numbers[chosen], minlength=len(self.recording.lines))
        total = max(int(counts.sum()), 1)
        order = np.argsort(-counts)
        return [(self.recording.lines[number], counts[number] / total) for number in order[:20] if counts[number] > 0]

    def _is_inside_calls(self, times: np.ndarray) -> np.ndarray:
        """Whether a watched call (a function, a fetch of a batch or value) was open at each moment."""
        spans = [(call.start, call.end) for call in self.recording.calls]
        spans += [(fetch.start, fetch.end) for fetch in self.recording.fetches]
        if self.recording.has_accelerator:
            spans += [(span.start, span.end) for span in self.recording.syncs]
        if not spans:
            return np.zeros(len(times), bool)
        spans.sort()
        starts, ends = np.array([start for start, _ in spans]), np.array([end for _, end in spans])
        index = np.searchsorted(starts, times, side="right") - 1
        return (index >= 0) & (times <= np.maximum.accumulate(ends)[np.maximum(index, 0)])


def percent(share: float) -> str:
    """`43 %`; one decimal below ten."""
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.1f} %"


def duration(seconds: float) -> str:
    """Seconds for people: `1.2 s`, `340 ms`, `85 us`."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} us"
