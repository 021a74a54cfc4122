"""What happens outside of the steps, or inside their graph: each at its line, and never called compute-bound."""

import time
from dataclasses import replace
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from myxtts.diagnostics.observe import rules_run
from myxtts.diagnostics.observe.account import Part, account_for
from myxtts.diagnostics.observe.api import observe
from myxtts.diagnostics.observe.facts import Facts
from myxtts.diagnostics.observe.hooks import Instrumentation
from myxtts.diagnostics.observe.issues import Issue
from myxtts.diagnostics.observe.recording import IteratorRecord, TimedEvent
from myxtts.diagnostics.observe.rules_compilation import find_compilation_problems
from myxtts.diagnostics.observe.source_lines import SourceLocation
from myxtts.diagnostics.observe.split_steps import cut_steps
from tests.diagnostics.observe.trainings import STEP, Trainable, finding, issues_in, line_of, recorded_loop


def work() -> None:
    time.sleep(0.1)


def built_model() -> keras.Model:
    model = keras.Sequential([keras.layers.Dense(4)])
    model.build((None, 4))
    return model


def draw(model: keras.Model) -> None:
    for _ in range(6):
        model.predict(np.ones((2, 4)), verbose=0)


def test_dataset_built_again_for_every_epoch_is_named_at_its_map():
    training = Trainable()

    def loop():
        for _ in range(6):
            dataset = tf.data.Dataset.range(4)
            dataset = dataset.map(lambda value: tf.reduce_sum([tf.cast(value, tf.float32) * k for k in range(300)]))
            for value in dataset:
                training.train_step(training.batch() + value * 0.0)

    with observe() as observation:
        loop()
    found = finding(observation.report, Issue.DATASET_IN_LOOP)
    assert found.location.line == line_of(loop, "dataset.map(")
    assert observation.report.verdict_class == "epoch-bound"


def test_shuffle_buffer_that_fills_in_every_epoch_is_named_at_its_line():
    training = Trainable()

    def slow(value):
        work()
        return np.float32(value)

    def loop():
        dataset = tf.data.Dataset.range(4).map(lambda value: tf.numpy_function(slow, [value], tf.float32))
        dataset = dataset.shuffle(4)
        for _ in range(4):
            for _value in dataset:
                training.train_step(training.batch())

    with observe() as observation:
        loop()
    found = finding(observation.report, Issue.SLOW_EPOCH_START)
    assert found.location.line == line_of(loop, "dataset.shuffle(4)")
    assert "shuffle buffer" in found.what


def test_predict_on_single_batches_is_named_at_its_line():
    training, model = Trainable(), built_model()

    def loop():
        for _ in range(8):
            training.train_step(training.batch())
            model.predict(np.ones((2, 4)), verbose=0)

    with observe() as observation:
        loop()
    found = finding(observation.report, Issue.PREDICT_IN_LOOP)
    assert found.location.line == line_of(loop, "model.predict")
    assert "8 times" in found.what
    assert "infer = tf.function(model)" in found.fix
    assert observation.report.verdict_class != "compute-bound"


def test_predictions_after_the_training_are_a_note_and_part_of_what_comes_after_it():
    training, model = Trainable(), built_model()
    with observe() as observation:
        for _ in range(8):
            training.train_step(training.batch())
        draw(model)
    report = observation.report
    assert "predict-in-loop" not in issues_in(report)
    assert any("Outside of the training Model.predict is called 6 times" in note for note in report.notes)
    assert report.account.seconds(Part.VALIDATION) == 0.0
    assert report.account.seconds(Part.AFTER) > 0.0


def test_predictions_of_a_loop_that_also_trains_count_even_after_the_last_step():
    training, model = Trainable(), built_model()
    with observe() as observation:
        for _epoch in range(1):  # interrupted after its first epoch
            for _ in range(8):
                training.train_step(training.batch())
            draw(model)
    assert finding(observation.report, Issue.PREDICT_IN_LOOP).location.line == line_of(draw, "model.predict")


