"""What follows from a recording, computed once for all rules: traced code, pipelines, times, lines."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from myxtts.diagnostics.observe.account import Account, account_for
from myxtts.diagnostics.observe.ceiling import Ceiling
from myxtts.diagnostics.observe.issues import Finding, Issue
from myxtts.diagnostics.observe.pipeline import PipelineFacts, training_pipelines
from myxtts.diagnostics.observe.recording import LineSample, Recording, prompt_samples
from myxtts.diagnostics.observe.source_lines import SourceLocation, is_user_code, source_text
from myxtts.diagnostics.observe.split_steps import StepTable, is_inside, watched_calls
from myxtts.diagnostics.observe.traced_code import TracedCode, explain_traces

CALLS_OF_A_REUSED_TRACE = 25
"""Calls per trace after which a trace has paid for itself. Chosen; not measured."""
QUANTILE_ON_A_BUSY_MACHINE = 0.1
"""Quantile of the step times that counts on a busy machine: other processes disturb most steps, and the single fastest step may
be an exception."""


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
    def is_fed_by_keras(self) -> bool:
        """Keras made the pipeline by itself, as for arrays: the user has no stage in it."""
        return bool(self.pipelines) and not any(stage.is_users for stage in self.pipelines[0].stages)

    @cached_property
    def total_seconds(self) -> float:
        """Time of the training: its steps, cold ones included, and everything else that a longer training repeats."""
        return max(float(self.steps.seconds.sum()), self.account.training_seconds, 1e-9)

    @cached_property
    def training_seconds(self) -> float:
        """Everything that a longer training repeats: what the first steps trace and compile is paid once."""
        return max(self.account.training_seconds or self.total_seconds, 1e-9)

    def fraction_of_training(self, seconds: float) -> float:
        """The one meaning of "of the time" in verdicts and findings, so that they agree."""
        return min(seconds / self.training_seconds, 1.0)

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

    def steady_mean(self, seconds: np.ndarray) -> float:
        """Mean over the steady steps."""
        return float(seconds[self.steady].mean())

    def typical(self, seconds: np.ndarray) -> float:
        """Median over the steady steps; on a busy machine what the faster ones take, because other processes only add to it."""
        return float(np.quantile(seconds[self.steady], QUANTILE_ON_A_BUSY_MACHINE if self.is_busy else 0.5))

    @property
    def typical_step(self) -> float:
        """Seconds of a typical steady step; on a busy machine hardly any step has all of its parts undisturbed."""
        if not self.is_busy:
            return self.typical(self.steps.seconds)
        steps = self.steps
        return sum(self.typical(part) for part in (steps.wait, steps.host, steps.device, steps.graph_python))

    @cached_property
    def within_epoch(self) -> np.ndarray:
        """Mask of the steady steps that do not begin an epoch: the start of a pipeline says nothing about its speed."""
        within = self.steady & ~self.steps.is_epoch_start
        return within if within.sum() >= 0.5 * self.steady.sum() else self.steady

    @cached_property
    def has_tiny_epochs(self) -> bool:
        """`fit` takes one or two batches per epoch: what it waits for is the start of its pipeline."""
        starts = int(self.steps.is_epoch_start.sum())
        return self.steps.kind == "fit" and starts >= 3 and len(self.steps) <= 2 * starts

    @cached_property
    def wait_fraction(self) -> float:
        """Fraction of the steady time spent waiting for data."""
        if self.has_tiny_epochs:
            return 0.0
        return float(self.wait_seconds / max(self.steps.seconds[self.within_epoch].sum(), 1e-9))

    @cached_property
    def wait_per_step(self) -> float:
        """Seconds waited in a steady step, on average."""
        return self.wait_seconds / max(int(self.within_epoch.sum()), 1)

    @cached_property
    def wait_seconds(self) -> float:
        """Seconds waited in all steady steps, or that they would have waited if other processes had not slowed them down."""
        whole = float(self.steps.seconds[self.within_epoch].sum())
        return max(float(self.steps.wait[self.within_epoch].sum()), self.outpaced_fraction * whole)

    @cached_property
    def processor_seconds(self) -> tuple[float, float]:
        """Processor time of the Python in the pipeline, and of everything else in the script, from the first steady step on."""
        first, last = float(self.steps.start[self.steady][0]), float(self.steps.end[self.steady][-1])
        inside = sum(call.processor_seconds for call in self.recording.pipeline_python if first <= call.start <= last)
        samples = np.array(self.recording.processor_samples).reshape(-1, 2)
        if len(samples) < 2:
            return inside, float("inf")
        begin, end = np.interp([first, last], samples[:, 0], samples[:, 1])
        own = sum(after - before for before, after in self.recording.sampler_spans if first <= before <= last)
        return inside, max(float(end - begin) - inside - own, 0.0)

    @cached_property
    def outpaced_fraction(self) -> float:
        """The fraction of each step in which it would wait for the Python of its pipeline, if both had a core.

        On a busy machine the step waits for a processor, not for its data, whatever takes longer. Processor times do not
        depend on other processes: Python that needs more of it than the rest of the process cannot be ahead of the step.
        """
        python, rest = self.processor_seconds
        if not self.is_busy or self.recording.has_accelerator or python <= rest:
            return 0.0
        return 1.0 - rest / python

    def is_ongoing(self, moments: list[float], calls: int, seconds: float) -> bool:
        """Whether something keeps happening, rather than once for each of a closed set of cases.

        Buckets are traced once each, early, and then reused; so are the stages of a curriculum, later. A function that retraces
        is also traced in the second half, or is rarely called twice for one trace.
        """
        late = sum(moment > self.middle for moment in moments)
        small = (0.2 if self.is_busy else 0.1) * self.total_seconds  # tracing is slow without a core of its own
        is_reused = calls >= CALLS_OF_A_REUSED_TRACE * (len(moments) + 1) and seconds < small
        return len(moments) >= 2 and not is_reused and (late >= 2 or calls < 3 * (len(moments) + 1))

    @property
    def is_busy(self) -> bool:
        """Whether other processes kept the cores busy: times are uncertain."""
        return self.recording.machine_load is not None and self.recording.machine_load.is_busy

    @cached_property
    def feeding_samples(self) -> list[tuple[float, int, SourceLocation]]:
        """The samples of the user's generators that a `for` or `next()` takes from; `sum(x for x in y)` feeds no step."""
        return [
            sample
            for sample in self.recording.generator_samples
            if source_text(sample[2]).startswith(("for ", "async for ")) or "next(" in source_text(sample[2])
        ]

    @cached_property
    def generator_fraction(self) -> float:
        """Fraction of the host's steady time in which one of the user's own generators made the next batch for the loop."""
        samples = self.recording.line_samples
        if not samples or not self.feeding_samples:
            return 0.0
        steady = np.flatnonzero(self.steady)
        inside = np.array([time for time, _, _ in self.feeding_samples])
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
        effect: str = "",
    ) -> Finding:
        """A finding with its fraction of everything that a longer training repeats."""
        others = _other_lines(also, location)
        every = tuple(dict.fromkeys((location, *locations)))
        fraction = self.fraction_of_training(gain)
        return Finding(issue, what, evidence, location, fix, gain, fraction, every, others, effect)

    def lines_in(
        self, steps: np.ndarray, only_host: bool = True, is_of_loop: bool = False
    ) -> list[tuple[SourceLocation, float]]:
        """The lines that the training thread was seen at in the given steps, with their fraction, most first.

        Args:
            steps: Mask of the steps.
            only_host: Leave out moments at which a watched call was open.
            is_of_loop: The lines of the function that holds the training loop, whatever they called.
        """
        seen = prompt_samples(self._samples_in(steps, only_host))
        indices = np.array([self._line_of_loop(sample) if is_of_loop else sample.line for sample in seen], int)
        counts = np.bincount(indices, minlength=len(self.recording.lines))
        total = max(int(counts.sum()), 1)
        order = np.argsort(-counts)
        return [
            (self.recording.lines[index], float(counts[index] / total)) for index in order[:20] if counts[index] > 0
        ]

    def count_prompt_samples(self, steps: np.ndarray) -> int:
        """How many samples that came when they were due saw Python in the given steps."""
        return sum(sample.is_prompt for sample in self._samples_in(steps, only_host=True))

    def fraction_in_next(self, steps: np.ndarray) -> float:
        """Fraction of the Python in these steps that is an iterator of TensorFlow's own, as that of a strategy."""
        seen = prompt_samples(self._samples_in(steps, only_host=True))
        return sum(sample.activity == "next" for sample in seen) / max(len(seen), 1)

    def _samples_in(self, steps: np.ndarray, only_host: bool) -> list[LineSample]:
        samples = self.recording.line_samples
        times = np.array([sample.time for sample in samples])
        chosen = np.isin(self.steps.window_of(times), np.flatnonzero(steps))
        if only_host:
            chosen &= ~self._is_inside_calls(times)
        return [samples[index] for index in np.flatnonzero(chosen)]

    def _line_of_loop(self, sample: LineSample) -> int:
        loop = self.steps.location
        for index in (sample.line, *sample.callers):
            line = self.recording.lines[index]
            if (line.file, line.function, line.definition_line) == (loop.file, loop.function, loop.definition_line):
                return index
        return sample.line

    def _is_inside_calls(self, times: np.ndarray) -> np.ndarray:
        """Whether a watched call (a function, a fetch of a batch or value), or this diagnosis, was at work at each moment."""
        return is_inside(watched_calls(self.recording) + self.recording.own_spans, times)


def _other_lines(locations: tuple[SourceLocation, ...], named: SourceLocation) -> tuple[SourceLocation, ...]:
    """Each line once, without the named one: a call and a definition on one line are different locations."""
    lines = {(one.file, one.line): one for one in reversed(locations) if one.line > 0 and is_user_code(one.file)}
    lines.pop((named.file, named.line), None)
    return tuple(one for one in dict.fromkeys(locations) if lines.get((one.file, one.line)) is one)
