"""What a run prints: its configuration before the first step, progress, and what was measured after the last one.

`announcement`, `account_rows` and `RunSummary` make text of plain data; `Display` is the console that it goes to.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from myxtts.batches.plan import plan_kind
from myxtts.config.config import XTTSConfig
from myxtts.runtime.compilation import Counts
from myxtts.runtime.progress import BarProgress, LineProgress, duration, earlier, open_progress
from myxtts.runtime.timers import StepSummary

STATIC_SHAPES_NOTE = "✅ ENABLED - This prevents tf.function retracing and stabilizes GPU utilization"

PARTS = {
    "device": "finding the device",
    "corpus": "opening the corpus",
    "network": "building the network",
    "compile": "tracing, compiling",
    "steps_waiting": "steps: waiting for data",
    "steps_python": "steps: Python",
    "steps_device": "steps: device",
    "validation": "validation",
    "evaluation": "evaluation",
    "checkpoint": "checkpoints",
    "samples": "spoken samples",
    "other": "everything else",
}
"""Titles of the parts of `StageTimers.account`, in the order of the table."""


def account_rows(account: dict[str, float]) -> dict[str, str]:
    """The whole run by part: seconds and fractions that sum to all of it."""
    whole = max(sum(account.values()), 1e-9)
    rows = {title: account[part] for part, title in PARTS.items() if account.get(part, 0.0) > 0}
    return {title: f"{seconds:,.1f} s  {seconds / whole:.1%}" for title, seconds in rows.items()} | {
        "whole run": f"{whole:,.1f} s  100.0%"
    }


def announcement(config: XTTSConfig, max_mel_frames: int, facts: Mapping[str, str]) -> list[str]:
    """The first lines of a run as documented, and what follows from the configuration on this corpus and machine.

    Args:
        max_mel_frames: that the corpus is planned with.
        facts: lines about the hardware, the corpus and the network, by their titles.
    """
    is_fixed = plan_kind(config.data) == "fixed"
    return [
        "=== Final Training Configuration ===",
        f"Static shapes (pad_to_fixed_length): {is_fixed}",
        *([STATIC_SHAPES_NOTE] if is_fixed else []),
        f"Max text length: {config.data.max_text_length}",
        f"Max mel frames: {max_mel_frames}",
        *(f"{title}: {fact}" for title, fact in facts.items()),
    ]


@dataclass(frozen=True)
class RunSummary:
    """Measurements of one process's part of a run."""

    reason: str
    """Why the run stopped (`loop.StopReason`)."""
    step: int
    seconds: float
    loss: float | None
    best_validation: float | None
    useful_frames_per_second: float
    padding_fraction: float
    steps: StepSummary
    counts: Counts
    counts_after_warmup: Counts
    compile_seconds: float
    skipped_steps: int
    """Steps of the whole training whose loss or gradient was not finite."""
    scaled_down_steps: int
    """The gradient overflowed and the loss scale was lowered."""
    logging_fraction: float
    checkpoint: Path | None
    samples: list[Path]
    """Wavs of the fixed sentences."""

    def rows(self) -> dict[str, str]:
        """The table at the end of a run."""
        after = self.counts_after_warmup
        compilations = "not countable here" if after.compilations is None else str(after.compilations)
        return {
            "Stopped": str(self.reason),
            "Steps": f"{self.step:,} in all, {self.steps.steps:,} in this run, {self.seconds / 60:.1f} min",
            "Loss": "–" if self.loss is None else f"{self.loss:.4f}",
            "Best validation loss": "–" if self.best_validation is None else f"{self.best_validation:.4f}",
            "Useful frames/s": f"{self.useful_frames_per_second:,.0f}",
            "Padding": f"{self.padding_fraction:.1%} of the frames",
            "Waiting for data": f"{self.steps.wait_fraction:.2%} of the time of the steps",
            "Skipped steps": f"{self.skipped_steps:,}"
            + (f", and {self.scaled_down_steps:,} that lowered the loss scale" if self.scaled_down_steps else ""),
            "Step time": f"{self.steps.mean_seconds:.3f} s ± {self.steps.std_seconds:.3f} s "
            f"(robust spread {self.steps.step_cv:.1%})",
            "Traces": f"{self.counts.traces}, after the warm-up {after.traces}",
            "XLA compilations after the warm-up": compilations,
            "Time to compile": f"{self.compile_seconds:.1f} s",
            "Logging": f"{self.logging_fraction:.2%} of the time",
            "Checkpoint": str(self.checkpoint or "written by the chief"),
            "Speech to listen to": "\n".join(str(path) for path in self.samples) or "–",
        }


