"""The one lock: a folder that only one process at a time may write to, and a file next to the lock that names its holder.

The operating system releases the lock when its process ends, so a killed process leaves no lock behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from filelock import FileLock, Timeout

from myxtts.errors import TrainingError
from myxtts.runtime.progress import duration
from myxtts.runtime.safe_files import cause_of, write_atomically

POLL_SECONDS = 1.0
REMINDER_SECONDS = 60.0
"""Seconds between two attempts to acquire a lock, and between two lines about waiting for it. Chosen; not measured."""


class FolderIsLocked(Exception):
    """Another process holds the lock. The message names it."""


class FolderLock:
    """Exclusive access to one folder; use it with `with`, or call `wait` to block until it is free."""

    def __init__(self, folder: Path, name: str, *, is_shared_in_process: bool = False):
        """
        Args:
            folder: created when the lock is acquired.
            name: the lock file in `folder`; the holder's name is written to `name` + ".json".
            is_shared_in_process: several objects of one process may hold it together; otherwise they exclude each other.
        """
        self._folder, self._name, self._is_shared = folder, name, is_shared_in_process
        self._lock: FileLock | None = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def holder_path(self) -> Path:
        return self._folder / f"{self._name}.json"

    def acquire(self) -> None:
        """Acquire the lock now; raises `FolderIsLocked` if another process holds it, OSError if it cannot be created."""
        self._acquire(timeout=0.0)

    def wait(self, announce: Callable[[str], None]) -> None:
        """Acquire the lock as soon as it is free; `announce` gets lines that name the holder and the time waited so far."""
        started, reminder_seconds = time.monotonic(), 0.0
        while True:
            try:
                self._acquire(timeout=POLL_SECONDS)
                return
            except FolderIsLocked as locked:
                waited = time.monotonic() - started
                if waited >= reminder_seconds:
                    announce(f"Waiting for {locked}" + (f" ({duration(waited)} so far)." if reminder_seconds else "."))
                    reminder_seconds = waited + REMINDER_SECONDS

    def release(self) -> None:
        """Release the lock; does nothing if it is not held."""
        if self._lock is None:
            return
        lock, self._lock = self._lock, None
        if lock.lock_counter == 1:
            with contextlib.suppress(OSError):  # it is only used in the message for those who wait
                self.holder_path.unlink(missing_ok=True)
        lock.release()

    def _acquire(self, timeout: float) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self._folder.resolve() / self._name, thread_local=False, is_singleton=self._is_shared)
        try:
            lock.acquire(timeout=timeout, poll_interval=0.05)
        except Timeout:
            raise FolderIsLocked(self._holder()) from None
        self._lock = lock
        holder = {"process_id": os.getpid(), "host": socket.gethostname(), "unix_seconds": time.time()}
        with contextlib.suppress(OSError):  # a full disk does not prevent locking
            write_atomically(self.holder_path, json.dumps(holder), is_durable=False)

    def _holder(self) -> str:
        try:
            holder = json.loads(self.holder_path.read_text(encoding="utf-8"))
            since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(holder["unix_seconds"]))
            return f"process {holder['process_id']} on {holder['host']}, since {since}"
        except (OSError, ValueError, KeyError, TypeError):  # the holder has just started or just ended
            return "another process"


class RunLock(FolderLock):
    """One training per run folder: a second one is rejected at once, with the process id of the first."""

    NAME = "run.lock"

    def __init__(self, folder: Path):
        super().__init__(folder, self.NAME, is_shared_in_process=True)

    def acquire(self) -> None:
        """Acquire the lock; raises `TrainingError` if another process holds it or if it cannot be created."""
        try:
            super().acquire()
        except FolderIsLocked as locked:
            raise TrainingError(
                f"Another training uses {self._folder}: {locked}. Wait for it, stop it, or choose another --checkpoint-dir."
            ) from None
        except OSError as error:
            raise TrainingError(
                f"The run folder {self._folder} cannot be locked: {cause_of(error)}. Choose another --checkpoint-dir."
            ) from error
