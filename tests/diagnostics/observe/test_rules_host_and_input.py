"""What keeps a device waiting: fetched values, slow input, regular stalls and Python between the steps, each at its line."""

import sys
import time
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from myxtts.diagnostics.observe import fixes, rules_input
from myxtts.diagnostics.observe.api import observe
from myxtts.diagnostics.observe.ceiling import Ceiling
from myxtts.diagnostics.observe.facts import Facts
from myxtts.diagnostics.observe.issues import Issue
from myxtts.diagnostics.observe.pipeline import DatasetStage, PipelineFacts, StageTime
from myxtts.diagnostics.observe.recording import FitStep, PyDatasetRecord, Recording
from myxtts.diagnostics.observe.report import build_report
from myxtts.diagnostics.observe.rules_host import find_idle_device
from myxtts.diagnostics.observe.split_steps import cut_steps
from tests.diagnostics.observe.trainings import STALL, STEP, Trainable, finding, issues_in, line_of, recorded_loop


def work() -> None:
    """Something for a step to take: a few milliseconds."""
    time.sleep(0.004)


def test_value_fetched_in_every_step_is_named_at_its_line():
    training = Trainable()

    def loop():
        for batch in training.dataset():
            loss = training.train_step(batch)
            float(loss)

    with observe() as observation:
        loop()
    assert finding(observation.report, Issue.HOST_SYNC).location.line == line_of(loop, "float(loss)")


def test_value_fetched_now_and_then_is_healthy():
    training = Trainable()
    with observe() as observation:
        for step, batch in enumerate(training.dataset()):
            loss = training.train_step(batch)
            if step % 10 == 0:
                float(loss)
    assert "host-sync" not in issues_in(observation.report)


def test_numpy_function_on_a_tensor_is_a_fetch(monkeypatch):
    monkeypatch.delitem(sys.modules, "numba", raising=False)  # another test may have loaded it
    training = Trainable()

    def loop():
        for batch in training.dataset():
            np.mean(training.train_step(batch))

    with observe() as observation:
        loop()
    assert finding(observation.report, Issue.HOST_SYNC).location.line == line_of(loop, "np.mean")


def test_weights_fetched_through_keras_in_every_step_are_a_fetch():
    training, layer = Trainable(), keras.layers.Dense(3)
    layer.build((None, 3))

    def loop():
        for batch in training.dataset():
            training.train_step(batch)
            layer.get_weights()

    with observe() as observation:
        loop()
    assert finding(observation.report, Issue.HOST_SYNC).location.line == line_of(loop, "get_weights")


def test_python_between_the_steps_is_named_at_the_line_of_the_loop_and_where_it_was_seen():
    training = Trainable()

    def simulate():
        work()

    def loop():
        for batch in training.dataset():
            simulate()
            training.train_step(batch)

    with observe() as observation:
        loop()
    found = finding(observation.report, Issue.DEVICE_IDLE)
    assert found.location.line == line_of(loop, "simulate()")
    assert line_of(work, "time.sleep") in {location.line for location in found.locations}
    assert "simulate()" in found.fix


def test_python_function_in_the_pipeline_is_found_in_its_graph():
    def slow(value):
        time.sleep(0.003)
        return value

    def prepare(value):
        return tf.ensure_shape(tf.numpy_function(slow, [value], tf.float32), (8, 64))

    training = Trainable()
    with observe() as observation:
        for batch in tf.data.Dataset.from_tensors(training.batch()).repeat(30).map(prepare):
            training.train_step(batch)
    report = observation.report
    found = finding(report, Issue.NUMPY_FUNCTION)
    assert found.location.line == line_of(prepare, "tf.numpy_function")
    assert "tf.numpy_function found in data pipeline!" in found.what
    assert "input-bound" in issues_in(report)
    assert report.verdict_class == "input-bound"


def test_plain_generator_in_the_loop_is_waiting_for_input():
    training = Trainable()

    def batches():
        for _ in range(30):
            time.sleep(0.005)
            yield training.batch()

    def loop():
        for batch in batches():
            training.train_step(batch)

    with observe() as observation:
        loop()
    assert finding(observation.report, Issue.INPUT_BOUND).location.line == line_of(loop, "in batches()")
    assert "device-idle" not in issues_in(observation.report)


def test_regular_stall_is_named_with_its_period_and_line():
    recording = recorded_loop(0.064 if step % 8 == 7 else 0.004 for step in range(64))
    found = finding(build_report(recording), Issue.CYCLIC_STALL)
    assert "every 8 steps one step takes 60.0 ms longer (in Python" in found.what
    assert found.location == STALL


def test_short_python_is_seen_at_its_own_line_and_threads_take_turns_as_before_afterwards():
    training, before = Trainable(), sys.getswitchinterval()

    def simulate():
        return sum(number * number for number in range(60_000))

    with observe() as observation:
        for batch in training.dataset(300):
            simulate()
            training.train_step(batch)
    assert sys.getswitchinterval() == before
    found = finding(observation.report, Issue.DEVICE_IDLE)
    assert line_of(simulate, "return sum") in {location.line for location in found.locations}


