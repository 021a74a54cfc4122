"""The voice in training as the loop uses it."""

import numpy as np
import pytest

from myxtts.training import steps
from myxtts.training.voice_task import count_steps
from tests.training.small_runs import small_config


def test_the_validation_loss_weighs_its_terms_as_the_training_loss_does(make_trainer, monkeypatch):
    task = make_trainer().task
    monkeypatch.setattr(steps, "DURATION_WEIGHT", 3.0)
    losses = task.validate()
    assert losses["loss"] == pytest.approx(losses["flow"] + losses["prior"] + 3 * losses["duration"])


def test_validation_counts_every_held_out_clip_once(make_trainer):
    task, counted = make_trainer().task, []
    clips = np.concatenate([batch.clips.numpy().ravel() for batch in task.validation_batches()])
    assert sorted(clips[clips >= 0]) == sorted(task.corpus.validation_plan.clips)
    task.validate(counted.append)
    assert counted == list(range(1, len(counted) + 1))


def test_a_saved_voice_is_sampled_without_reading_the_checkpoint_back(make_trainer):
    task = make_trainer().task
    saved = task.save()
    for path in saved.path.iterdir():
        path.unlink()
    assert all(path.is_file() for path in task.sample(saved, None))


@pytest.mark.parametrize(("batches", "accumulated", "expected"), [(10.0, 1, 10), (10.0, 4, 3), (9.9999999, 3, 4)])
def test_the_last_step_may_reach_into_the_next_epoch(tmp_path, batches, accumulated, expected):
    config = small_config(tmp_path, tmp_path, gradient_accumulation_steps=accumulated, max_steps=None)
    assert count_steps(batches, config) == expected
    capped = small_config(tmp_path, tmp_path, gradient_accumulation_steps=accumulated, max_steps=2)
    assert count_steps(batches, capped) == 2
