"""Epochs: every plan shows each clip as often as asked, also where a step sums batches of several shapes."""

import math
from collections import Counter

import numpy as np
import pytest

from myxtts.batches.plan import PLAN_KINDS
from myxtts.cache.prepare import prepare_cache
from myxtts.training.trainer import XTTSTrainer
from tests.corpus.tiny_corpus import write_metadata, write_tone
from tests.training.small_runs import quiet_display, small_config, text_of

CLIPS = 26
EPOCHS = 3


@pytest.fixture(scope="module")
def uneven_corpus(tmp_path_factory):
    """Tones of many lengths: eight buckets of different sizes."""
    folder = tmp_path_factory.mktemp("uneven")
    for number in range(CLIPS):
        write_tone(
            folder / "wavs" / f"clip{number:03d}.wav", 0.5 + 0.07 * (number % 13), 200 + 10 * number, seed=number
        )
    write_metadata(folder, {f"clip{number:03d}": "one two" for number in range(CLIPS)})
    prepare_cache(small_config(folder, folder).data)
    return folder


def run_counting(corpus, run, plan, **training):
    """Train; returns the trainer, how often each clip was shown, and the shapes of each step."""
    settings = {"epochs": EPOCHS, "max_steps": None} | training
    data = {"plan": plan, "num_buckets": 8, "validation_share": 1e-9}
    trainer = XTTSTrainer(small_config(corpus, run, data, **settings), display=quiet_display())
    trainer.task.sample = lambda saved, log: []  # takes longer than the training
    shown, shapes, learn = Counter(), [], trainer.task.steps.learn

    def note(batches):
        clips = np.concatenate([batch.clips.numpy().ravel() for batch in batches])
        if (clips >= 0).any():  # the warm-up has none
            shown.update(clips[clips >= 0].tolist())
            shapes.append([trainer.task.steps.shape_of(batch) for batch in batches])
        return learn(batches)

    trainer.task.steps.learn = note
    trainer.train()
    return trainer, shown, shapes


@pytest.mark.parametrize("plan", PLAN_KINDS)
def test_a_run_shows_every_clip_as_often_as_epochs_were_asked_for(uneven_corpus, tmp_path, plan):
    trainer, shown, steps = run_counting(uneven_corpus, tmp_path, plan, enable_graph_mode=False)
    clips = trainer.task.corpus.plan.clips.tolist()
    assert sorted(shown) == clips
    # Batches are always full: the last one reaches into the next epoch. `buckets` and `dynamic` also shuffle the batches of an
    # epoch, so that the one with the last clips of the epoch before may come after the end of the run.
    fewest = EPOCHS - 1 if plan in ("buckets", "dynamic") else EPOCHS
    assert all(fewest <= count <= EPOCHS + 1 for count in shown.values())
    rows = max(shape.rows for shapes in steps for shape in shapes)
    assert abs(shown.total() - EPOCHS * len(clips)) <= rows * trainer.task.corpus.plan.shapes[0].slots
    assert trainer.task.settings.schedule_steps == trainer.task.total_steps == len(steps)


def test_steps_that_sum_batches_of_several_buckets_train_without_retracing(uneven_corpus, tmp_path, caplog):
    trainer, shown, steps = run_counting(uneven_corpus, tmp_path, "buckets", gradient_accumulation_steps=2)
    plan = trainer.task.corpus.plan
    assert len(plan.shapes) == 8
    assert any(first != second for first, second in steps)  # one step, two shapes
    assert len(steps) == trainer.task.total_steps == math.ceil(plan.batches_in(EPOCHS) / 2)
    assert all(EPOCHS - 1 <= count <= EPOCHS + 1 for count in shown.values())
    assert trainer.check_retracing() == ()
    assert int(trainer.task.state.updates.numpy()) == trainer.task.total_steps
    assert "RETRACING" not in text_of(trainer.display)
    assert "tf.function retracing" not in caplog.text  # of TensorFlow's own log
