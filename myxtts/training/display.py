"""What a person sees of a run: the configuration at the start, its progress, one table at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from myxtts.config.config import XTTSConfig
from myxtts.runtime.progress import BarProgress, LineProgress, open_progress

STATIC_SHAPES_NOTE = "✅ ENABLED - This prevents tf.function retracing and stabilizes GPU utilization"


@dataclass(frozen=True)
class Figures:
    """The live figures of a run."""

    loss: float
    useful_frames_per_second: float
    wait_share: float

    def __str__(self) -> str:
        return f"loss {self.loss:.3f} | {self.useful_frames_per_second:,.0f} useful frames/s | waiting {self.wait_share:.1%}"


class Display:
    """Prints to one console; the rest of the trainer prints nothing.

    On a terminal the progress is a bar. Elsewhere (nohup, Docker, `tee`) it is one line every ten seconds.
    """

    def __init__(self, console: Console | None = None):
        self.console = console or Console(highlight=False, soft_wrap=True)
        self._bar: Progress | None = None
        self._task = None
        self._lines: LineProgress | None = None
        self._total_steps = 0
        self._figures = ""

    def line(self, text: str) -> None:
        """One line, above the progress bar if there is one."""
        self.console.print(text, markup=False)

    def configuration(self, config: XTTSConfig, facts: Mapping[str, str], is_fixed: bool, max_mel_frames: int) -> None:
        """The promised lines, and what follows from the configuration on this corpus."""
        self.line("=== Final Training Configuration ===")
        self.line(f"Static shapes (pad_to_fixed_length): {is_fixed}")
        if is_fixed:
            self.line(STATIC_SHAPES_NOTE)
        self.line(f"Max text length: {config.data.max_text_length}")
        self.line(f"Max mel frames: {max_mel_frames}")
        for name, value in facts.items():
            self.line(f"{name}: {value}")

    def progress(self) -> AbstractContextManager[BarProgress | LineProgress]:
        """Progress of what comes before the training: `with display.progress() as progress: progress(stage, done, total)`."""
        return open_progress(self.console)

    @contextmanager
    def training(self, total_steps: int, first_step: int) -> Iterator[None]:
        """Show the progress of the loop."""
        self._total_steps, self._figures = total_steps, ""
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
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self.console,
            refresh_per_second=2,
        )
        try:
            with self._bar:
                self._task = self._bar.add_task("training", total=total_steps, completed=first_step, figures="")
                yield
        finally:
            self._bar = None

    def advance(self, step: int) -> None:
        """Report the steps that are done; cheap."""
        if self._bar is not None:
            self._bar.update(self._task, completed=step)
        elif self._lines is not None:
            self._lines("training", step, self._total_steps, self._figures)

    def validating(self, batches: int) -> None:
        """Report the batches of a validation that are done: on a terminal the bar stands still meanwhile."""
        if self._lines is not None:
            self._lines("validating", batches, None)

    def figures(self, figures: Figures) -> None:
        """Renew the figures of the progress."""
        self._figures = str(figures)
        if self._bar is not None:
            self._bar.update(self._task, figures=self._figures)

    def table(self, title: str, rows: Mapping[str, str]) -> None:
        """Two columns."""
        table = Table(title=title, show_header=False, title_justify="left")
        for name, value in rows.items():
            table.add_row(name, value)
        self.console.print(table)
