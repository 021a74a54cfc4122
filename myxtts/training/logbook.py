"""Everything that is written about a run while it runs: JSON lines, TensorBoard, pictures, spoken sentences.

All of it happens in one background thread; the loop only hands over numbers. `log.jsonl` has one object a line.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

LOG_NAME = "log.jsonl"


class Logbook:
    """Takes entries without ever waiting for the disk. An error of the writing thread is raised at `close`."""

    def __init__(self, folder: Path, tensorboard_folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self._lines = (folder / LOG_NAME).open("a", encoding="utf-8")
        self._summaries = tf.summary.create_file_writer(str(tensorboard_folder))
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._work, name="logbook", daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[], None]) -> None:
        """Run something later, in the logbook's thread."""
        self._jobs.put(job)

    def scalars(self, kind: str, step: int, values: Mapping[str, float]) -> None:
        """Numbers of a step: one JSON line, and one TensorBoard curve each."""

        def write():
            line = {"kind": kind, "step": step} | {name: _plain(value) for name, value in values.items()}
            self._lines.write(json.dumps(line) + "\n")
            self._lines.flush()
            with self._summaries.as_default():
                for name, value in values.items():
                    tf.summary.scalar(f"{kind}/{name}", value, step=step)

        self.submit(write)

    def picture(self, name: str, step: int, pixels: np.ndarray) -> None:
        """An RGB picture uint8 (height, width, 3); call it from a job."""
        with self._summaries.as_default():
            tf.summary.image(name, pixels[np.newaxis], step=step)

    def audio(self, name: str, step: int, samples: np.ndarray, sample_rate: int) -> None:
        """Mono audio; call it from a job."""
        with self._summaries.as_default():
            tf.summary.audio(name, samples[np.newaxis, :, np.newaxis], sample_rate, step=step, max_outputs=1)

    def close(self) -> None:
        """Write what is left; raises what the thread could not do."""
        self._jobs.put(None)
        self._thread.join()
        self._summaries.close()
        self._lines.close()
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception as error:
                self._error = self._error or error


def _plain(value: float) -> float | int | str:
    number = float(value)
    if not np.isfinite(number):
        return str(number)  # JSON has no NaN
    return int(number) if number.is_integer() else round(number, 6)
