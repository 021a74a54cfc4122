"""The promised step methods, for scripts with a loop of their own, and the check for retracing."""

import numpy as np
import pytest
import tensorflow as tf

from myxtts.errors import TrainingError
from myxtts.runtime.compilation import RetraceKind
from myxtts.training.steps import METRICS, VALIDATION_SUMS
from myxtts.training.trainer import XTTSTrainer
from tests.training.small_runs import quiet_display, small_config, text_of


def four_tensors(rows=4, tokens=12, frames=60):
    random = np.random.default_rng(0)
    return (
        tf.constant(random.integers(2, 8, (rows, tokens)), tf.int32),
        tf.constant(random.normal(size=(rows, frames, 80)), tf.float32),
        tf.fill([rows], tokens),
        tf.fill([rows], frames),
    )


def test_a_padded_batch_is_learned_from_and_measured(make_trainer):
    trainer = make_trainer(learning_rate=0.01, warmup_steps=0)
    before = trainer.validation_step(*four_tensors()).numpy()[VALIDATION_SUMS.index("prior")]
    for _ in range(8):
        loss = trainer.distributed_train_step(*four_tensors()).numpy()[METRICS.index("loss")]
    assert np.isfinite(loss)
    assert trainer.validation_step(*four_tensors()).numpy()[VALIDATION_SUMS.index("prior")] < before
    assert trainer.check_retracing() == ()


def test_accumulated_parts_learn_what_the_whole_batch_would(make_trainer):
    whole, parts = make_trainer(), make_trainer(gradient_accumulation_steps=2)
    expected = whole.distributed_train_step(*four_tensors()).numpy()
    found = parts.train_step_with_accumulation(*four_tensors()).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_a_batch_that_cannot_be_split_is_refused(make_trainer):
    with pytest.raises(TrainingError, match="3 rows cannot be split into gradient_accumulation_steps=2"):
        make_trainer(gradient_accumulation_steps=2).train_step_with_accumulation(*four_tensors(rows=3))


def test_the_check_names_a_batch_of_another_length(make_trainer):
    trainer = make_trainer()
    trainer.distributed_train_step(*four_tensors())
    trainer.distributed_train_step(*four_tensors(frames=70))
    (retrace,) = trainer.check_retracing()
    assert (retrace.step, retrace.argument, retrace.kind) == (2, "mel", RetraceKind.TRACE)
    assert "tf.function RETRACING detected at step 2 (total retraces: 1)" in text_of(trainer.display)


def test_every_batch_of_a_step_is_watched(make_trainer):
    trainer = make_trainer(gradient_accumulation_steps=2)
    trainer.warm_up()
    planned, longer = (next(trainer.task.feed) for _ in range(2))
    longer = longer._replace(mel=tf.pad(longer.mel, [[0, 0], [0, 8], [0, 0]]))
    trainer.task.steps.learn([planned, longer])
    trainer.task.watch.observe_step(1, "gradient_step", [planned, longer])
    assert [retrace.argument for retrace in trainer.check_retracing()] == ["mel"]


def test_a_retrace_fails_the_run_that_asked_for_it(make_trainer):
    trainer = make_trainer(on_retrace="fail")
    trainer.distributed_train_step(*four_tensors())
    with pytest.raises(TrainingError, match="RETRACING detected at step 2"):
        trainer.distributed_train_step(*four_tensors(frames=70))


def test_the_first_batch_of_the_dynamic_plan_is_its_warm_up(corpus, tmp_path):
    config = small_config(corpus, tmp_path, data={"plan": "dynamic"}, max_steps=1, on_retrace="fail")
    summary = XTTSTrainer(config, display=quiet_display()).train()
    assert summary.step == 1
    assert summary.counts.traces > 0
    assert summary.counts_after_warmup.traces == 0


@pytest.mark.parametrize("settings", [{"enable_xla_compilation": False}, {"enable_graph_mode": False}])
def test_where_xla_is_off_nothing_is_compiled_by_it(make_trainer, settings):
    trainer = make_trainer(**settings)
    before = trainer.task.watch.counts().compilations
    trainer.distributed_train_step(*four_tensors(frames=64))
    trainer.validation_step(*four_tensors(frames=64))
    assert trainer.task.watch.counts().compilations == before


def test_parts_of_a_step_are_compiled_by_xla_where_it_is_not_off(make_trainer):
    trainer = make_trainer()
    before = trainer.task.watch.counts().compilations
    trainer.distributed_train_step(*four_tensors(frames=66))
    assert trainer.task.watch.counts().compilations > before
