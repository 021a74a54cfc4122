"""A command that is told to end (SIGTERM, SIGHUP, Ctrl-C) leaves through its `with` blocks and cleans up behind itself.

`clean_end` turns the signals into exceptions. `held_back` marks code in which an exception would be lost: a C library that
calls Python back (libsndfile) prints what is raised there and goes on. A signal waits until such code is through.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDING_SIGNALS = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if hasattr(signal, name)  # Windows has no SIGHUP
)


class _Ending:
    """What `clean_end` and `held_back` share: signals belong to the process, so there is one."""

    def __init__(self):
        self.is_held_back = False
        self.waiting: int | None = None

    def note(self, number: int, frame: FrameType | None) -> None:
        """The handler: end now, or as soon as nothing is held back any more."""
        if self.is_held_back:
            self.waiting = number
        else:
            self.end(number)

    def end(self, number: int) -> None:
        self.waiting = None
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)


_ending = _Ending()


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextmanager
def clean_end() -> Iterator[None]:
    """While inside, the signals end the command by an exception: exit code 128 + n. Signals that are ignored stay so (nohup)."""
    if not _is_main_thread():  # only the main thread may handle signals
        yield
        return
    usual = (signal.SIG_DFL, signal.default_int_handler)
    previous = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
    previous = {number: handler for number, handler in previous.items() if handler in usual}
    for number in previous:
        signal.signal(number, _ending.note)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def held_back() -> Iterator[None]:
    """While inside, the signals of `clean_end` wait; one that came is obeyed at the end."""
    if not _is_main_thread() or _ending.is_held_back:
        yield
        return
    _ending.is_held_back = True
    try:
        yield
    finally:
        _ending.is_held_back = False
        if _ending.waiting is not None:
            _ending.end(_ending.waiting)


# MERGED: A stranger's text as a terminal may show it: control characters, which move the cursor or hide text, are spelled out.

_JOINERS = "\u200c\u200d"
"""Not printable by themselves, but parts of Persian and other words."""


def printable(text: str, *, keeps_lines: bool = True) -> str:
    """The text with everything that cannot be printed written as an escape; line ends stay if `keeps_lines`."""
    kept = _JOINERS + "\n" if keeps_lines else _JOINERS
    return "".join(
        character if character.isprintable() or character in kept else ascii(character)[1:-1] for character in text
    )
