"""`myxtts` commands as processes with a folder: start, end, and find again what was started.

`launch.json` holds the command and the id of the process; what it prints is in `train.log`. Processes are in sessions of their
own, so they outlive the studio, and everything known about them is read from their folders again.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import psutil

from myxtts.errors import DiagnosisError, TrainingError
from myxtts.runtime.safe_files import TEMPORARY_SUFFIX, cause_of, read_regular_file, write_atomically
from myxtts.runtime.status import RunStatus, read_status
from myxtts.runtime.worker_process import child_environment, module_command

LAUNCH_NAME = "launch.json"
OUTPUT_NAME = "train.log"
MOST_LAUNCH_BYTES = 1 << 20
SHOWN_LOG_BYTES = 24_000
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_children: dict[int, subprocess.Popen[bytes]] = {}
"""Processes that this one started. They are polled so that ended ones do not stay as zombies."""


@dataclass(frozen=True)
class Launch:
    """How a run was started here; the content of `launch.json`."""

    arguments: tuple[str, ...]
    """Arguments of `myxtts`."""
    corpus: str = ""
    minutes: float | None = None
    wish: str = "run"
    """run | pause | stop: what the user asked for last."""
    process_id: int = 0
    process_start: float = 0.0

    def is_alive(self) -> bool:
        """Whether its process runs; the start time shows whether the id was given to another process."""
        return self.process_id > 0 and _is_alive(self.process_id, self.process_start)


def read_launch(folder: Path) -> Launch | None:
    """What `launch` wrote; None if a run was started elsewhere or the file is damaged."""
    try:
        content = json.loads(read_regular_file(folder / LAUNCH_NAME, MOST_LAUNCH_BYTES))
        return Launch(**(content | {"arguments": tuple(map(str, content["arguments"]))}))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def launch(folder: Path, planned: Launch) -> Launch:
    """Start `myxtts` with its output in the folder; the plan is on the disk before the process exists."""
    _write_launch(folder, planned)
    try:
        with open(folder / OUTPUT_NAME, "ab") as output:
            process = subprocess.Popen(
                module_command("myxtts.cli", *planned.arguments),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=child_environment() | {"PYTHONUNBUFFERED": "1", "COLUMNS": "120"},
            )
    except OSError as error:
        raise TrainingError(
            f"The training cannot be started: {cause_of(error)}. Free some space or memory, and start it again."
        ) from None
    _children[process.pid] = process
    started = replace(planned, process_id=process.pid, process_start=psutil.Process(process.pid).create_time())
    _write_launch(folder, started)
    return started


def is_unused(folder: Path) -> bool:
    """Whether nothing is in a folder but what a killed process was writing; also if it does not exist."""
    return not any(path.is_file() and path.suffix != TEMPORARY_SUFFIX for path in folder.rglob("*"))


def end_process(folder: Path, wish: str) -> None:
    """Ask a run to save and end (SIGTERM, once: a second one would end it without saving)."""
    launched = read_launch(folder)
    process = process_of(folder, launched)
    if process is None:
        raise TrainingError(f"{folder.name} is not running any more. Load the page again.")
    is_asked = launched is not None and launched.wish != "run"
    if launched is not None:
        _write_launch(folder, replace(launched, wish=wish))
    if not is_asked:
        os.kill(process[0], signal.SIGTERM)


def _write_launch(folder: Path, content: Launch) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / LAUNCH_NAME, json.dumps(asdict(content), ensure_ascii=False) + "\n")
    except OSError as error:
        raise TrainingError(
            f"{folder} cannot be written: {cause_of(error)}. Free some space, or check its permissions."
        ) from None


def _is_alive(process_id: int, process_start: float) -> bool:
    if process_id in _children and _children[process_id].poll() is not None:
        del _children[process_id]
    try:
        process = psutil.Process(process_id)
        is_same = abs(process.create_time() - process_start) < 2.0
        return is_same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def process_of(folder: Path, launched: Launch | None) -> tuple[int, float] | None:
    """Id and start of the process of a run, started here or elsewhere."""
    if launched is not None and launched.is_alive():
        return launched.process_id, launched.process_start
    status = status_of(folder)
    if status is not None and _is_alive(status.process_id, status.process_start):
        return status.process_id, status.process_start
    return None


def status_of(folder: Path) -> RunStatus | None:
    try:
        return read_status(folder)
    except DiagnosisError:
        return None


def read_output(path: Path) -> str:
    """The end of what a process printed, as plain text."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - SHOWN_LOG_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    lines = _ESCAPES.sub("", text).replace("\r\n", "\n").split("\n")
    # A progress bar returns to the start of its line: only what it shows last counts.
    return "\n".join(line.rpartition("\r")[2] for line in (lines[1:] if size > SHOWN_LOG_BYTES else lines))


def last_line(path: Path) -> str:
    """The last line that a process printed, which names its error if it failed."""
    lines = [line for line in read_output(path).splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""
