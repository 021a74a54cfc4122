"""What a person sees of a run: the configuration at the start, one progress bar, one table at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from myxtts.config.config import XTTSConfig


@dataclass(frozen=True)
class Figures:
    """The live figures of a run."""

    loss: float
    useful_frames_per_second: float
    wait_share: float


class Display:
    """Prints to one console; the rest of the trainer prints nothing."""

    def __init__(self, console: Console | None = None):
        self.console = console or Console(highlight=False, soft_wrap=True)
        self._progress: Progress | None = None
        self._task = None

    def line(self, text: str) -> None:
        """One line, above the progress bar if there is one."""
        self.console.print(text, markup=False)

    def configuration(self, config: XTTSConfig, facts: Mapping[str, str], is_fixed: bool, max_mel_frames: int) -> None:
        """The promised lines, and what follows from the configuration on this corpus."""
        self.line("=== Final Training Configuration ===")
        self.line(f"Static shapes (pad_to_fixed_length): {is_fixed}")
        self.line(f"Max text length: {config.data.max_text_length}")
        self.line(f"Max mel frames: {max_mel_frames}")
        for name, value in facts.items():
            self.line(f"{name}: {value}")

    @contextmanager
    def training(self, total_steps: int, first_step: int) -> Iterator[None]:
        """The progress bar of the loop."""
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self.console,
            refresh_per_second=2,
        )
        with self._progress:
            self._task = self._progress.add_task("training", total=total_steps, completed=first_step, figures="")
            yield
        self._progress = None

    def advance(self, step: int) -> None:
        """Move the bar; cheap."""
        if self._progress is not None:
            self._progress.update(self._task, completed=step)

    def figures(self, figures: Figures) -> None:
        """Renew the figures beside the bar."""
        if self._progress is not None:
            text = (
                f"loss {figures.loss:.3f} | {figures.useful_frames_per_second:,.0f} useful frames/s | "
                f"waiting {figures.wait_share:.1%}"
            )
            self._progress.update(self._task, figures=text)

    def table(self, title: str, rows: Mapping[str, str]) -> None:
        """Two columns."""
        table = Table(title=title, show_header=False, title_justify="left")
        for name, value in rows.items():
            table.add_row(name, value)
        self.console.print(table)