def test_model_built_again_for_every_fit_has_one_finding():
    with observe() as observation:
        for _ in range(5):
            model = keras.Sequential([keras.layers.Dense(4)])
            model.compile("sgd", "mse")
            model.fit(np.ones((16, 4)), np.ones((16, 4)), batch_size=4, verbose=0)
    assert "function-in-loop" in issues_in(observation.report)
    assert "device-idle" not in issues_in(observation.report)


@pytest.mark.parametrize(("builds", "issues"), [(True, set()), (False, {Issue.DEVICE_IDLE})])
def test_python_in_which_models_are_built_again_is_no_second_finding(builds, issues):
    """However long the building takes, as on a busy machine: it has the cause of the traces."""
    watcher = Instrumentation()
    recording = watcher.install()
    for _ in range(6):
        model = keras.Sequential([keras.layers.Dense(4)])
        model.compile("sgd", "mse")
        model.fit(np.ones((16, 4)), np.ones((16, 4)), batch_size=4, verbose=0)
    watcher.remove()
    steps = cut_steps(recording)
    between, location = account_for(recording, steps), SourceLocation("train.py", 3)
    lines = [
        replace(line, seconds=9.0, typical_seconds=9.0) if line.part == Part.BETWEEN else line for line in between.lines
    ]
    seen = {(location, "keras" if builds else "python"): 50}
    facts = Facts(recording, steps, replace(between, lines=tuple(lines), between=seen))
    assert {found.issue for found in rules_run.find_python_between_steps(facts)} == issues
    again = [one.gain_seconds for one in find_compilation_problems(facts) if one.issue == Issue.FUNCTION_IN_LOOP]
    assert (max(again, default=0.0) > 9.0) == builds


def test_validation_of_fit_is_not_predict_in_a_loop():
    model = keras.Sequential([keras.layers.Dense(4)])
    model.compile("sgd", "mse")
    data = np.ones((16, 4)), np.ones((16, 4))
    with observe() as observation:
        model.fit(*data, batch_size=8, epochs=6, verbose=0, validation_data=data)
    assert "predict-in-loop" not in issues_in(observation.report)


def test_python_function_inside_the_compiled_step_is_host_time_at_its_line():
    variable = tf.Variable(0.0)

    def environment(value):
        time.sleep(0.01)
        return value

    @tf.function
    def train_step(value):
        reward = tf.numpy_function(environment, [value], tf.float32)
        variable.assign_add(tf.reduce_sum(reward))
        return reward

    with observe() as observation:
        for _ in range(20):
            train_step(tf.constant(1.0))
    report = observation.report
    found = finding(report, Issue.PYTHON_IN_STEP)
    assert found.location.line == line_of(train_step.python_function, "tf.numpy_function")
    assert report.verdict_class == "host-bound"
    assert report.split.host_seconds >= 19 * 0.01  # all but the cold step


def test_print_inside_the_compiled_step_is_reported_at_its_line(capfd):
    variable = tf.Variable(0.0)

    @tf.function
    def train_step(value):
        tf.print("value", value)
        return variable.assign_add(tf.reduce_sum(value))

    with observe() as observation:
        for _ in range(10):
            train_step(tf.ones(4))
    found = finding(observation.report, Issue.PYTHON_IN_STEP)
    assert found.location.line == line_of(train_step.python_function, "tf.print")
    assert len(capfd.readouterr().err.strip().splitlines()) == 10  # estimating its cost prints nothing


def test_validation_longer_than_the_training_is_named_at_the_fit():
    model = keras.Sequential([keras.layers.Dense(4)])
    model.compile("sgd", "mse")
    few, many = np.ones((8, 4)), np.ones((1600, 4))

    def loop():
        model.fit(few, few, batch_size=8, epochs=6, verbose=0, validation_data=(many, many), validation_batch_size=8)

    with observe() as observation:
        loop()
    found = finding(observation.report, Issue.SLOW_VALIDATION)
    assert found.location.line == line_of(loop, "model.fit")
    assert "model.fit(dataset, validation_data" in found.fix
    assert observation.report.verdict_class == "validation-bound"