@dataclass(frozen=True)
class LiveMetrics:
    """The metrics that are shown while a run trains."""

    loss: float
    useful_frames_per_second: float
    wait_fraction: float
    unit: str = "frames"

    def __str__(self) -> str:
        speed = f"{self.useful_frames_per_second:,.0f} useful {self.unit}/s"
        return f"loss {self.loss:.3f} | {speed} | waiting {self.wait_fraction:.1%}"


class _TimeLeftColumn(ProgressColumn):
    """Time to the last step, or to the limit of the run if that is earlier."""

    def __init__(self, most_seconds_left: Callable[[], float | None]):
        super().__init__()
        self._most_seconds_left = most_seconds_left

    def render(self, task: Task) -> Text:
        """`4 min 10 s left`, once a step has been timed."""
        if task.time_remaining is None or task.finished:
            return Text("")
        return Text(f"{duration(earlier(task.time_remaining, self._most_seconds_left()))} left")


class Display:
    """Prints to one console; the rest of the trainer prints nothing.

    On a terminal the progress is a bar. Elsewhere (nohup, Docker, `tee`) it is one line every ten seconds.
    """

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic):
        self.console = console or Console(highlight=False, soft_wrap=True)
        self._clock = clock
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._lines: LineProgress | None = None
        self._total_steps = 0
        self._ends_at: float | None = None
        self._note = ""

    def line(self, text: str) -> None:
        """One line, above the progress bar if there is one."""
        self.console.print(text, markup=False)

    def progress(self) -> AbstractContextManager[BarProgress | LineProgress]:
        """Progress of the work before the training: `with display.progress() as progress: progress(stage, done, total)`."""
        return open_progress(self.console)

    @contextmanager
    def training(self, total_steps: int, first_step: int, most_seconds: float | None = None) -> Iterator[None]:
        """Show the progress of the loop. `most_seconds`: after so long it stops before its last step."""
        self._total_steps, self._note = total_steps, ""
        self._ends_at = None if most_seconds is None else self._clock() + most_seconds
        if not self.console.is_interactive:
            self._lines = LineProgress(self.line, clock=self._clock)
            self.advance(first_step)
            try:
                yield
            finally:
                self._lines = None
            return
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            _TimeLeftColumn(self._most_seconds_left),
            console=self.console,
            refresh_per_second=2,
            get_time=self._clock,
        )
        try:
            with self._bar:
                self._task = self._bar.add_task("training", total=total_steps, completed=first_step, note="")
                yield
        finally:
            self._bar = None

    def advance(self, step: int) -> None:
        """Report the steps that are done; cheap."""
        if self._bar is not None:
            self._bar.update(self._task, completed=step)
        elif self._lines is not None:
            self._lines("training", step, self._total_steps, self._note, self._most_seconds_left())

    def _most_seconds_left(self) -> float | None:
        return None if self._ends_at is None else self._ends_at - self._clock()

    def validating(self, batches: int) -> None:
        """Report the batches of a validation that are done, where progress is printed as lines."""
        if self._lines is not None:
            self._lines("validating", batches, None)

    def metrics(self, metrics: LiveMetrics) -> None:
        """Update the metrics next to the progress."""
        self._note = str(metrics)
        if self._bar is not None:
            self._bar.update(self._task, note=self._note)

    def table(self, title: str, rows: Mapping[str, str]) -> None:
        """Two columns; a value too wide for the console, such as a path, is wrapped, never cut."""
        table = Table(title=title, show_header=False, title_justify="left")
        table.add_column()
        table.add_column(overflow="fold")
        for name, value in rows.items():
            table.add_row(name, value)
        self.console.print(table)
