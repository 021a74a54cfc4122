"""An evaluation next to the training: one at a time, taken once, failures as lines."""

import threading

import pytest

from myxtts.errors import EvaluationError
from myxtts.training.background_evaluation import BackgroundEvaluation, EvaluationOutcome

SECONDS = 60


def test_one_runs_at_a_time_and_its_outcome_is_taken_once():
    go = threading.Event()
    evaluation = BackgroundEvaluation(lambda what: {"cer": float(go.wait(SECONDS)) * what})
    assert evaluation.take() is None
    assert evaluation.start(1)
    assert not evaluation.start(2)
    assert (evaluation.take(), evaluation.running) == (None, 1)
    go.set()
    assert evaluation.take(SECONDS) == EvaluationOutcome(1, {"cer": 1.0})
    assert (evaluation.take(), evaluation.running) == (None, None)
    assert evaluation.start(2)
    assert evaluation.take(SECONDS) == EvaluationOutcome(2, {"cer": 2.0})


@pytest.mark.parametrize(
    ("error", "failure"), [(EvaluationError("No recognizer."), "No recognizer."), (OSError(28, "full"), "disk is full")]
)
def test_expected_errors_are_outcomes(error, failure):
    def fail(what):
        raise error

    evaluation = BackgroundEvaluation(fail)
    evaluation.start("a voice")
    outcome = evaluation.take(SECONDS)
    assert outcome.metrics is None
    assert failure in outcome.failure


def test_a_mistake_in_the_program_is_raised_where_the_outcome_is_taken():
    evaluation = BackgroundEvaluation(lambda what: {}[what])
    evaluation.start("a voice")
    with pytest.raises(KeyError):
        evaluation.take(SECONDS)
