"""The history of a run: best validation, patience, plateau."""

import pytest

from myxtts.training.state import RunHistory


def test_patience_and_plateau_count_validations_without_improvement():
    history = RunHistory()
    assert history.note_validation(1.0, 10)
    assert not history.note_validation(1.1, 20)
    assert not history.is_out_of_patience(2)
    assert not history.note_validation(1.0, 30)
    assert history.is_out_of_patience(2)
    assert history.takes_plateau(2)
    assert not history.takes_plateau(2)
    assert history.note_validation(0.9, 40)
    assert not history.is_out_of_patience(1)
    assert RunHistory.restored(history.to_dict()) == history


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_is_never_the_best(loss):
    history = RunHistory()
    assert not history.note_validation(loss, 10)
    assert history.note_validation(0.5, 20)
    assert not history.note_validation(loss, 30)
    assert (history.best_loss, history.best_step, history.validations_without_improvement) == (0.5, 20, 1)
    assert not history.note_evaluation(loss)
    assert history.note_evaluation(0.3)
    assert not history.note_evaluation(loss)


def test_a_best_loss_that_an_earlier_version_saved_as_nan_is_replaced():
    history = RunHistory.restored({"best_loss": float("nan"), "best_step": 10, "best_evaluation": float("nan")})
    assert history.note_validation(0.5, 20)
    assert history.note_evaluation(0.5)


def test_a_counter_of_an_earlier_version_is_ignored():
    assert RunHistory.restored({"best_step": 3, "seconds_trained": 5.0}) == RunHistory(best_step=3)
