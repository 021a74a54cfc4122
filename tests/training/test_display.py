"""What a run prints: the first lines, progress with and without a terminal, the last table."""

import io

import numpy as np
import pytest
from rich.console import Console

from myxtts.config.load import parse_config
from myxtts.runtime.compilation import Counts
from myxtts.runtime.timers import summarize
from myxtts.training.display import Display, LiveMetrics, RunSummary, account_rows, announcement
from myxtts.training.loop import StopReason
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


def summary(**changes):
    fields = {
        "reason": StopReason.TIME,
        "step": 1200,
        "seconds": 600.0,
        "loss": 1.23456,
        "best_validation": None,
        "useful_frames_per_second": 7978.6,
        "padding_fraction": 0.04,
        "steps": summarize(np.full((200, 3), 0.1)),
        "counts": Counts(traces=3, compilations=None, signatures=1),
        "counts_after_warmup": Counts(traces=0, compilations=None, signatures=0),
        "compile_seconds": 12.34,
        "skipped_steps": 1,
        "scaled_down_steps": 0,
        "logging_fraction": 0.0006,
        "checkpoint": None,
        "samples": [],
    }
    return RunSummary(**fields | changes)


def test_the_table_at_the_end_says_why_the_run_stopped_and_what_was_measured():
    rows = summary().rows()
    assert rows == rows | {
        "Stopped": "reached training.max_minutes",
        "Steps": "1,200 in all, 200 in this run, 10.0 min",
        "Loss": "1.2346",
        "Best validation loss": "–",
        "Useful frames/s": "7,979",
        "Padding": "4.0% of the frames",
        "Waiting for data": "33.33% of the time of the steps",
        "Skipped steps": "1",
        "Traces": "3, after the warm-up 0",
        "XLA compilations after the warm-up": "not countable here",
        "Time to compile": "12.3 s",
        "Logging": "0.06% of the time",
        "Speech to listen to": "–",
    }
    assert rows["Step time"].startswith("0.300 s ± 0.000 s")


def test_the_table_has_one_line_for_each_row_and_spoken_sample():
    display = quiet_display()
    rows = summary(samples=["samples/one.wav", "samples/two.wav"], scaled_down_steps=2, best_validation=0.5).rows()
    display.table("What was measured", rows)
    text = text_of(display)
    assert "What was measured" in text
    assert all(name in text for name in rows)
    assert "samples/one.wav" in text
    assert "samples/two.wav" in text
    assert "1, and 2 that lowered the loss scale" in text
    assert "0.5000" in text


@pytest.mark.parametrize("is_fixed", [True, False])
def test_the_promised_lines_come_first_and_the_facts_after_them(is_fixed):
    config = parse_config({"data": {"pad_to_fixed_length": is_fixed}})
    lines = announcement(config, 640, {"Device": "CPU (2 cores)"})
    assert lines == [
        "=== Final Training Configuration ===",
        f"Static shapes (pad_to_fixed_length): {is_fixed}",
        *(["✅ ENABLED - This prevents tf.function retracing and stabilizes GPU utilization"] if is_fixed else []),
        "Max text length: 200",
        "Max mel frames: 640",
        "Device: CPU (2 cores)",
    ]


def test_the_account_has_a_row_for_each_part_and_the_whole_run():
    rows = account_rows({"compile": 10.0, "steps_device": 80.0, "steps_waiting": 0.0, "validation": 9.0, "other": 1.0})
    assert rows == {
        "tracing, compiling": "10.0 s  10.0%",
        "steps: device": "80.0 s  80.0%",
        "validation": "9.0 s  9.0%",
        "everything else": "1.0 s  1.0%",
        "whole run": "100.0 s  100.0%",
    }
