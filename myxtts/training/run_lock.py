"""One training per run folder: a lock of the operating system, and a file that names its holder.

The lock ends with the process that holds it, however that ends, so what a killed training left behind blocks nobody.
"""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path

from filelock import FileLock, Timeout

from myxtts.errors import TrainingError
from myxtts.runtime.disk import cause_of

LOCK_NAME = "run.lock"
HOLDER_NAME = "run.lock.json"


class RunLock:
    """The right to write into one run folder. It belongs to the process: several trainers of one process share it."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._lock: FileLock | None = None

    def __enter__(self) -> RunLock:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def acquire(self) -> None:
        """Take the lock; a `TrainingError` that names the holder if another process has it."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            folder = self._folder.resolve()
            lock = FileLock(folder / LOCK_NAME, thread_local=False, is_singleton=True)
            lock.acquire(timeout=0)
            self._lock = lock
            _write_holder(folder / HOLDER_NAME)
        except Timeout:
            raise TrainingError(
                f"Another training uses {self._folder}: {_described_holder(self._folder / HOLDER_NAME)}. Wait for it, stop it, "
                "or choose another --checkpoint-dir."
            ) from None
        except OSError as error:
            self.release()
            raise TrainingError(
                f"The run folder {self._folder} cannot be locked: {cause_of(error)}. Choose another --checkpoint-dir."
            ) from error

    def release(self) -> None:
        """Give the lock back; does nothing without one."""
        if self._lock is None:
            return
        lock, self._lock = self._lock, None
        if lock.lock_counter == 1:
            (self._folder / HOLDER_NAME).unlink(missing_ok=True)
        lock.release()


def _write_holder(path: Path) -> None:
    holder = {"process_id": os.getpid(), "host": socket.gethostname(), "unix_seconds": time.time()}
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(holder), encoding="utf-8")
    os.replace(partial, path)


def _described_holder(path: Path) -> str:
    try:
        holder = json.loads(path.read_text(encoding="utf-8"))
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(holder["unix_seconds"]))
        return f"process {holder['process_id']} on {holder['host']}, since {since}"
    except (OSError, ValueError, KeyError, TypeError):  # it has just started, or just ended
        return f"a process that has not written {HOLDER_NAME} yet"
