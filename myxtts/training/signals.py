"""SIGINT and SIGTERM as a request to stop: the loop ends after the current step, and the run is saved."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Callable
from types import FrameType

STOPPING = "Stopping after this step and saving. Press Ctrl-C again to quit now without saving."


class StopOnSignal:
    """Within it the first signal sets `is_requested`; a second one interrupts at once."""

    def __init__(self, tell: Callable[[str], None] | None = None) -> None:
        """`tell` gets a line at once when the first signal comes."""
        self.is_requested = False
        self._tell = tell
        self._previous: dict[int, object] = {}
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._teller: threading.Thread | None = None

    def __enter__(self) -> StopOnSignal:
        if threading.current_thread() is threading.main_thread():  # Python delivers signals only there
            if self._tell is not None:
                self._teller = threading.Thread(target=self._pass_on, name="stop-on-signal", daemon=True)
                self._teller.start()
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        if self._teller is not None:
            self._lines.put(None)
            self._teller.join()

    def _note(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self.is_requested:
            raise KeyboardInterrupt
        self.is_requested = True
        # The signal may have come in the middle of a line: another thread prints this one. Only this queue is made for handlers.
        self._lines.put(STOPPING)

    def _pass_on(self) -> None:
        while (line := self._lines.get()) is not None:
            self._tell(line)
