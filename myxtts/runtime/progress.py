"""Progress of long work: a bar on a terminal, otherwise (nohup, Docker, CI, `tee`) one line every ten seconds.

Both are called as `progress(stage, done, total)`, as often as the caller likes, and print other lines with `announce`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

ProgressCallback = Callable[[str, int, int], None]
"""Called with the name of the stage, the number of items done and the total; e.g. a `LineProgress` or a `BarProgress`."""
LINE_SECONDS = 10.0
"""Seconds between two lines where there is no bar."""
BAR_SECONDS = 0.1
"""Seconds between two updates of the bar: calls may come thousands of times per second."""


@dataclass
class _StageState:
    """When a stage began, and how much of it is done."""

    first_done: int
    started_at: float
    done: int
    has_open_line: bool = False
    """Whether a line was printed before its end."""


class LineProgress:
    """Prints one line per `every_seconds` with the stage, done / total, the time left and a note.

    Stages may alternate (training, validating): each continues where it was, and restarts when `done` decreases.
    Work that takes less time prints nothing; a stage that printed a line also prints its end.
    """

    def __init__(
        self,
        write_line: Callable[[str], None],
        every_seconds: float = LINE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._write_line, self._every_seconds, self._clock = write_line, every_seconds, clock
        self._stages: dict[str, _StageState] = {}
        self._written_at = clock()

    def announce(self, line: str) -> None:
        """Print another line."""
        self._write_line(line)

    def __call__(
        self, stage: str, done: int, total: int | None, note: str = "", most_seconds_left: float | None = None
    ) -> None:
        """Report that `done` of `total` (None: unknown) are done.

        Args:
            note: added to the line, e.g. the loss.
            most_seconds_left: a limit of the work in time, at which it ends even if not all is done.
        """
        now = self._clock()
        if stage not in self._stages or done < self._stages[stage].done:
            self._stages[stage] = _StageState(done, now, done)
        state = self._stages[stage]
        state.done = done
        is_end = done == total
        if not (is_end and state.has_open_line) and now - self._written_at < self._every_seconds:
            return
        self._written_at, state.has_open_line = now, not is_end
        elapsed_seconds = now - state.started_at
        self._write_line(progress_line(stage, done, total, state.first_done, elapsed_seconds, note, most_seconds_left))


class BarProgress:
    """One bar for the running stage, drawn by `rich.progress.Progress`."""

    def __init__(self, bar: Any, clock: Callable[[], float] = time.monotonic):
        self._bar, self._clock = bar, clock
        self._stage: str | None = None
        self._task: Any = None
        self._drawn_at = 0.0

    def announce(self, line: str) -> None:
        """Print a line above the bar."""
        self._bar.console.print(line, markup=False, highlight=False)

    def __call__(self, stage: str, done: int, total: int | None, note: str = "") -> None:
        """Report that `done` of `total` (None: unknown) are done; `note` is shown next to the bar."""
        if stage != self._stage:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._stage, self._task = stage, self._bar.add_task(stage, total=total, completed=done, note=note)
        now = self._clock()
        if done == total or now - self._drawn_at > BAR_SECONDS:
            self._bar.update(self._task, completed=done, total=total, note=note)
            self._drawn_at = now


@contextlib.contextmanager
def open_progress(console: Console | None = None) -> Iterator[BarProgress | LineProgress]:
    """Progress on a console (default: standard error): a bar if it is a terminal, otherwise lines."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = console or Console(stderr=True, soft_wrap=True)
    if not console.is_interactive:
        yield LineProgress(lambda line: console.print(line, markup=False, highlight=False, soft_wrap=True))
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        yield BarProgress(bar)


def progress_line(
    stage: str,
    done: int,
    total: int | None,
    first_done: int,
    elapsed_seconds: float,
    note: str,
    most_seconds_left: float | None = None,
) -> str:
    """`preparing clips: 1,200 of 13,100 (9 %), 4 min 10 s left, …`.

    `first_done` were done when the stage began: a resumed run does not count them into its speed.
    """
    parts = [f"{done:,}" if total is None else f"{done:,} of {total:,}"]
    if total:
        parts[0] += f" ({100 * done // total} %)"
    if total is not None and done > first_done:
        if done == total:
            parts.append(f"took {duration(elapsed_seconds)}")
        else:
            seconds_left = (total - done) * elapsed_seconds / (done - first_done)
            parts.append(f"{duration(earlier(seconds_left, most_seconds_left))} left")
    if note:
        parts.append(note)
    return f"{stage}: {', '.join(parts)}"


def earlier(seconds: float, most_seconds: float | None) -> float:
    """Time to the end of work that also has a limit in time (None: it has none)."""
    return seconds if most_seconds is None else max(0.0, min(seconds, most_seconds))


def duration(seconds: float) -> str:
    """`45 s`, `3 min 20 s`, `2 h 5 min`."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"


def ignore_line(line: str) -> None:
    """For callers that print nothing."""


def ignore_progress(stage: str, done: int, total: int) -> None:
    """For callers that show no progress."""
