"""The account of the whole run: every second belongs to one part, and the parts sum to the wall time."""

import time

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.diagnostics.observe.account import Part, _divide
from myxtts.diagnostics.observe.api import observe
from myxtts.diagnostics.observe.report import build_report
from myxtts.diagnostics.observe.split_steps import cut_steps
from tests.diagnostics.observe.trainings import Trainable, line_of, recorded_loop

spans = st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10)).map(sorted), max_size=8)


@given(layers=st.lists(spans, min_size=1, max_size=4))
@settings(deadline=None)
def test_any_spans_divide_the_time_without_gap_or_overlap(layers):
    arrays = [np.array(layer, float).reshape(-1, 2) for layer in layers]
    edges, owners = _divide(1.0, 9.0, arrays)
    assert np.diff(edges).sum() == pytest.approx(8.0)
    for index, width in zip(owners, np.diff(edges), strict=True):
        assert width > 0
        assert -1 <= index < len(layers)
    for index, layer in enumerate(arrays):  # the first layer has all of its own time
        if index == 0:
            covered = np.diff(edges)[owners == 0].sum()
            union = _union(np.clip(layer, 1.0, 9.0))
            assert covered == pytest.approx(union)


def _union(layer: np.ndarray) -> float:
    total, reached = 0.0, 1.0
    for start, end in sorted(layer.tolist()):
        total += max(end - max(start, reached), 0.0)
        reached = max(reached, end)
    return total


def test_parts_of_a_real_training_sum_to_the_wall_time():
    training = Trainable()

    def loop():
        time.sleep(0.2)
        for _ in range(3):
            for batch in training.dataset(10):
                training.train_step(batch)
            time.sleep(0.1)

    next(iter(training.dataset(1)))  # TensorFlow initializes itself at its first use
    start = time.perf_counter()
    with observe() as observation:
        loop()
    wall = time.perf_counter() - start
    account = observation.report.account
    assert sum(line.seconds for line in account.lines) == pytest.approx(account.total_seconds, rel=1e-6)
    assert sum(line.fraction for line in account.lines) == pytest.approx(1.0)
    assert account.total_seconds == pytest.approx(wall, abs=1.0)
    assert account.seconds(Part.PREPARATION) >= 0.19
    assert account.location(Part.PREPARATION).line == line_of(loop, "time.sleep(0.2)")
    assert account.seconds(Part.DEVICE) > 0
    assert account.seconds(Part.TRACING) > 0


def test_checkpoints_validation_and_callbacks_have_their_own_lines(tmp_path):
    class Slow(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            time.sleep(0.05)

    model = keras.Sequential([keras.layers.Dense(4)])
    model.compile("sgd", "mse")
    data = np.ones((64, 4)), np.ones((64, 4))
    with observe() as observation:
        model.fit(*data, batch_size=8, epochs=2, verbose=0, validation_data=data, callbacks=[Slow()])
        tf.train.Checkpoint(kernel=tf.Variable(1.0)).write(str(tmp_path / "weights"))
    account = observation.report.account
    assert account.seconds(Part.CALLBACKS) >= 0.09
    assert account.seconds(Part.VALIDATION) > 0
    assert account.seconds(Part.CHECKPOINTS) > 0


def test_time_of_hooks_and_samples_is_a_line_of_the_account_and_in_no_step():
    recording = recorded_loop([0.010] * 40)
    plain = cut_steps(recording)
    begins = plain.start[1:]
    recording.own_spans = [(begin, begin + 0.002) for begin in begins]
    recording.sampler_spans = [(begin + 0.001, begin + 0.0015) for begin in begins]  # while a hook runs: counted once
    recording.sampler_spans += [(begin + 0.004, begin + 0.007) for begin in begins]
    recording.sampler_spans += [(begin + 0.015, begin + 0.018) for begin in begins]  # next to a call of TensorFlow
    steps, report = cut_steps(recording), build_report(recording)
    assert steps.host[1:] == pytest.approx(0.010 - 0.005)
    assert steps.device[1:] == pytest.approx(plain.device[1:])
    assert report.account.seconds(Part.DIAGNOSIS) == pytest.approx(39 * 0.005)
    assert report.account.seconds(Part.PYTHON) == pytest.approx(0.010 + 39 * 0.005)
    assert sum(line.seconds for line in report.account.lines) == pytest.approx(report.account.total_seconds)
    cost = report.to_json()["own_cost"]
    assert cost["hooks_seconds"] == pytest.approx(39 * 0.002)
    assert cost["samples_seconds"] == pytest.approx(39 * 0.003)
    assert cost["sampler_processor_seconds"] == pytest.approx(39 * 0.0065)
    assert "This diagnosis took 195.0 ms of the training thread" in report.to_text()


def test_hook_into_single_operations_is_measured_and_in_no_step():
    recording = recorded_loop([0.010] * 40)
    starts = cut_steps(recording).start
    recording.operation_starts.extend(starts + 0.002)
    recording.operation_ends.extend(starts + 0.003)
    recording.operation_hook_seconds = 0.001
    assert cut_steps(recording).host[1:] == pytest.approx(0.009)


def test_own_time_of_a_real_training_is_what_its_account_says():
    training = Trainable()
    with observe() as observation:
        for _ in range(50):
            loss = training.train_step(training.batch())
            for _ in range(20):
                float(loss)
    report, recording = observation.report, observation._recording
    cost = report.own_cost
    assert len(recording.sampler_spans) == len(recording.line_samples)
    assert all(end > start for start, end in recording.sampler_spans)
    assert recording.operation_hook_seconds > 0
    assert cost.hooks_seconds > 0
    assert cost.samples_seconds <= cost.sampler_processor_seconds
    assert report.account.seconds(Part.DIAGNOSIS) == pytest.approx(cost.hooks_seconds + cost.samples_seconds)
