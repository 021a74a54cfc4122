"""What follows from a recording, computed once for all rules: traced code, pipelines, fractions of the time, source lines."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from myxtts.diagnostics.observe.account import Account, account_for
from myxtts.diagnostics.observe.ceiling import Ceiling
from myxtts.diagnostics.observe.issues import Finding, Issue
from myxtts.diagnostics.observe.pipeline import PipelineFacts, training_pipelines
from myxtts.diagnostics.observe.recording import Recording
from myxtts.diagnostics.observe.source_lines import SourceLocation
from myxtts.diagnostics.observe.split_steps import StepTable
from myxtts.diagnostics.observe.traces import TracedCode, explain_traces


class Facts:
    """A recording with everything that follows from it, computed once."""

    def __init__(
        self, recording: Recording, steps: StepTable, account: Account | None = None, ceiling: Ceiling | None = None
    ):
        self.recording = recording
        self.steps = steps
        self.account = account or account_for(recording, steps)
        self.ceiling = ceiling

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
        """Time of the training: its steps, and everything else that a longer training repeats."""
        return max(float(self.steps.seconds.sum()), self.account.training_seconds, 1e-9)

    @cached_property
    def middle_step(self) -> int:
        """Half of the steps, or of the first epoch: later epochs bring no new shapes."""
        starts = np.flatnonzero(self.steps.is_epoch_start)
        first_epoch = int(starts[1]) if len(starts) > 1 else len(self.steps)
        return min(len(self.steps) // 2, max(first_epoch // 2, 10))

    @cached_property
    def middle(self) -> float:
        """The moment at which the middle step begins."""
        return float(self.steps.start[self.middle_step])

    @cached_property
    def steady(self) -> np.ndarray:
        """Mask of the steps in which nothing was traced or compiled; all but the first if there are none."""
        steady = self.steps.is_steady
        return steady if steady.sum() >= 2 else np.arange(len(self.steps)) > 0

    def steady_fraction(self, seconds: np.ndarray) -> float:
        """Fraction of the steady steps' time."""
        return float(seconds[self.steady].sum() / max(self.steps.seconds[self.steady].sum(), 1e-9))

    def steady_mean(self, seconds: np.ndarray) -> float:
        """Mean over the steady steps."""
        return float(seconds[self.steady].mean())

    @cached_property
    def within_epoch(self) -> np.ndarray:
        """Mask of the steady steps that do not begin an epoch: the start of a pipeline is not its speed."""
        within = self.steady & ~self.steps.is_epoch_start
        return within if within.sum() >= 0.5 * self.steady.sum() else self.steady

    @cached_property
    def wait_fraction(self) -> float:
        """Fraction of the steady time spent waiting for data."""
        return float(self.wait_seconds / max(self.steps.seconds[self.within_epoch].sum(), 1e-9))

    @cached_property
    def wait_per_step(self) -> float:
        """Seconds waited in a steady step, on average."""
        return float(self.steps.wait[self.within_epoch].mean())

    @cached_property
    def wait_seconds(self) -> float:
        """Seconds waited in all steady steps."""
        return float(self.steps.wait[self.within_epoch].sum())

    def is_ongoing(self, moments: list[float], calls: int) -> bool:
        """Whether something keeps happening, rather than once for each of a closed set of cases at the beginning.

        Buckets are traced once each, early, and then reused. A function that retraces is also traced in the second half, or is
        rarely called twice for one trace.
        """
        late = sum(moment > self.middle for moment in moments)
        return len(moments) >= 2 and (late >= 2 or calls < 3 * (len(moments) + 1))

    @cached_property
    def generator_fraction(self) -> float:
        """Fraction of the host's steady time in which one of the user's own generators made the next batch for the loop."""
        samples = self.recording.line_samples
        if not samples or not self.recording.generator_samples:
            return 0.0
        steady = np.flatnonzero(self.steady)
        inside = np.array([time for time, _, _ in self.recording.generator_samples])
        everything = np.array([sample.time for sample in samples])
        everything = everything[~self._is_inside_calls(everything)]
        in_generator = np.isin(self.steps.window_of(inside[~self._is_inside_calls(inside)]), steady).sum()
        return float(in_generator / max(np.isin(self.steps.window_of(everything), steady).sum(), 1))

    def finding(
        self,
        issue: Issue,
        what: str,
        evidence: str,
        location: SourceLocation,
        fix: str,
        gain: float,
        also: tuple[SourceLocation, ...] = (),
        locations: tuple[SourceLocation, ...] = (),
    ) -> Finding:
        """A finding with its fraction of the time."""
        others = tuple(dict.fromkeys(other for other in also if other != location and other.line > 0))
        fraction = min(gain / self.total_seconds, 1.0)
        every = tuple(dict.fromkeys((location, *locations)))
        return Finding(issue, what, evidence, location, fix, gain, fraction, every, others)

    def lines_in(self, steps: np.ndarray, only_host: bool = True) -> list[tuple[SourceLocation, float]]:
        """The lines that the training thread was seen at in the given steps, with their fraction, most first."""
        samples = self.recording.line_samples
        if not samples:
            return []
        times = np.array([sample.time for sample in samples])
        indices = np.array([sample.line for sample in samples])
        chosen = np.isin(self.steps.window_of(times), np.flatnonzero(steps))
        if only_host:
            chosen &= ~self._is_inside_calls(times)
        counts = np.bincount(indices[chosen], minlength=len(self.recording.lines))
        total = max(int(counts.sum()), 1)
        order = np.argsort(-counts)
        return [
            (self.recording.lines[index], float(counts[index] / total)) for index in order[:20] if counts[index] > 0
        ]

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
