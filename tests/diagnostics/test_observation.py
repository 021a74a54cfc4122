"""What is seen while a loop trains: the right disease at the right line, silence on healthy loops, everything put back."""

import inspect
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from myxtts.diagnostics.diseases import Disease
from myxtts.diagnostics.observe import DiagnosisCallback, assert_compiled_once, observe
from myxtts.errors import DiagnosisError
from tests.diagnostics.trainings import Trainable


def line_of(function, text: str) -> int:
    """Number of the line of a function's source that holds a text."""
    source, first = inspect.getsourcelines(function)
    return next(first + number for number, line in enumerate(source) if text in line)


def diseases(report) -> set[str]:
    return {str(finding.disease) for finding in report.findings}


def finding(report, disease: Disease):
    return next(finding for finding in report.findings if finding.disease == disease)


def work() -> None:
    """Something for a step to take: a few milliseconds."""
    time.sleep(0.004)


def test_healthy_loop_has_no_finding_of_compilation_or_host():
    training = Trainable()
    with observe() as observation:
        for batch in training.dataset():
            training.train_step(batch)
    report = observation.report
    assert report.split.steps == 30
    assert not diseases(report) & {
        "retrace-shape",
        "host-sync",
        "function-in-loop",
        "late-variables",
        "eager-by-mistake",
    }


def test_changing_shape_is_named_with_the_argument_and_the_step():
    training = Trainable()
    with observe() as observation:
        for rows in range(1, 13):
            training.train_step(training.batch(rows))
    found = finding(observation.report, Disease.RETRACE_SHAPE)
    assert "argument 'batch'" in found.what
    assert found.place.line == line_of(Trainable, "def _step")
    assert observation.report.verdict_class == "retracing"
    assert found.gain_share > 0.3


def test_python_number_is_told_from_a_shape():
    training = Trainable()
    with observe() as observation:
        for step in range(12):
            training.train_step(training.batch(), 0.1 * step)
    assert "argument 'scale'" in finding(observation.report, Disease.RETRACE_PYTHON_VALUE).what
    assert "retrace-shape" not in diseases(observation.report)


def test_two_causes_at_once_are_both_named():
    training = Trainable()
    with observe() as observation:
        for step in range(12):
            training.train_step(training.batch(step + 1), 0.1 * step)
    assert {"retrace-shape", "retrace-python-value"} <= diseases(observation.report)


def test_new_object_each_time_is_named():
    class Setting:
        value = 2.0

    @tf.function
    def scaled(batch, setting):
        return batch * setting.value

    with observe() as observation:
        for _ in range(8):
            scaled(tf.ones(3), Setting())
    assert "argument 'setting'" in finding(observation.report, Disease.RETRACE_NEW_OBJECT).what


def test_closed_set_of_shapes_is_a_note_and_no_finding():
    training = Trainable()
    with observe() as observation:
        for step in range(60):
            training.train_step(training.batch(1 + step % 4))
    report = observation.report
    assert not diseases(report) & {"retrace-shape", "many-signatures"}
    assert any("closed set" in note for note in report.notes)


def test_function_made_in_the_loop_is_named_at_the_line_that_makes_it():
    def loop():
        for _ in range(6):
            double = tf.function(lambda batch: batch * 2.0)
            double(tf.ones(3))

    with observe() as observation:
        loop()
    assert finding(observation.report, Disease.FUNCTION_IN_LOOP).place.line == line_of(loop, "tf.function(")


def test_equal_objects_are_traced_as_without_observation():
    """TensorFlow takes an equal object for the same one while the earlier one lives: the diagnosis must not keep it alive."""

    class Equal:
        def __eq__(self, other):
            return isinstance(other, Equal)

        def __hash__(self):
            return 1

    variable = tf.Variable(0.0)

    def count_traces():
        function = tf.function(lambda batch, setting: variable.assign_add(tf.reduce_sum(batch)))
        for _ in range(5):
            function(tf.ones(3), Equal())
        return function.experimental_get_tracing_count()

    alone = count_traces()
    with observe():
        observed = count_traces()
    assert observed == alone == 5


def test_functions_of_one_factory_for_different_shapes_are_healthy():
    def make(rows):
        return tf.function(lambda batch: batch * 2.0, input_signature=[tf.TensorSpec((rows, 3))])

    functions = {rows: make(rows) for rows in range(1, 6)}
    with observe() as observation:
        for step in range(60):
            rows = 1 + step % 5
            functions[rows](tf.ones((rows, 3)))
    assert "function-in-loop" not in diseases(observation.report)


