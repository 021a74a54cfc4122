"""A signal asks the loop to stop after its step; the second one interrupts."""

import signal
import time

import pytest

from myxtts.training.stop_signal import STOPPING, StopOnSignal


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
