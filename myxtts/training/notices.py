"""What goes wrong beside the training, told once: a run does not end because its log cannot be written."""

from __future__ import annotations

import threading
from collections.abc import Callable

from myxtts.errors import MyXTTSError
from myxtts.runtime.disk import cause_of, is_full


class Notices:
    """One line for each thing that could not be done, through `tell`; any thread may call."""

    def __init__(self, tell: Callable[[str], None]):
        self._tell = tell
        self._told: set[str] = set()
        self._lock = threading.Lock()

    def unwritten(self, what: str, error: OSError) -> None:
        """A file of the run could not be written; `what` begins the line, such as "The log run/log.jsonl"."""
        hint = "; it is written again when there is space" if is_full(error) else " without it"
        self._once(what, f"{what} cannot be written: {cause_of(error)}. Training goes on{hint}.")

    def undone(self, what: str, error: OSError | MyXTTSError) -> None:
        """Something for the log could not be made; `what` begins the line, such as "Spoken samples"."""
        cause = f"{cause_of(error)}." if isinstance(error, OSError) else str(error)
        self._once(what, f"{what} could not be made: {cause} Training goes on.")

    def _once(self, what: str, line: str) -> None:
        with self._lock:
            is_new = what not in self._told
            self._told.add(what)
        if is_new:
            self._tell(line)
