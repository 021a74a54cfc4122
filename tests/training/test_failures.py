"""Failures that a user can fix are one message with advice."""

from myxtts.batch import BatchShape
from myxtts.training.failures import FailureContext, memory_advice


def test_the_advice_about_memory_names_both_flags_that_measure_the_batch():
    context = FailureContext(step=7, shape=BatchShape(4, 40, 160), clips_per_batch=16.0)
    assert (
        "--batch-size 8 --grad-accum 2 (the same number of clips per step), or --batch-size auto --auto-tune"
        in memory_advice(context, "")
    )
