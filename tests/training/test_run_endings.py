"""What ends a run before its last step, and what validations that stay flat do to it."""

import json

import pytest

from myxtts.training.checkpoint import checkpoints_in, load_checkpoint
from myxtts.training.progress import StopReason
from myxtts.training.trainer import XTTSTrainer
from tests.training.small_runs import quiet_display, small_config, text_of


@pytest.fixture(scope="module")
def flat_run(corpus, tmp_path_factory):
    """A run whose validation loss is the same every time: its folder, its text and its summary."""
    folder = tmp_path_factory.mktemp("flat")
    config = small_config(
        corpus,
        folder,
        optimization_level="plateau_breaker",
        learning_rate=1e-3,
        warmup_steps=0,
        enable_graph_mode=False,
        max_steps=20,
        log_interval=1,
        validation_interval=1,
        checkpoint_interval=1,
        keep_checkpoints=3,
        early_stopping_patience=5,
    )
    trainer = XTTSTrainer(config, display=quiet_display())
    trainer.validate = lambda: {"loss": 2.0}
    summary = trainer.train()
    return folder, text_of(trainer.display), summary


def test_validations_without_improvement_end_the_run(flat_run):
    _, _, summary = flat_run
    assert summary.reason == StopReason.PATIENCE
    assert summary.step == 6  # the first is the best, then five that are not better


def test_a_flat_validation_loss_halves_the_learning_rate(flat_run):
    folder, text, _ = flat_run
    assert "Step 4: validation is flat, learning rate x 0.5." in text
    entries = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    rates = [entry["learning_rate"] for entry in entries if entry["kind"] == "train"]
    assert rates == pytest.approx([1e-3] * 4 + [5e-4] * 2)


def test_as_many_checkpoints_are_kept_as_asked_for_beside_the_best(flat_run):
    folder, _, _ = flat_run
    assert [path.name for path in checkpoints_in(folder)] == ["step-00000004", "step-00000005", "step-00000006"]
    assert load_checkpoint(folder / "best").step == 1


def test_minutes_that_are_over_end_the_run_with_a_checkpoint(corpus, tmp_path):
    config = small_config(corpus, tmp_path, max_minutes=1e-6, max_steps=50, enable_graph_mode=False)
    summary = XTTSTrainer(config, display=quiet_display()).train()
    assert summary.reason == StopReason.TIME
    assert summary.step == 1
    assert load_checkpoint(summary.checkpoint).step == 1
