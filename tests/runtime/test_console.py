"""Signals end a command by an exception, never in the middle of a callback."""

import os
import signal

import pytest

from myxtts.runtime.console import clean_end, held_back


@pytest.mark.usefixtures("usual_hangup")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_the_exit_code_that_a_shell_expects(number):
    with pytest.raises(SystemExit) as ended, clean_end():
        os.kill(os.getpid(), number)
    assert ended.value.code == 128 + number
    assert signal.getsignal(number) == signal.SIG_DFL


def test_a_signal_waits_while_it_is_held_back_and_is_then_obeyed():
    reached = []

    def work():
        with clean_end(), held_back():
            with held_back():
                os.kill(os.getpid(), signal.SIGTERM)
            reached.append("the end of what was held back")
        reached.append("more")

    with pytest.raises(SystemExit):
        work()
    assert reached == ["the end of what was held back"]


def test_an_interrupt_stays_an_interrupt():
    def work():
        with clean_end(), held_back():
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        work()


def test_an_ignored_signal_stays_ignored():
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with clean_end():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, previous)
