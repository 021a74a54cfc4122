"""Cyclic stalls: found with their period and size; noise, single long steps and steady steps are none."""

import itertools
import tracemalloc

import numpy as np
import pytest

from myxtts.diagnostics.observe.facts import Facts
from myxtts.diagnostics.observe.recording import Fetch, IteratorRecord, Recording
from myxtts.diagnostics.observe.rules_host import find_stalls
from myxtts.diagnostics.observe.split_steps import cut_steps, find_cyclic_stalls
from tests.diagnostics.observe.trainings import STEP, recorded_loop


def noisy(steps: int, seed: int = 0) -> np.ndarray:
    return 0.01 * (1 + 0.05 * np.random.default_rng(seed).standard_normal(steps))


@pytest.mark.parametrize("period", [4, 10, 25])
def test_regular_stalls_have_their_period_and_size(period):
    seconds = noisy(200)
    seconds[period - 1 :: period] += 0.03
    stalls = find_cyclic_stalls(seconds)
    assert stalls.period == period
    assert stalls.excess_seconds == pytest.approx(0.03, rel=0.1)
    assert stalls.fraction == pytest.approx(0.03 / (0.01 * period + 0.03), rel=0.15)


def test_steady_steps_have_none():
    assert find_cyclic_stalls(noisy(200)) is None


def test_one_long_step_is_none():
    seconds = noisy(100)
    seconds[50] = 1.0
    assert find_cyclic_stalls(seconds) is None


def test_irregular_long_steps_are_none():
    seconds = noisy(200)
    seconds[[3, 5, 41, 90, 97, 166, 171]] += 0.05
    assert find_cyclic_stalls(seconds) is None


def test_a_missed_stall_does_not_hide_the_period():
    seconds = noisy(200)
    seconds[9::10] += 0.05
    seconds[49] = 0.01
    assert find_cyclic_stalls(seconds).period == 10


@pytest.mark.parametrize("slow", [slice(0, 40), slice(60, 100), slice(90, 128)])
def test_stalls_are_found_while_other_processes_slow_down_a_part_of_the_run(slow):
    seconds = noisy(128)
    seconds[15::16] += 0.06
    seconds[slow] *= 8
    assert find_cyclic_stalls(seconds).period == 16


def test_part_of_the_run_that_is_slow_as_a_whole_is_none():
    seconds = noisy(128)
    seconds[40:80] *= 8
    assert find_cyclic_stalls(seconds) is None


def test_too_few_steps_are_none():
    assert find_cyclic_stalls(np.array([0.1, 0.2, 0.1])) is None


def test_long_steps_thrown_at_random_are_hardly_ever_taken_for_a_cycle():
    found = 0
    for seed in range(300):
        random = np.random.default_rng(seed)
        seconds = noisy(120, seed)
        seconds[random.choice(120, random.integers(4, 14), replace=False)] += random.uniform(0.02, 0.08)
        found += find_cyclic_stalls(seconds) is not None
    assert found <= 1


def test_stalls_of_varying_size_are_found_among_smaller_noise():
    random = np.random.default_rng(5)
    seconds = noisy(160)
    seconds[random.choice(160, 30, replace=False)] += random.uniform(0.005, 0.03, 30)
    seconds[19::20] += random.uniform(0.08, 0.8, 8)
    assert find_cyclic_stalls(seconds).period == 20


@pytest.mark.parametrize("steps", [10_000, 50_000])
def test_long_runs_are_judged_in_little_memory_and_time(steps):
    seconds = noisy(steps)
    seconds[4::5] += 0.03
    tracemalloc.start()
    stalls = find_cyclic_stalls(seconds)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert stalls.period == 5
    assert peak < 50e6


def test_iterator_of_a_validation_begins_no_epoch_and_one_of_the_training_does():
    recording = recorded_loop([0.01] * 40, wait=0.001)
    between = [call.end + 0.001 for call in recording.calls[9::10]]
    recording.iterators += [IteratorRecord(1 + index, -1, at, STEP) for index, at in enumerate(between)]
    recording.fetches += [Fetch(at, at + 0.001, 1 + index, 0, True) for index, at in enumerate(between)]
    recording.fetches.sort()
    assert np.flatnonzero(cut_steps(recording).is_epoch_start).tolist() == [0]
    later = [fetch for fetch in recording.fetches if fetch.iterator == 0][20:]
    for fetch in later:  # from here on the batches are those of the second new iterator
        recording.fetches[recording.fetches.index(fetch)] = fetch._replace(iterator=2)
    assert np.flatnonzero(cut_steps(recording).is_epoch_start).tolist() == [0, 20]


@pytest.mark.parametrize(("is_fed_by_keras", "findings"), [(True, 0), (False, 1)])
def test_start_of_keras_on_arrays_is_no_stall(is_fed_by_keras, findings):
    starts = np.cumsum([0.0] + [5.0 if step % 10 == 9 else 1.0 for step in range(100)])
    steps = cut_steps(Recording(marked_steps=list(itertools.pairwise(starts))))
    steps.is_epoch_start[9::10] = True
    facts = Facts(Recording(), steps)
    facts.__dict__.update(is_fed_by_keras=is_fed_by_keras, pipelines=[])
    assert len(list(find_stalls(facts))) == findings
