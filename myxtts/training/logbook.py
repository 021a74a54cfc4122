"""Everything that is written about a run while it runs: JSON lines, TensorBoard, pictures, spoken sentences.

All of it happens in one background thread; the loop only hands over numbers. `log.jsonl` has one object a line.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.errors import MyXTTSError
from myxtts.runtime.disk import append_whole
from myxtts.training.event_file import EventFile
from myxtts.training.notices import Notices

LOG_NAME = "log.jsonl"


class Logbook:
    """Takes entries without ever waiting for the disk.

    What the disk or the user's data make impossible is told once and the rest goes on; a defect of ours is raised at `close`.
    """

    def __init__(self, folder: Path, tensorboard_folder: Path, notices: Notices):
        self._path = folder / LOG_NAME
        self._events = EventFile(tensorboard_folder)
        self._notices = notices
        self._jobs: queue.SimpleQueue[tuple[str, Callable[[], None]] | None] = queue.SimpleQueue()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._work, name="logbook", daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[], object], what: str = "A picture or spoken sample for the log") -> None:
        """Run something later, in the logbook's thread; `what` begins the line that tells of its failure."""
        self._jobs.put((what, job))

    def scalars(self, kind: str, step: int, values: Mapping[str, float]) -> None:
        """Numbers of a step: one JSON line, and one TensorBoard curve each."""

        def write():
            self._write_line({"kind": kind, "step": step} | {name: _plain(value) for name, value in values.items()})
            self._write_event(self._events.scalars, step, {f"{kind}/{name}": value for name, value in values.items()})

        self.submit(write)

    def note(self, kind: str, step: int, **facts: float | str | list[str]) -> None:
        """Something that happened at a step: one JSON line."""
        plain = {name: _plain(fact) if isinstance(fact, float) else fact for name, fact in facts.items()}
        self.submit(lambda: self._write_line({"kind": kind, "step": step} | plain))

    def picture(self, name: str, step: int, pixels: np.ndarray) -> None:
        """An RGB picture uint8 (height, width, 3); call it from a job."""
        self._write_event(self._events.picture, name, step, pixels)

    def audio(self, name: str, step: int, samples: np.ndarray, sample_rate: int) -> None:
        """Mono audio; call it from a job."""
        self._write_event(self._events.audio, name, step, samples, sample_rate)

    def drain(self) -> None:
        """Wait until everything submitted so far is done: what follows may write where those jobs write (the voice)."""
        is_done = threading.Event()
        self.submit(is_done.set)
        is_done.wait()

    def close(self) -> None:
        """Write what is left; raises a defect that the thread met, never what was already told."""
        self._jobs.put(None)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _write_line(self, line: dict[str, Any]) -> None:
        try:
            append_whole(self._path, (json.dumps(line, ensure_ascii=False) + "\n").encode())
        except OSError as error:
            self._notices.unwritten(f"The log {self._path}", error)

    def _write_event(self, write: Callable[..., None], *arguments: object) -> None:
        try:
            write(*arguments)
        except OSError as error:
            self._notices.unwritten(f"TensorBoard's file {self._events.path}", error)

    def _work(self) -> None:
        while (entry := self._jobs.get()) is not None:
            try:
                self._attempt(*entry)
            except Exception as error:
                self._error = self._error or error

    def _attempt(self, what: str, job: Callable[[], object]) -> None:
        try:
            job()
        except (OSError, MyXTTSError) as error:
            self._notices.undone(what, error)


def _plain(value: float) -> float | int | str:
    number = float(value)
    if not np.isfinite(number):
        return str(number)  # JSON has no NaN
    return int(number) if number.is_integer() else float(f"{number:.7g}")
