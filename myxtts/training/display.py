"""The console of a run: lines, a progress bar or progress lines, tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

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

from myxtts.runtime.progress import BarProgress, LineProgress, duration, earlier, open_progress


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
