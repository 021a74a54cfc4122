"""The console of a run: lines, a progress bar or progress lines, tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from myxtts.runtime.progress import BarProgress, LineProgress, open_progress


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


class Display:
    """Prints to one console; the rest of the trainer prints nothing.

    On a terminal the progress is a bar. Elsewhere (nohup, Docker, `tee`) it is one line every ten seconds.
    """

    def __init__(self, console: Console | None = None):
        self.console = console or Console(highlight=False, soft_wrap=True)
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._lines: LineProgress | None = None
        self._total_steps = 0
        self._note = ""

    def line(self, text: str) -> None:
        """One line, above the progress bar if there is one."""
        self.console.print(text, markup=False)

    def progress(self) -> AbstractContextManager[BarProgress | LineProgress]:
        """Progress of the work before the training: `with display.progress() as progress: progress(stage, done, total)`."""
        return open_progress(self.console)

    @contextmanager
    def training(self, total_steps: int, first_step: int) -> Iterator[None]:
        """Show the progress of the loop."""
        self._total_steps, self._note = total_steps, ""
        if not self.console.is_interactive:
            self._lines = LineProgress(self.line)
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
            TimeRemainingColumn(),
            console=self.console,
            refresh_per_second=2,
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
            self._lines("training", step, self._total_steps, self._note)

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
