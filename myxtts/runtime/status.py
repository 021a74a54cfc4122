"""How a running training reports to other processes: two files in its folder.

`status.json` holds the newest metrics and is replaced as a whole; `steps.csv` gets one line per step. Both are written at a
bounded rate, so they cost the training next to nothing. Readers (`gpu_monitor.py --run DIR`, the diagnosis, the studio) never
block it. `LOG_NAME` is the log of losses that `myxtts.training.run_log` writes.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from myxtts.errors import DiagnosisError
from myxtts.runtime.safe_files import append_whole, write_atomically

STATUS_FILE = "status.json"
STEPS_FILE = "steps.csv"
LOG_NAME = "log.jsonl"
ALIGNMENT_FILE = "alignment.png"
"""The newest picture of the alignment."""
OLDER_STEPS_FILE = "steps.older.csv"
STEP_COLUMNS = ("step", "unix_seconds", "wait_seconds", "host_seconds", "device_seconds", "group")
MOST_BYTES_OF_STEPS = 40_000_000
"""About 500,000 steps; then the file is renamed to `steps.older.csv` and a new one begins."""
MOST_BYTES_OF_STEP = 96
"""More than any line of `steps.csv` has: six numbers of at most 15 digits."""
MOST_STEPS_WAITING = 10_000
"""Steps kept in memory while the file cannot be written; older ones are dropped."""


@dataclass(frozen=True)
class RunStatus:
    """The newest metrics of one training; the field names are the keys of `status.json`."""

    state: str
    """starting | training | validating | saving | finished | failed"""
    step: int
    unix_seconds: float
    """When it was written."""
    process_id: int
    process_start: float
    wait_share: float = 0.0
    """Fraction of the step time spent waiting for data; the next two: in Python, and on the device."""
    host_share: float = 0.0
    device_share: float = 0.0
    mean_step_seconds: float = 0.0
    std_step_seconds: float = 0.0
    step_cv: float = 0.0
    traces: int = 0
    compilations: int | None = None
    signatures: int = 0
    retraces: int = 0
    figures: dict[str, Any] = field(default_factory=dict)
    """Other metrics that the trainer shows: loss, useful frames per second, padding."""
    total_steps: int | None = None
    """At which the run ends."""
    deadline_unix_seconds: float | None = None
    """When `training.max_minutes` are over; None without a limit."""
    account: dict[str, float] = field(default_factory=dict)
    """After the end: seconds of the whole run by part (`StageTimers.account`)."""

    def is_running(self) -> bool:
        """Whether the process that wrote this is alive; its start time shows whether its id was given to another process."""
        try:
            return abs(psutil.Process(self.process_id).create_time() - self.process_start) < 2.0
        except psutil.NoSuchProcess:
            return False


class StatusWriter:
    """Writes both files of a run; `add_step` and `update` are cheap and reach the disk at most every `interval_seconds`.

    If something cannot be written, `update` raises OSError, the files stay as they were, and the next update writes it.
    """

    def __init__(self, run_directory: str | Path, interval_seconds: float = 1.0):
        self._directory = Path(run_directory)
        self._interval = interval_seconds
        self._fixed = {"process_id": os.getpid(), "process_start": psutil.Process().create_time()}
        self._lines: list[str] = []
        self._fields: dict[str, Any] = {"state": "starting", "step": 0}
        self._written_at = float("-inf")

    def add_step(self, step: int, wait: float, host: float, device: float, *, group: int = 0) -> None:
        """Add one finished step with its seconds, as returned by `StepClock.finish`; `group` is the index of its shape."""
        self._lines.append(f"{step},{time.time():.3f},{wait:.6f},{host:.6f},{device:.6f},{group}\n")

    def update(self, force: bool = False, **fields: Any) -> bool:
        """Set fields of `RunStatus`; write if `force`, or if the last write was long enough ago. Returns whether it wrote."""
        self._fields.update(fields)
        now = time.monotonic()
        if not force and now - self._written_at < self._interval:
            return False
        if self._written_at == float("-inf"):
            self._directory.mkdir(parents=True, exist_ok=True)
        self._written_at = now
        self._append_steps()
        status = RunStatus(unix_seconds=time.time(), **self._fixed, **self._fields)
        write_atomically(self._directory / STATUS_FILE, json.dumps(asdict(status)), is_durable=False)
        return True

    def _append_steps(self) -> None:
        if not self._lines:
            return
        del self._lines[:-MOST_STEPS_WAITING]
        path = self._directory / STEPS_FILE
        if path.exists() and path.stat().st_size >= MOST_BYTES_OF_STEPS:
            os.replace(path, self._directory / OLDER_STEPS_FILE)
        append_whole(path, "".join(self._lines).encode("ascii"), header=(",".join(STEP_COLUMNS) + "\n").encode("ascii"))
        self._lines.clear()


def read_status(run_directory: str | Path) -> RunStatus:
    """The newest status of the training in a folder."""
    path = Path(run_directory) / STATUS_FILE
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        return RunStatus(**fields)
    except FileNotFoundError:
        raise DiagnosisError(
            f"There is no status of a training. Received: {path}. "
            "Expected: the checkpoint folder of a run (training.checkpoint_dir) that contains status.json."
        ) from None
    except (OSError, ValueError, TypeError) as error:
        raise DiagnosisError(f"{path} is not the status of a training: {error}. Start the training again.") from None


def read_steps(run_directory: str | Path, last: int | None = None) -> np.ndarray:
    """The steps of a run, oldest first, as a structured array with the columns of `steps.csv`.

    An incomplete last line is skipped. With `last` only the end of the file is read, however long the run is.
    """
    dtype = np.dtype([(name, np.int64 if name in ("step", "group") else np.float64) for name in STEP_COLUMNS])
    path = Path(run_directory) / STEPS_FILE
    try:
        lines = _last_lines(path, last)
        rows = [
            (int(fields[0]), *map(float, fields[1:5]), int(fields[5]))
            for fields in (line.split(",") for line in lines)
            if len(fields) == len(STEP_COLUMNS)
        ]
    except FileNotFoundError:
        return np.zeros(0, dtype)
    except ValueError as error:
        raise DiagnosisError(f"{path} is damaged: {error}. Remove it; the training creates a new one.") from None
    return np.array(rows if last is None else rows[-last:], dtype)


def _last_lines(path: Path, count: int | None) -> list[str]:
    """The last `count` whole lines of the file (None: all) without its header, possibly a few more."""
    with open(path, "rb") as file:
        if count is not None:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - (count + 2) * MOST_BYTES_OF_STEP))
            if file.tell() > 0:
                file.readline()  # most likely only the end of a line
        content = file.read().decode("ascii")
    lines = content.split("\n")[:-1]  # what follows the last line break is incomplete
    return lines[1:] if lines and lines[0].startswith(STEP_COLUMNS[0]) else lines