def test_xla_compiling_again_without_a_retrace_is_named():
    function = tf.function(lambda batch: batch * 2.0, jit_compile=True, input_signature=[tf.TensorSpec([None])])
    with observe() as observation:
        for rows in range(1, 9):
            function(tf.ones(rows))
    report = observation.report
    assert "7 times without any retrace" in finding(report, Disease.XLA_RECOMPILE).what
    assert report.verdict_class == "recompiling"


def test_value_fetched_in_every_step_is_named_at_its_line():
    training = Trainable()

    def loop():
        for batch in training.dataset():
            loss = training.train_step(batch)
            float(loss)

    with observe() as observation:
        loop()
    assert finding(observation.report, Disease.HOST_SYNC).place.line == line_of(loop, "float(loss)")


def test_value_fetched_now_and_then_is_healthy():
    training = Trainable()
    with observe() as observation:
        for step, batch in enumerate(training.dataset()):
            loss = training.train_step(batch)
            if step % 10 == 0:
                float(loss)
    assert "host-sync" not in diseases(observation.report)


def test_variables_created_in_every_step_are_named():
    training = Trainable()

    def loop():
        for batch in training.dataset(12):
            tf.Variable(1.0)
            training.train_step(batch)

    with observe() as observation:
        loop()
    assert finding(observation.report, Disease.LATE_VARIABLES).place.line == line_of(loop, "tf.Variable(")


def test_step_without_tf_function_is_eager_by_mistake():
    layers = [keras.layers.Dense(8) for _ in range(4)]
    model = keras.Sequential(layers)
    model.build((None, 8))
    optimizer = keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)

    def step(batch):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(batch) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    with observe() as observation:
        for _ in range(6):
            step(tf.ones((4, 8)))
    report = observation.report
    assert finding(report, Disease.EAGER_BY_MISTAKE).place.line == line_of(step, "def step")
    assert report.verdict_class == "eager"


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
    found = finding(report, Disease.NUMPY_FUNCTION)
    assert found.place.line == line_of(prepare, "tf.numpy_function")
    assert "tf.numpy_function found in data pipeline!" in found.what
    assert "input-bound" in diseases(report)
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
    assert finding(observation.report, Disease.INPUT_BOUND).place.line == line_of(loop, "in batches()")
    assert "device-idle" not in diseases(observation.report)


def test_last_smaller_batch_is_named_if_its_trace_costs():
    training = Trainable()
    with observe() as observation:
        for _ in range(3):
            for rows in [8] * 12 + [5]:
                training.train_step(training.batch(rows))
    found = finding(observation.report, Disease.RETRACE_SHAPE)
    assert "last, smaller batch" in found.what
    assert "drop_remainder=True" in found.fix


def test_numpy_function_on_a_tensor_is_a_fetch():
    training = Trainable()

    def loop():
        for batch in training.dataset():
            np.mean(training.train_step(batch))

    with observe() as observation:
        loop()
    assert finding(observation.report, Disease.HOST_SYNC).place.line == line_of(loop, "np.mean")


def test_weights_fetched_through_keras_in_every_step_are_a_fetch():
    training, layer = Trainable(), keras.layers.Dense(3)
    layer.build((None, 3))

    def loop():
        for batch in training.dataset():
            training.train_step(batch)
            layer.get_weights()

    with observe() as observation:
        loop()
    assert finding(observation.report, Disease.HOST_SYNC).place.line == line_of(loop, "get_weights")


def test_regular_stall_is_named_with_its_period_and_line():
    training = Trainable()

    def loop():
        for step, batch in enumerate(training.dataset(64)):
            training.train_step(batch)
            work()
            if step % 8 == 7:
                time.sleep(0.06)

    with observe() as observation:
        loop()
    found = finding(observation.report, Disease.CYCLIC_STALL)
    assert "every 8 steps" in found.what
    assert found.place.line == line_of(loop, "time.sleep(0.06)")


def test_python_between_the_steps_is_named_at_its_line():
    training = Trainable()
    with observe() as observation:
        for batch in training.dataset():
            training.train_step(batch)
            work()
    found = finding(observation.report, Disease.DEVICE_IDLE)
    assert found.place.line == line_of(work, "time.sleep")
    assert observation.report.verdict_class == "host-bound"


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
