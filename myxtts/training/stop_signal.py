"""SIGINT and SIGTERM as a request to stop: the loop ends after the current step, and the run is saved."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

STOPPING = "Stopping after this step and saving. Press Ctrl-C again to quit now without saving."


class StopOnSignal:
    """Within it the first signal sets `is_requested`; a second one interrupts at once."""

    def __init__(self, announce: Callable[[str], None] = lambda line: None) -> None:
        """`announce` prints a line as soon as the first signal comes."""
        self.is_requested = False
        self._announce = announce
        self._previous: dict[int, Any] = {}
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._printer: threading.Thread | None = None

    def __enter__(self) -> StopOnSignal:
        if threading.current_thread() is threading.main_thread():  # Python delivers signals only there
            self._printer = threading.Thread(target=self._print_lines, name="stop-on-signal", daemon=True)
            self._printer.start()
            for signal_number in (signal.SIGINT, signal.SIGTERM):
                self._previous[signal_number] = signal.signal(signal_number, self._request)
        return self

    def __exit__(self, *_: object) -> None:
        for signal_number, handler in self._previous.items():
            signal.signal(signal_number, handler)
        if self._printer is not None:
            self._lines.put(None)
            self._printer.join()

    def _request(self, signal_number: int, frame: FrameType | None) -> None:
        del signal_number, frame
        if self.is_requested:
            raise KeyboardInterrupt
        self.is_requested = True
        # The signal may have come in the middle of a line, so another thread prints this one. A SimpleQueue is safe in handlers.
        self._lines.put(STOPPING)

    def _print_lines(self) -> None:
        while (line := self._lines.get()) is not None:
            self._announce(line)
