"""SIGINT and SIGTERM as a wish to stop: the loop ends after the step it is in, and the run is saved."""

from __future__ import annotations

import signal
import threading
from types import FrameType


class StopOnSignal:
    """Within it the first signal sets `is_requested`; a second one interrupts at once."""

    def __init__(self) -> None:
        self.is_requested = False
        self._previous: dict[int, object] = {}

    def __enter__(self) -> StopOnSignal:
        if threading.current_thread() is threading.main_thread():  # Python delivers signals only there
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.is_requested:
            raise KeyboardInterrupt
        self.is_requested = True