def test_hundreds_of_epochs_of_one_batch_are_epoch_bound_and_not_input_bound():
    model = keras.Sequential([keras.layers.Dense(4)])
    model.compile("sgd", "mse")
    with observe() as observation:
        model.fit(np.ones((8, 4)), np.ones((8, 4)), batch_size=8, epochs=60, verbose=0)
    found = finding(observation.report, Issue.SLOW_EPOCH_START)
    assert "an epoch has one or two steps" in found.what
    assert observation.report.verdict_class == "epoch-bound"
    assert "input-bound" not in issues_in(observation.report)


def test_slow_callback_is_named_at_its_line():
    class Slow(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            for _ in range(5):  # sleeping takes no longer on a busy machine, everything else does
                work()

    model = keras.Sequential([keras.layers.Dense(4)])
    model.compile("sgd", "mse")
    with observe() as observation:
        model.fit(np.ones((8, 4)), np.ones((8, 4)), batch_size=2, epochs=10, verbose=0, callbacks=[Slow()])
    found = finding(observation.report, Issue.SLOW_CALLBACK)
    assert found.location.line == line_of(work, "time.sleep")
    assert "on_epoch_end" in found.what


def test_checkpoint_in_most_steps_is_named_at_its_line(tmp_path):
    training = Trainable()
    checkpoint = tf.train.Checkpoint(weights=training.weights)

    def loop():
        for step in range(12):
            training.train_step(training.batch())
            checkpoint.write(str(tmp_path / f"step-{step}"))

    with observe() as observation:
        loop()
    found = finding(observation.report, Issue.SLOW_CHECKPOINT)
    assert found.location.line == line_of(loop, "checkpoint.write")
    assert "device-idle" not in issues_in(observation.report)  # one cause, one finding


def test_python_between_epochs_is_named_at_its_line():
    training = Trainable()

    def loop():
        for _ in range(5):
            for batch in training.dataset(5):
                training.train_step(batch)
            work()

    with observe() as observation:
        loop()
    found = finding(observation.report, Issue.DEVICE_IDLE)
    assert found.location.line == line_of(work, "time.sleep")
    assert observation.report.verdict_class == "host-bound"


def test_eager_step_of_a_strategy_is_called_eager():
    strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
    with strategy.scope():
        weights = [tf.Variable(tf.ones((8, 8))) for _ in range(12)]

    def replica_step(batch):
        with tf.GradientTape() as tape:
            value = batch
            for weight in weights:
                value = tf.matmul(value, weight)
            loss = tf.reduce_mean(value)
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(1e-6 * gradient)

    with observe() as observation:
        for _ in range(8):
            strategy.run(replica_step, args=(tf.ones((4, 8)),))
    assert observation.report.verdict_class == "eager"


@pytest.mark.parametrize(("is_after", "findings"), [(True, 0), (False, 1)])
def test_iterators_after_the_last_step_are_not_those_of_its_batches(is_after, findings):
    recording = recorded_loop([0.001] * 40)
    recording.epoch_starts = [
        TimedEvent(call.end, call.end + 0.0009, STEP, "iter(dataset)") for call in recording.calls[:-1]
    ]
    moments = [recording.ended_at + 1 if is_after else event.start for event in recording.epoch_starts]
    recording.iterators = [IteratorRecord(index, -1, at, STEP, elements=1) for index, at in enumerate(moments)]
    facts = Facts(recording, cut_steps(recording))
    facts.account = SimpleNamespace(seconds=lambda part: 0.5 * facts.total_seconds, training_seconds=1.0)
    facts.total_seconds = 1.0
    assert len(list(rules_run._iterators_of_one_batch(facts))) == findings
