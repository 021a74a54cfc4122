"""Progress on a terminal and where there is none."""

import io

from rich.console import Console

from myxtts.runtime.progress import BarProgress, LineProgress, duration, open_progress


class Clock:
    """Time that the test moves."""

    def __init__(self):
        self.seconds = 100.0

    def __call__(self):
        return self.seconds


def lines_and_clock(every_seconds=10.0):
    lines, clock = [], Clock()
    return LineProgress(lines.append, every_seconds, clock), lines, clock


def test_one_line_per_interval_with_the_time_left():
    progress, lines, clock = lines_and_clock()
    for done in range(101):
        progress("preparing clips", done, 400)
        clock.seconds += 0.25
    assert lines == [
        "preparing clips: 40 of 400 (10 %), 1 min 30 s left",
        "preparing clips: 80 of 400 (20 %), 1 min 20 s left",
    ]


def test_a_short_stage_prints_nothing():
    progress, lines, clock = lines_and_clock()
    for done in range(5):
        progress("checking", done, 4)
        clock.seconds += 1
    assert lines == []


def test_a_long_stage_prints_its_end_once():
    progress, lines, clock = lines_and_clock()
    progress("checking", 0, 2)
    clock.seconds += 12
    progress("checking", 1, 2)
    clock.seconds += 3
    progress("checking", 2, 2)
    progress("checking", 2, 2)
    assert lines == ["checking: 1 of 2 (50 %), 12 s left", "checking: 2 of 2 (100 %), took 15 s"]


def test_each_stage_has_its_own_time():
    progress, lines, clock = lines_and_clock()
    progress("first", 0, 10)
    clock.seconds += 9
    progress("second", 0, 10)
    clock.seconds += 9
    progress("second", 5, 10)
    assert lines == ["second: 5 of 10 (50 %), 9 s left"]


def test_stages_that_alternate_print_lines_and_keep_their_speed():
    progress, lines, clock = lines_and_clock()
    for done in range(0, 40, 4):
        for step in range(done, done + 4):
            progress("training", step, 400)
            clock.seconds += 1
        for batch in range(2):
            progress("validating", batch, None)
            clock.seconds += 0.5
    assert lines == [
        "training: 8 of 400 (2 %), 8 min 10 s left",
        "training: 16 of 400 (4 %), 8 min 0 s left",
        "training: 24 of 400 (6 %), 7 min 50 s left",
        "training: 32 of 400 (8 %), 7 min 40 s left",
    ]


def test_a_stage_that_begins_again_is_timed_from_its_new_beginning():
    progress, lines, clock = lines_and_clock()
    for _ in range(2):
        progress("speaking", 0, 4)
        clock.seconds += 10
        progress("speaking", 2, 4)
        clock.seconds += 5
        progress("speaking", 4, 4)
        progress("timing", 0, 1)
    assert lines == ["speaking: 2 of 4 (50 %), 10 s left", "speaking: 4 of 4 (100 %), took 15 s"] * 2


def test_a_stage_first_seen_at_its_end_claims_no_time():
    progress, lines, clock = lines_and_clock()
    clock.seconds += 10
    progress("checking", 4, 4)
    progress("checking", 4, 4)
    assert lines == ["checking: 4 of 4 (100 %)"]


def test_what_an_earlier_run_did_does_not_count_into_the_speed():
    progress, lines, clock = lines_and_clock()
    progress("training", 900, 1000)
    clock.seconds += 10
    progress("training", 910, 1000, "loss 1.500")
    assert lines == ["training: 910 of 1,000 (91 %), 1 min 30 s left, loss 1.500"]


def test_an_unknown_total_and_nothing_done_give_no_time_left():
    progress, lines, clock = lines_and_clock(every_seconds=1)
    progress("waiting", 0, None)
    clock.seconds += 2
    progress("waiting", 3, None)
    progress("decoding", 0, 5)
    clock.seconds += 2
    progress("decoding", 0, 5)
    assert lines == ["waiting: 3", "decoding: 0 of 5 (0 %)"]


def test_a_console_that_is_no_terminal_gets_lines():
    text = io.StringIO()
    with open_progress(Console(file=text, force_terminal=False)) as progress:
        assert isinstance(progress, LineProgress)
        progress.announce("[bold]12 clips to prepare[/bold] " + "long " * 40)
    assert text.getvalue() == "[bold]12 clips to prepare[/bold] " + "long " * 40 + "\n"


def test_a_terminal_gets_a_bar_and_lines_above_it():
    text = io.StringIO()
    with open_progress(Console(file=text, force_terminal=True, force_interactive=True, width=100)) as progress:
        assert isinstance(progress, BarProgress)
        progress("preparing clips", 1, 4, "loss 1.5")
        progress.announce("a line")
        progress("preparing clips", 4, 4)
        progress("checking", 0, 3)
    assert "a line" in text.getvalue()
    assert "checking" in text.getvalue()


def test_durations_are_short_and_readable():
    assert [duration(seconds) for seconds in (0.4, 59.4, 61, 3599, 3600, 7500)] == [
        "0 s",
        "59 s",
        "1 min 1 s",
        "59 min 59 s",
        "1 h 0 min",
        "2 h 5 min",
    ]
