"""Failures that a user can fix are one message with advice."""

import pytest
import tensorflow as tf

from myxtts.batch import BatchShape
from myxtts.errors import TrainingError
from myxtts.training.failures import FailureContext, check_gradients, memory_advice


def test_the_advice_about_memory_names_both_flags_that_measure_the_batch():
    context = FailureContext(step=7, shape=BatchShape(4, 40, 160), clips_per_batch=16.0)
    assert (
        "--batch-size 8 --grad-accum 2 (the same number of clips per step), or --batch-size auto --auto-tune"
        in memory_advice(context, "")
    )


def test_losses_that_are_not_finite_are_named():
    terms = {"flow": tf.constant(0.5), "pitch": tf.constant(float("nan"))}
    with pytest.raises(TrainingError, match=r"losses are not finite: flow 0.5, pitch nan\. Try"):
        check_gradients(["weight"], [tf.ones(1)], terms)
