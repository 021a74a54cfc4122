"""The console of a run: progress with and without a terminal, tables."""

import io

import pytest
from rich.console import Console

from myxtts.training.display import Display, LiveMetrics
from tests.training.small_runs import quiet_display, text_of


class Clock:
    """Seconds that pass only when the test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_without_a_terminal_training_prints_one_line_every_ten_seconds(clock):
    display = quiet_display(clock)
    with display.training(1000, 100):
        for step in range(101, 161):
            clock.now += 0.5
            if step == 110:
                display.metrics(LiveMetrics(1.25, 7900.4, 0.0012))
            display.advance(step)
    assert text_of(display).splitlines() == [
        "training: 120 of 1,000 (12 %), 7 min 20 s left, loss 1.250 | 7,900 useful frames/s | waiting 0.1%",
        "training: 140 of 1,000 (14 %), 7 min 10 s left, loss 1.250 | 7,900 useful frames/s | waiting 0.1%",
        "training: 160 of 1,000 (16 %), 7 min 0 s left, loss 1.250 | 7,900 useful frames/s | waiting 0.1%",
    ]


def test_without_a_terminal_a_long_validation_prints_lines(clock):
    display = quiet_display(clock)
    with display.training(1000, 0):
        for batches in range(1, 12):
            display.validating(batches)
            clock.now += 1.0
    assert text_of(display).splitlines() == ["validating: 11"]


def test_the_time_left_ends_with_the_limit_of_the_run(clock):
    display = quiet_display(clock)
    with display.training(1000, 0, most_seconds=60.0):
        for step in range(1, 61):
            clock.now += 1.0
            display.advance(step)
    left = [line.split(", ")[1] for line in text_of(display).splitlines()]
    assert left == ["50 s left", "40 s left", "30 s left", "20 s left", "10 s left", "0 s left"]


@pytest.mark.parametrize(("most_seconds", "left"), [(None, "1 min 30 s left"), (50.0, "40 s left")])
def test_a_bar_shows_the_earlier_end(clock, most_seconds, left):
    console = Console(file=io.StringIO(), width=120, force_terminal=True, force_interactive=True)
    display = Display(console, clock)
    with display.training(100, 0, most_seconds):
        for step in range(1, 11):
            clock.now += 1.0
            display.advance(step)
    assert left in text_of(display)


def test_on_a_terminal_training_shows_a_bar():
    display = Display(Console(file=io.StringIO(), width=120, force_terminal=True, force_interactive=True))
    with display.training(1000, 0):
        display.metrics(LiveMetrics(1.25, 7900.4, 0.0012))
        display.advance(120)
    assert "120/1000" in text_of(display)
    assert "loss 1.250 | 7,900 useful frames/s" in text_of(display)


def test_a_path_that_is_wider_than_the_console_is_shown_whole():
    display = Display(Console(file=io.StringIO(), width=40))
    path = "/a/long/folder/of/a/run/" + "x" * 60 + ".wav"
    display.table("What was measured", {"Checkpoint": path})
    cells = [line.split("│")[2].strip() for line in text_of(display).splitlines() if "│" in line]
    assert "".join(cells) == path
