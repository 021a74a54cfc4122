"""What a command shares with the terminal that started it: printable output, output that cannot be written, ending signals."""

from __future__ import annotations

import argparse
import io
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from myxtts.errors import MyXTTSError

ENDING_SIGNALS = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if hasattr(signal, name)  # Windows has no SIGHUP
)
_JOINERS = "\u200c\u200d"
"""Zero-width (non-)joiners: not printable by themselves, but part of words in Persian and other languages."""


def printable(text: str, *, keeps_lines: bool = True) -> str:
    """Escape control characters, which could move the cursor or hide text, in a text from an untrusted source.

    Args:
        text: for example a file name, or a line of a voice's description.
        keeps_lines: leave line breaks as they are.
    """
    kept = _JOINERS + "\n" if keeps_lines else _JOINERS
    return "".join(
        character if character.isprintable() or character in kept else ascii(character)[1:-1] for character in text
    )


class CommandParser(argparse.ArgumentParser):
    """Parses the arguments of a subcommand, whose options may come before, between and after its positional arguments.

    argparse takes an optional positional argument such as TEXT of `clone REFERENCE -o FILE TEXT` as missing where the first
    option begins, and then refuses it.
    """

    _is_intermixed = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """What argparse finds; if it leaves something, what it finds when it takes the options out first."""
        found = super().parse_known_args(args, namespace)
        takes_the_rest = any(action.nargs in (argparse.PARSER, argparse.REMAINDER) for action in self._actions)
        if not found[1] or takes_the_rest or self._is_intermixed or namespace is not None:
            return found
        self._is_intermixed = True  # `parse_known_intermixed_args` calls this method
        try:
            intermixed = self.parse_known_intermixed_args(args)
        finally:
            self._is_intermixed = False
        return found if intermixed[1] else intermixed


def add_action(actions: Any, name: str, help_line: str) -> argparse.ArgumentParser:
    """The parser of a subcommand, whose own help begins with its line in the list of subcommands."""
    return actions.add_parser(name, help=help_line, description=f"{help_line[0].upper()}{help_line[1:]}.")


def print_line(line: str) -> None:
    """Write one line to standard output."""
    sys.stdout.write(f"{line}\n")


def open_closed_streams() -> None:
    """Open /dev/null for standard streams that the caller has closed (`myxtts … >&-`), for which Python has no object.

    Otherwise a file that is opened later would get the descriptor of a standard stream, and what is printed with it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - it stays open


def escape_unencodable_characters() -> None:
    """Print characters that the output's encoding lacks (`LANG=C`) as `\\u…` instead of raising UnicodeEncodeError."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def flush_output() -> None:
    """Write what standard output still buffers; raises MyXTTSError if it cannot be written, e.g. to a full disk."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise MyXTTSError(f"Standard output cannot be written: {error.strerror}.") from None


def discard_unwritable_output() -> None:
    """Drop what cannot be written: otherwise Python tries again when it exits, and prints a traceback."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError), open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())


class _SignalState:
    """Shared by `exit_on_signals` and `signals_deferred`. Signal handlers belong to the process, so there is one instance."""

    def __init__(self):
        self.is_deferred = False
        self.pending: int | None = None

    def handle(self, number: int, frame: FrameType | None) -> None:
        """The signal handler: raise now, or when the deferring block ends."""
        if self.is_deferred:
            self.pending = number
        else:
            self.raise_exit(number)

    def raise_exit(self, number: int) -> None:
        self.pending = None
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)


_signals = _SignalState()


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """Inside the block SIGTERM and SIGHUP raise SystemExit(128 + n) and Ctrl-C raises KeyboardInterrupt.

    So the command leaves through its `with` blocks and removes its temporary files. Ignored signals stay ignored (nohup).
    """
    if not _is_main_thread():  # only the main thread may install handlers
        yield
        return
    defaults = (signal.SIG_DFL, signal.default_int_handler)
    previous = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
    previous = {number: handler for number, handler in previous.items() if handler in defaults}
    for number in previous:
        signal.signal(number, _signals.handle)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def signals_deferred() -> Iterator[None]:
    """Inside the block the signals of `exit_on_signals` are delayed; a pending one is raised at its end.

    For code in which an exception would be lost: a C library that calls back into Python (libsndfile) prints it and continues.
    """
    if not _is_main_thread() or _signals.is_deferred:
        yield
        return
    _signals.is_deferred = True
    try:
        yield
    finally:
        _signals.is_deferred = False
        if _signals.pending is not None:
            _signals.raise_exit(_signals.pending)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


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
