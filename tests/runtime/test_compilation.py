"""RetraceWatch: traces, compilations and new signatures are reported with their argument and fix, and nothing else is."""

import pytest
import tensorflow as tf

from myxtts.errors import TrainingError
from myxtts.runtime.compilation import RetraceKind, RetraceWatch
from myxtts.runtime.tensorflow_counters import (
    SWITCH_VARIABLE,
    XLA_COMPILATION_MICROSECONDS,
    XLA_COMPILATIONS,
    find_counter,
    why_unavailable,
)


def double(mel, scale=1.0):
    return mel * scale * 2.0


def warm(watch: RetraceWatch, name: str, function, *arguments) -> None:
    function(*arguments)
    watch.observe(0, name, arguments)
    watch.warmed_up()


def test_equal_steps_report_nothing():
    function = tf.function(double)
    watch = RetraceWatch({"train": function})
    warm(watch, "train", function, tf.ones((2, 3)))
    for step in range(1, 5):
        function(tf.zeros((2, 3)))
        assert watch.observe(step, "train", (tf.zeros((2, 3)),)) is None
    assert watch.counts_since_warmup().traces == 0
    assert watch.counts_since_warmup().signatures == 0


def test_a_new_shape_is_a_trace_with_argument_and_fix():
    function = tf.function(double)
    watch = RetraceWatch({"train": function})
    warm(watch, "train", function, tf.ones((2, 3)))
    function(tf.ones((2, 4)))
    retrace = watch.observe(7, "train", {"mel": tf.ones((2, 4))})
    assert retrace.kind == RetraceKind.TRACE
    assert retrace.argument == "mel"
    assert str(retrace).startswith("tf.function RETRACING detected at step 7 (total retraces: 1)")
    assert "from float32 (2, 3) to float32 (2, 4)" in str(retrace)
    assert "data.plan" in retrace.fix


def test_a_new_python_value_is_a_trace_of_that_value():
    function = tf.function(double)
    watch = RetraceWatch({"train": function})
    warm(watch, "train", function, tf.ones(3), 1.0)
    function(tf.ones(3), 2.0)
    retrace = watch.observe(3, "train", (tf.ones(3), 2.0))
    assert (retrace.kind, retrace.changes[0].kind, retrace.changes[0].new) == (RetraceKind.TRACE, "value", "float 2.0")
    assert "tf.constant" in retrace.fix


def test_a_new_dtype_advises_a_cast_to_the_old_one():
    function = tf.function(lambda mel: mel + 1)
    watch = RetraceWatch({"train": function})
    warm(watch, "train", function, tf.ones(3, tf.float32))
    function(tf.ones(3, tf.int32))
    retrace = watch.observe(3, "train", {"mel": tf.ones(3, tf.int32)})
    assert retrace.fix == "cast the argument before the call: tf.cast(mel, tf.float32)"


@pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))
def test_a_new_shape_under_a_signature_is_a_compilation_without_a_trace():
    function = tf.function(double, jit_compile=True, input_signature=[tf.TensorSpec([None])])
    watch = RetraceWatch({"train": function})
    warm(watch, "train", function, tf.ones(3))
    function(tf.ones(4))
    retrace = watch.observe(5, "train", {"mel": tf.ones(4)})
    assert retrace.kind == RetraceKind.COMPILATION
    assert function.experimental_get_tracing_count() == 1
    assert watch.counts_since_warmup().compilations == 1


@pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))
def test_the_compilation_counter_counts_each_compilation_and_its_time():
    function = tf.function(double, jit_compile=True, input_signature=[tf.TensorSpec([None])])
    count, microseconds = find_counter(XLA_COMPILATIONS), find_counter(XLA_COMPILATION_MICROSECONDS)
    before = count(), microseconds()
    for size in (5, 6, 5, 6):
        function(tf.ones(size))
    assert count() - before[0] == 2
    assert microseconds() > before[1]


def test_a_new_shape_of_a_relaxed_function_is_a_signature():
    function = tf.function(double, input_signature=[tf.TensorSpec([None])])
    watch = RetraceWatch({"train": function})
    warm(watch, "train", function, tf.ones(3))
    function(tf.ones(4))
    retrace = watch.observe(5, "train", (tf.ones(4),))
    assert retrace.kind == RetraceKind.SIGNATURE
    assert watch.counts_since_warmup().signatures == 1


def test_a_planned_signature_is_not_reported():
    function = tf.function(double, input_signature=[tf.TensorSpec([None])])
    watch = RetraceWatch({"train": function})
    watch.expect("train", (tf.TensorSpec([4]),))
    warm(watch, "train", function, tf.ones(3))
    function(tf.ones(4))
    assert watch.observe(5, "train", (tf.ones(4),)) is None


def test_an_intended_compilation_is_not_reported():
    function, later = tf.function(double), tf.function(double, jit_compile=True)
    watch = RetraceWatch({"train": function})
    warm(watch, "train", function, tf.ones(3))
    with watch.compiling():
        later(tf.ones(3))
    watch.add("validate", later)
    watch.expect("validate", (tf.ones(3),))
    later(tf.ones(3))
    assert watch.observe(1, "validate", (tf.ones(3),)) is None
    assert watch.observe(1, "train", (tf.ones(3),)) is None
    assert watch.counts_since_warmup().compilations in (0, None)


def test_fail_stops_training():
    function = tf.function(double)
    watch = RetraceWatch({"train": function}, on_retrace="fail")
    warm(watch, "train", function, tf.ones(3))
    function(tf.ones(4))
    with pytest.raises(TrainingError, match="RETRACING detected at step 9"):
        watch.observe(9, "train", (tf.ones(4),))


def test_a_step_built_for_an_unplanned_shape_is_reported_with_what_differs():
    function = tf.function(double)
    watch = RetraceWatch({"step of 3": function})
    warm(watch, "step of 3", function, tf.ones(3))
    retrace = watch.observe(2, "step of 4", {"mel": tf.ones(4)})
    assert retrace.kind == RetraceKind.SIGNATURE
    assert (retrace.changes[0].old, retrace.changes[0].new) == ("float32 (3,)", "float32 (4,)")


def test_the_counters_of_tensorflow_can_be_switched_off(monkeypatch):
    monkeypatch.setenv(SWITCH_VARIABLE, "off")
    assert find_counter(XLA_COMPILATIONS) is None
    function = tf.function(double)
    watch = RetraceWatch({"train": function})
    warm(watch, "train", function, tf.ones(3))
    assert watch.counts().compilations is None
    assert SWITCH_VARIABLE in watch.why_compilations_are_unknown()
    function(tf.ones(4))
    assert watch.observe(1, "train", (tf.ones(4),)).kind == RetraceKind.TRACE