def test_python_between_the_steps_is_named_at_its_line():
    training = Trainable()
    with observe() as observation:
        for batch in training.dataset():
            training.train_step(batch)
            work()
    found = finding(observation.report, Issue.DEVICE_IDLE)
    assert line_of(work, "time.sleep") in {location.line for location in found.locations}
    assert observation.report.verdict_class == "host-bound"


def test_py_dataset_is_named_with_its_workers_at_its_getitem():
    class Clips(keras.utils.PyDataset):
        def __len__(self):
            return 20

        def __getitem__(self, index):
            time.sleep(0.02)
            return np.ones((4, 8), np.float32), np.ones((4, 2), np.float32)

    model = keras.Sequential([keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    with observe() as observation:
        model.fit(Clips(), verbose=0)
    found = finding(observation.report, Issue.FROM_GENERATOR)
    assert found.what == "Clips.__getitem__ makes each batch in Python, with 1 worker"
    assert found.location.line == line_of(Clips, "def __getitem__")
    assert found.fix.startswith("Clips(workers=")


def test_numpy_is_left_alone_where_numba_is_loaded(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", object())
    mean = np.mean
    with observe() as observation:
        assert np.mean is mean
    assert "NumPy's functions on tensors (Numba is loaded)" in observation._recording.failed_hooks


@pytest.mark.parametrize(("step_seconds", "findings"), [(0.0005, 0), (0.005, 1)])
def test_waiting_inside_keras_is_found_by_the_ceiling_where_counters_are_missing(step_seconds, findings):
    recording = Recording(counters_missing="off", fit_locations=[STEP])
    times = [(step * step_seconds, (step + 1) * step_seconds) for step in range(100)]
    recording.fit_steps = [FitStep(begin, end, 0, False) for begin, end in times]
    recording.ended_at = times[-1][1]
    ceiling = Ceiling(step_seconds, 0.6 * step_seconds, "", 0.9 * step_seconds, "")
    found = [one for one in build_report(recording, ceiling).findings if one.issue == Issue.INPUT_BOUND]
    assert len(found) == findings


class PlainFacts(Facts):
    """Facts whose pipelines and data a test sets."""

    pipelines = ()
    is_fed_by_keras = False


@pytest.mark.parametrize("is_prefetching", [True, False])
def test_fix_of_waiting_fits_the_pipeline(is_prefetching):
    facts = PlainFacts(Recording(), cut_steps(recorded_loop([0.01] * 5)))
    facts.pipelines = [SimpleNamespace(is_prefetching=is_prefetching, slowest=None, location=STEP)]
    assert ("prefetch" in rules_input._faster_input(facts)) != is_prefetching
    facts.is_fed_by_keras = True
    assert rules_input._faster_input(facts) == fixes.ARRAYS_TO_DATASET
    facts.recording.py_dataset = PyDatasetRecord("Clips", STEP, 1)
    assert rules_input._faster_input(facts).startswith("Clips(workers=")


@pytest.mark.parametrize(("slowed", "is_found"), [(0.012, True), (0.00125, False)])
def test_short_python_counts_on_a_machine_whose_threads_start_late(slowed, is_found):
    """1.25 ms of Python in each step; the device, alone a millisecond, waits 8 ms for a core."""
    recording = recorded_loop([0.00125, *[slowed, 0.00125] * 60], device=0.008, others=0.94)
    facts = Facts(recording, cut_steps(recording))
    assert len(list(find_idle_device(facts))) == is_found


@pytest.mark.parametrize(("python", "fed", "is_found"), [(0.002, 0.0, True), (0.002, 0.6, False), (0.008, 1.0, True)])
def test_python_with_which_tensorflow_hands_over_a_batch_is_not_the_scripts(python, fed, is_found):
    """Of 2 ms, as with the iterator of a strategy on a busy machine; 8 ms are more than that needs."""
    recording = recorded_loop([python] * 100, others=0.8)
    samples = recording.line_samples
    recording.line_samples = [
        sample._replace(activity="next" if index % 10 < 10 * fed else "python") for index, sample in enumerate(samples)
    ]
    steps = cut_steps(recording)
    assert steps is not None
    assert len(list(find_idle_device(Facts(recording, steps)))) == is_found


@pytest.mark.parametrize(
    ("is_from_arrays", "every", "others", "is_found"),
    [(True, 20, 0.8, False), (True, 1, 0.8, True), (True, 20, 0.0, True), (False, 20, 0.8, True)],
)
def test_few_long_waits_for_arrays_on_a_busy_machine_are_those_of_other_processes(
    is_from_arrays, every, others, is_found
):
    recording = recorded_loop([0.0002] * 200, device=0.002, others=others)
    steps = cut_steps(recording)
    assert steps is not None
    facts = PlainFacts(recording, steps)
    facts.steps.wait[::every] = 0.001 * every
    facts.steps.end[:] += facts.steps.wait
    stage = DatasetStage("map", "map(grab_batch)", STEP, is_users=not is_from_arrays)
    slow = (StageTime(stage, 0.0015, runs_parallel=True),)
    facts.pipelines = [PipelineFacts((stage,), STEP, 10, 20, slow, True, True, 0.0015, repeats=False)]
    facts.is_fed_by_keras = is_from_arrays
    found = [one for one in rules_input.find_input_problems(facts) if one.issue == Issue.INPUT_BOUND]
    assert len(found) == is_found
