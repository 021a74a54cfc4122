"""Signals end a command with an exception, never inside a callback; untrusted text is printed without control characters."""

from __future__ import annotations

import os
import signal
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from myxtts.runtime.console import STOPPING, StopOnSignal, exit_on_signals, printable, signals_deferred


@pytest.mark.usefixtures("usual_hangup")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_gives_the_exit_code_that_a_shell_expects(number):
    with pytest.raises(SystemExit) as ended, exit_on_signals():
        os.kill(os.getpid(), number)
    assert ended.value.code == 128 + number
    assert signal.getsignal(number) == signal.SIG_DFL


def test_a_deferred_signal_is_raised_at_the_end_of_the_outermost_block():
    reached = []

    def work():
        with exit_on_signals(), signals_deferred():
            with signals_deferred():
                os.kill(os.getpid(), signal.SIGTERM)
            reached.append("the end of the deferring block")
        reached.append("more")

    with pytest.raises(SystemExit):
        work()
    assert reached == ["the end of the deferring block"]


def test_ctrl_c_stays_a_keyboard_interrupt():
    def work():
        with exit_on_signals(), signals_deferred():
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        work()


def test_an_ignored_signal_stays_ignored():
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with exit_on_signals():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, previous)


@given(st.text())
def test_printable_text_has_no_control_characters_and_keeps_words(text):
    shown = printable(text, keeps_lines=False)
    assert all(character.isprintable() or character in "\u200c\u200d" for character in shown)
    assert printable(shown, keeps_lines=False) == shown
    if text.isprintable():
        assert shown == text


def test_persian_joiners_and_requested_line_breaks_are_kept():
    assert printable("می\u200cروم\n\x1b[2J") == "می\u200cروم\n\\x1b[2J"
    assert printable("a\nb", keeps_lines=False) == "a\\nb"


def test_the_first_signal_is_answered_at_once_and_the_second_ends_the_run():
    lines = []
    with StopOnSignal(lines.append) as stop:
        signal.raise_signal(signal.SIGINT)
        deadline = time.monotonic() + 30
        while not lines and time.monotonic() < deadline:
            time.sleep(0.01)
        assert stop.is_requested
        assert lines == [STOPPING]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert lines == [STOPPING]


def test_a_signal_without_a_printer_only_sets_the_request():
    with StopOnSignal() as stop:
        signal.raise_signal(signal.SIGTERM)
    assert stop.is_requested
