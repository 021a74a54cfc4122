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
from tests.diagnostics.observe.trainings import Trainable, line_of

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


def test_own_time_is_a_line_of_the_account_and_in_no_step():
    training = Trainable()
    with observe() as observation:
        for _ in range(50):
            loss = training.train_step(training.batch())
            for _ in range(20):
                float(loss)
    report = observation.report
    own = sum(end - start for start, end in observation._recording.own_spans)
    assert report.account.seconds(Part.DIAGNOSIS) == pytest.approx(own, rel=0.2)
