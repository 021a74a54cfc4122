"""The instrument itself: as a context, a callback and an assertion; it says what it could not see, and puts everything back."""

import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from myxtts.diagnostics.observe.api import DiagnosisCallback, assert_compiled_once, observe
from myxtts.errors import DiagnosisError
from tests.diagnostics.observe.trainings import Trainable, issues_in


def test_healthy_loop_has_no_finding_of_compilation_or_host():
    training = Trainable()
    with observe() as observation:
        for batch in training.dataset():
            training.train_step(batch)
    report = observation.report
    assert report.split.steps == 30
    assert not issues_in(report) & {
        "retrace-shape",
        "host-sync",
        "function-in-loop",
        "late-variables",
        "eager-by-mistake",
    }


def test_marked_steps_are_taken_as_they_are():
    with observe() as observation:
        for _ in range(5):
            with observation.step():
                tf.constant(1.0) + 1.0
    assert observation.report.split.steps == 5


def test_nothing_to_see_is_not_measured():
    with observe() as observation:
        tf.constant(1.0)
    assert observation.report.exit_code == 2
    assert "no training step" in observation.report.verdict


def test_report_before_the_end_is_refused():
    with observe() as observation, pytest.raises(DiagnosisError, match="block ends"):
        _ = observation.report


def test_tensorflow_and_keras_are_as_before_afterwards():
    from keras.src.callbacks.callback_list import CallbackList
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.data.ops.iterator_ops import OwnedIterator
    from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

    watched = [(Function, "__call__"), (Function, "__init__"), (OwnedIterator, "_next_internal"),
               (pywrap_tfe, "TFE_Py_FastPathExecute"), (CallbackList, "on_train_batch_end"),
               (keras.Model, "fit"), (tf.config, "run_functions_eagerly")]  # fmt: skip
    before = [getattr(owner, name) for owner, name in watched]
    with observe():
        assert [getattr(owner, name) for owner, name in watched] != before
    assert [getattr(owner, name) for owner, name in watched] == before


def test_fit_is_seen_from_a_callback(tmp_path):
    model = keras.Sequential([keras.layers.Dense(4)])
    model.compile("sgd", "mse")
    callback = DiagnosisCallback(json_file=tmp_path / "report.json", html=tmp_path / "report.html")
    model.fit(np.ones((128, 4)), np.ones((128, 4)), batch_size=8, epochs=2, verbose=0, callbacks=[callback])
    assert callback.report.split.steps == 32
    assert callback.report.functions[0].traces == 1
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")


def test_assertion_holds_for_a_step_that_is_compiled_once():
    training = Trainable()
    with assert_compiled_once():
        for batch in training.dataset(5):
            training.train_step(batch)


def test_assertion_names_the_function_and_the_cause():
    training = Trainable()

    @assert_compiled_once()
    def train():
        for rows in (1, 2, 3):
            training.train_step(training.batch(rows))

    with pytest.raises(AssertionError, match=r"_step .*3 traces, at most 1 \(shape of batch\)"):
        train()


def test_assertion_bounds_the_waiting():
    training = Trainable()

    def slowly():
        for _ in range(10):
            time.sleep(0.01)
            yield np.ones((8, 64), np.float32)

    dataset = tf.data.Dataset.from_generator(slowly, output_signature=tf.TensorSpec((8, 64)))

    @assert_compiled_once(max_wait_share=0.05)
    def train():
        for batch in dataset:
            training.train_step(batch)

    with pytest.raises(AssertionError, match="waiting for data"):
        train()
