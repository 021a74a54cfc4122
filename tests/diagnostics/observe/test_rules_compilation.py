"""What a loop traces and compiles again: the right issue, argument and line; no finding on closed sets of shapes."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from myxtts.diagnostics.observe.api import observe
from myxtts.diagnostics.observe.facts import Facts
from myxtts.diagnostics.observe.issues import Issue
from myxtts.diagnostics.observe.rules_compilation import describe_own_trainings, find_compilation_problems
from myxtts.diagnostics.observe.split_steps import cut_steps
from myxtts.diagnostics.observe.traced_code import TracedCode
from tests.diagnostics.observe.trainings import STEP, Trainable, finding, issues_in, line_of, recorded_loop


def test_changing_shape_is_named_with_the_argument_and_the_step():
    training = Trainable()
    with observe() as observation:
        for rows in range(1, 13):
            training.train_step(training.batch(rows))
    found = finding(observation.report, Issue.RETRACE_SHAPE)
    assert "argument 'batch'" in found.what
    assert found.location.line == line_of(Trainable, "def _step")
    assert observation.report.verdict_class == "retracing"
    assert found.gain_fraction > 0.3


def test_python_number_is_distinguished_from_a_shape():
    training = Trainable()
    with observe() as observation:
        for step in range(12):
            training.train_step(training.batch(), 0.1 * step)
    assert "argument 'scale'" in finding(observation.report, Issue.RETRACE_PYTHON_VALUE).what
    assert "retrace-shape" not in issues_in(observation.report)


def test_two_causes_at_once_are_both_named():
    training = Trainable()
    with observe() as observation:
        for step in range(12):
            training.train_step(training.batch(step + 1), 0.1 * step)
    assert {"retrace-shape", "retrace-python-value"} <= issues_in(observation.report)


def test_new_object_each_time_is_named():
    class Setting:
        value = 2.0

    @tf.function
    def scaled(batch, setting):
        return batch * setting.value

    with observe() as observation:
        for _ in range(8):
            scaled(tf.ones(3), Setting())
    assert "argument 'setting'" in finding(observation.report, Issue.RETRACE_NEW_OBJECT).what


def test_closed_set_of_shapes_is_a_note_and_no_finding():
    training = Trainable()
    with observe() as observation:
        for step in range(60):
            training.train_step(training.batch(1 + step % 4))
    report = observation.report
    assert not issues_in(report) & {"retrace-shape", "many-signatures"}
    assert any("closed set" in note for note in report.notes)


def test_last_smaller_batch_is_named_if_its_trace_costs():
    training = Trainable()
    with observe() as observation:
        for _ in range(3):
            for rows in [8] * 12 + [5]:
                training.train_step(training.batch(rows))
    found = finding(observation.report, Issue.RETRACE_SHAPE)
    assert "last, smaller batch" in found.what
    assert "drop_remainder=True" in found.fix


def test_function_made_in_the_loop_is_named_at_the_line_that_makes_it():
    def loop():
        for _ in range(6):
            double = tf.function(lambda batch: batch * 2.0)
            double(tf.ones(3))

    with observe() as observation:
        loop()
    assert finding(observation.report, Issue.FUNCTION_IN_LOOP).location.line == line_of(loop, "tf.function(")


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
    assert "function-in-loop" not in issues_in(observation.report)


def test_xla_compiling_again_without_a_retrace_is_named():
    function = tf.function(lambda batch: batch * 2.0, jit_compile=True, input_signature=[tf.TensorSpec([None])])
    with observe() as observation:
        for rows in range(1, 9):
            function(tf.ones(rows))
    report = observation.report
    assert "7 times without any retrace" in finding(report, Issue.XLA_RECOMPILE).what
    assert report.verdict_class == "recompiling"


def test_variables_created_in_every_step_are_named():
    training = Trainable()

    def loop():
        for batch in training.dataset(12):
            tf.Variable(1.0)
            training.train_step(batch)

    with observe() as observation:
        loop()
    assert finding(observation.report, Issue.LATE_VARIABLES).location.line == line_of(loop, "tf.Variable(")


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
    assert finding(report, Issue.EAGER_BY_MISTAKE).location.line == line_of(step, "def step")
    assert report.verdict_class == "eager"


def test_two_models_that_are_trained_and_validated_are_no_loop():
    data = np.ones((16, 4)), np.ones((16, 4))
    with observe() as observation:
        first = keras.Sequential([keras.layers.Dense(4)])
        first.compile("sgd", "mse")
        first.fit(*data, batch_size=8, epochs=4, verbose=0, validation_data=data)
        second = keras.Sequential([keras.layers.Dense(4)])
        second.compile("sgd", "mse")
        second.fit(*data, batch_size=8, epochs=4, verbose=0, validation_data=data)
    assert "function-in-loop" not in issues_in(observation.report)


@pytest.mark.parametrize(
    ("steps_each", "fraction", "is_found"), [(200, 0.15, False), (20, 0.15, True), (200, 0.4, True)]
)
def test_model_of_every_fold_that_trains_long_enough_is_a_note(steps_each, fraction, is_found):
    recording = recorded_loop([0.0001] * 100, first=0.01)
    facts = Facts(recording, cut_steps(recording))
    folds = [float(moment) for moment in np.linspace(0.2, 1.0, 4)]
    seconds = fraction * facts.total_seconds
    code = TracedCode("multi_step_on_iterator", STEP, STEP, is_user=False, is_jit=False, traced_functions=5,
                      calls=5 * steps_each, traces=5, repeated_moments=folds, repeated_seconds=seconds)  # fmt: skip
    facts.codes = [code]
    assert [one.issue for one in find_compilation_problems(facts)] == [Issue.FUNCTION_IN_LOOP] * is_found
    assert len(list(describe_own_trainings(facts))) == (not is_found)
