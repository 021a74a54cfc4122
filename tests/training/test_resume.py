"""Resuming: the same losses as without the interruption, whatever ended the run; changed settings are told or refused."""

import contextlib
import random
import signal

import pytest

from myxtts.errors import CheckpointError, TrainingError
from myxtts.training import checkpoint as checkpoint_module
from myxtts.training.checkpoint import checkpoints_in, load_newest
from myxtts.training.trainer import XTTSTrainer
from tests.training.child_run import finish, losses_of, start
from tests.training.small_runs import quiet_display, small_config, text_of

STEPS = 64
"""Fifty and more after the last checkpoint before a run dies."""


class Killed(BaseException):
    """Ends a run where it is, as a kill would: nothing is caught, nothing is saved."""


def run_trainer(corpus, run, dies_at=None, data=None, **training):
    """Losses by step, exactly, and what was shown."""
    display, losses = quiet_display(), {}
    settings = {"max_steps": STEPS, "schedule_steps": STEPS, "checkpoint_interval": 5, "log_interval": 1} | training
    trainer = XTTSTrainer(small_config(corpus, run, data, **settings), display=display)

    def note(figures):
        losses[trainer.step] = figures.loss
        if trainer.step == dies_at:
            raise Killed

    display.figures = note
    with contextlib.suppress(Killed):
        trainer.train()
    return losses, text_of(display)


@pytest.fixture(scope="module")
def uninterrupted(corpus, tmp_path_factory):
    return run_trainer(corpus, tmp_path_factory.mktemp("whole") / "run")[0]


def test_a_run_that_died_between_two_checkpoints_repeats_the_same_losses(corpus, uninterrupted, tmp_path):
    first, _ = run_trainer(corpus, tmp_path, dies_at=13, validation_interval=4)
    second, text = run_trainer(corpus, tmp_path, validation_interval=4)
    assert "Resuming at step" in text
    assert min(second) <= 13
    assert max(first) == 13
    assert first | second == pytest.approx(uninterrupted, rel=1e-4)


def test_a_finished_run_that_gets_more_steps_goes_on(corpus, tmp_path):
    run_trainer(corpus, tmp_path, max_steps=2)
    found, text = run_trainer(corpus, tmp_path, max_steps=4)
    assert "Changed since the checkpoint: training.max_steps: 2 → 4" in text
    assert list(found) == [3, 4]


def test_a_network_that_does_not_fit_the_checkpoint_is_refused(corpus, tmp_path):
    run_folder = tmp_path / "run"
    trainer = XTTSTrainer(small_config(corpus, run_folder), display=quiet_display())
    trainer.save()
    trainer.feed.close()
    with pytest.raises(CheckpointError, match=r"data.reference_frames: 128 → 64\nUse the old values"):
        XTTSTrainer(small_config(corpus, run_folder, {"reference_frames": 64}), display=quiet_display())


def test_other_batches_start_a_new_pass_and_reset_training_starts_anew(corpus, tmp_path):
    trainer = XTTSTrainer(small_config(corpus, tmp_path), display=quiet_display())
    trainer.step = 4
    trainer.state.step.assign(4)
    next(trainer.feed)
    trainer.save()
    trainer.feed.close()
    display = quiet_display()
    changed = XTTSTrainer(small_config(corpus, tmp_path, {"batch_size": 2}), display=display)
    changed.feed.close()
    assert (changed.step, changed.feed.position) == (4, (1, 0))
    assert "Changed since the checkpoint: data.batch_size: 4 → 2" in text_of(display)
    assert "the data starts a new pass" in text_of(display)
    anew = XTTSTrainer(small_config(corpus, tmp_path), display=quiet_display(), starts_anew=True)
    anew.feed.close()
    assert (anew.step, anew.feed.position) == (0, (0, 0))


def test_a_full_disk_is_told_and_the_last_good_checkpoint_stays(corpus, tmp_path, monkeypatch):
    written = checkpoint_module._write_arrays

    def fails_from_step_10(path, arrays):
        if "step-00000005" not in str(path):
            raise OSError(28, "No space left on device")
        return written(path, arrays)

    monkeypatch.setattr(checkpoint_module, "_write_arrays", fails_from_step_10)
    display = quiet_display()
    config = small_config(corpus, tmp_path, max_steps=12, checkpoint_interval=5)
    with pytest.raises(CheckpointError, match=r"the disk is full\. The last good checkpoint is .*step-00000005"):
        XTTSTrainer(config, display=display).train()
    assert "Step 10: The checkpoint" in text_of(display)
    assert "Training goes on." in text_of(display)
    assert [path.name for path in checkpoints_in(tmp_path)] == ["step-00000005"]
    assert load_newest(tmp_path)[0].step == 5


def test_memory_that_does_not_suffice_is_one_line_of_advice(corpus, tmp_path, monkeypatch):
    import tensorflow as tf

    trainer = XTTSTrainer(small_config(corpus, tmp_path), display=quiet_display())

    def fails(batches):
        raise tf.errors.ResourceExhaustedError(
            None, None, "OOM when allocating tensor with shape[16,800,4096] and type float on /device:GPU:0"
        )

    monkeypatch.setattr(trainer.steps, "learn", fails)
    with pytest.raises(
        TrainingError, match=r"Out of memory for a tensor of 200 MiB at step 0.*--batch-size 1 --grad-accum 2"
    ):
        trainer.train()
    trainer.feed.close()


@pytest.mark.slow
@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_process_goes_on_bit_for_bit(corpus, tmp_path, kill):
    settings = {
        "corpus": str(corpus),
        "training": {"max_steps": STEPS, "checkpoint_interval": 5, "deterministic": True},
    }
    whole = start(**settings, run=str(tmp_path / "whole"), losses=str(tmp_path / "whole.txt"))
    victim_step = random.randint(6, STEPS - 1)
    parts = {"run": str(tmp_path / "parts"), "losses": str(tmp_path / "parts.txt")}
    victim = start(**settings, **parts, stop_at=victim_step, signal=int(kill))
    text = finish(victim, expected_code=-kill if kill == signal.SIGKILL else 0)
    if kill != signal.SIGKILL:
        assert "interrupted; run the same command again to go on from here" in text
        assert load_newest(tmp_path / "parts")[0].step == victim_step
    assert "Resuming at step" in finish(start(**settings, **parts))
    finish(whole)
    assert losses_of(tmp_path / "parts.txt") == losses_of(tmp_path / "whole.txt"), f"killed at step {victim_step}"
