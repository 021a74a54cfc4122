"""StepClock: every moment belongs to one stage, and the summary describes the steps."""

import time

import numpy as np
import pytest

from myxtts.runtime.timers import Stage, StageTimers, StepClock, robust_spread, summarize


def run_steps(clock: StepClock, steps: int, wait: float = 0.0) -> None:
    clock.begin()
    for _ in range(steps):
        time.sleep(wait)
        clock.mark(Stage.WAIT)
        clock.mark(Stage.DEVICE)
        clock.finish()


def test_waiting_and_working_are_counted_separately():
    clock = StepClock()
    run_steps(clock, 5, wait=0.002)
    summary = clock.summary()
    assert summary.wait_fraction > 0.8
    assert summary.wait_fraction + summary.host_fraction + summary.device_fraction == pytest.approx(1.0)


def test_a_pause_belongs_to_no_step():
    clock = StepClock()
    run_steps(clock, 2)
    time.sleep(0.05)
    run_steps(clock, 2)
    assert clock.total_seconds < 0.04


def test_the_newest_steps_are_kept_and_the_totals_cover_all():
    clock = StepClock(capacity_steps=4)
    run_steps(clock, 10, wait=0.001)
    assert clock.recent().shape == (4, 3)
    assert clock.summary().steps == 10
    assert clock.summary().mean_seconds == pytest.approx(clock.total_seconds / 10)


def test_groups_are_summarized_separately():
    clock = StepClock()
    for step in range(6):
        clock.mark(Stage.DEVICE)
        clock.finish(group=step % 2)
    assert clock.groups() == [0, 1]
    assert clock.summary(group=1).steps == 3


def test_robust_spread_ignores_a_stall_that_the_plain_one_shows():
    seconds = np.array([0.1] * 50 + [5.0])
    assert robust_spread(seconds) == 0.0
    stages = np.stack([np.zeros(51), np.zeros(51), seconds], axis=1)
    assert summarize(stages).std_over_mean > 1.0


def test_stage_timers_add_up():
    timers = StageTimers()
    timers.add("log", 0.5)
    timers.add("log", 0.25)
    with timers.stage("save"):
        time.sleep(0.002)
    assert timers.seconds("log") == 0.75
    assert timers.seconds("save") >= 0.002
    assert timers.seconds("never") == 0.0


def test_the_account_divides_the_whole_time_among_stages_and_steps():
    start = time.perf_counter()
    timers, clock = StageTimers(), StepClock()
    with timers.stage("validation"):
        time.sleep(0.01)
    run_steps(clock, 3, wait=0.002)
    account = timers.account(clock)
    assert account["validation"] >= 0.01
    assert account["steps_waiting"] == pytest.approx(clock.totals[Stage.WAIT])
    assert sum(account.values()) <= time.perf_counter() - start + 1e-3
    assert account["other"] >= 0
