"""Resuming: the same losses as without the interruption, whatever ended the run; changed settings are reported or refused."""

import contextlib
import dataclasses
import itertools
import json
import random
import shutil
import signal

import numpy as np
import pytest
import tensorflow as tf

from myxtts.audio.mel import MelSpec
from myxtts.batches.plan import build_plan
from myxtts.config.config import ModelConfig, XTTSConfig
from myxtts.config.load import config_to_dict, parse_config
from myxtts.errors import CheckpointError, TrainingError
from myxtts.models.spec import ModelSpec
from myxtts.training import checkpoint as checkpoint_module
from myxtts.training.checkpoint import (
    Checkpoint,
    checkpoints_in,
    load_checkpoint,
    load_newest,
    save_checkpoint,
)
from myxtts.training.loop import StopReason
from myxtts.training.starting_state import FREE_OF_SPEC, compare_configs, compare_facts, read_saved
from myxtts.training.state import RunHistory, TrainState, restore_checkpoint, to_checkpoint
from myxtts.training.trainer import XTTSTrainer
from tests.corpus.tiny_corpus import make_corpus, write_metadata
from tests.models.clips import tiny_model
from tests.training.child_run import finish, losses_of, start
from tests.training.small_runs import quiet_display, small_config, text_of, to_format_1

STEPS = 64
"""Fifty and more after the last checkpoint before a run dies."""
NEXT_EPOCH = "The batch order changed, so training continues from the start of the next epoch."


class Killed(BaseException):
    """Ends a run where it is, as a kill would: nothing is caught, nothing is saved."""


def run_trainer(corpus, run, dies_at=None, data=None, **training):
    """Losses by step, exactly, and what was shown."""
    display, losses = quiet_display(), {}
    settings = {"max_steps": STEPS, "schedule_steps": STEPS, "checkpoint_interval": 5, "log_interval": 1} | training
    trainer = XTTSTrainer(small_config(corpus, run, data, **settings), display=display)

    def note(metrics):
        losses[trainer.step] = metrics.loss
        if trainer.step == dies_at:
            raise Killed

    display.metrics = note
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


def test_a_finished_run_that_gets_more_steps_resumes(corpus, tmp_path):
    run_trainer(corpus, tmp_path, max_steps=2, enable_graph_mode=False)
    found, text = run_trainer(corpus, tmp_path, max_steps=4, enable_graph_mode=False)
    assert "Changed since the checkpoint: training.max_steps: 2 → 4" in text
    assert list(found) == [3, 4]


def opened(config):
    """A trainer that has set itself up and goes no further."""
    with XTTSTrainer(config, display=quiet_display()) as trainer:
        return trainer


def spelled_with(corpus, letters):
    """Other texts to the same number of clips: those of `letters` are replaced."""
    lines = make_corpus(corpus, 12)
    write_metadata(corpus, {clip: text.translate(str.maketrans(letters)) for clip, text in lines.items()})
    return corpus


@pytest.mark.parametrize(("letters", "line"), [({"x": "z"}, "symbols: new z, gone x"), ({"x": "s"}, "symbols: gone x")])
def test_weights_of_other_symbols_are_refused(corpus, tmp_path, letters, line):
    opened(small_config(corpus, tmp_path / "run")).task.save()
    other = spelled_with(tmp_path / "other", letters)
    with pytest.raises(CheckpointError, match=rf"{line}\nUse those of the run; .*--init-from .*--reset-training"):
        opened(small_config(other, tmp_path / "run"))


def test_clips_can_be_added_between_two_runs(tmp_path):
    corpus = tmp_path / "corpus"
    make_corpus(corpus, 12)
    opened(small_config(corpus, tmp_path / "run")).task.save()
    make_corpus(corpus, 14)
    trainer = opened(small_config(corpus, tmp_path / "run"))
    assert trainer.task.feed.position == (1, 0)
    assert NEXT_EPOCH in text_of(trainer.display)


def test_a_checkpoint_without_a_fingerprint_starts_the_next_epoch(corpus, tmp_path):
    opened(small_config(corpus, tmp_path)).task.save()
    state_path = tmp_path / "step-00000000" / "state.json"
    state = json.loads(state_path.read_text())
    assert state.pop("plan_fingerprint")
    state_path.write_text(json.dumps(state))
    again = opened(small_config(corpus, tmp_path))
    assert again.task.feed.position == (1, 0)
    assert NEXT_EPOCH in text_of(again.display)


def test_buckets_resume_from_every_position_on_another_number_of_replicas(tmp_path):
    random = np.random.default_rng(0)
    frames, tokens = random.integers(20, 700, 120), random.integers(5, 150, 120)
    one, two = (build_plan("buckets", frames, tokens, replicas=replicas) for replicas in (1, 2))
    config = XTTSConfig()
    facts = {"mel": {}, "model": {}, "front_end": {"kind": ""}, "speakers": [], "symbols": [], "languages": []}
    state = Checkpoint(
        1, (0, 0), {}, [], [], {}, config_to_dict(config), facts, plan_fingerprint=one.fingerprint("cache")
    )
    for _, _, position in itertools.islice(one.batches(), 40):
        shutil.rmtree(tmp_path)
        save_checkpoint(tmp_path, state.with_position(position))
        same = read_saved(tmp_path, config, facts, one.fingerprint("cache"), lambda line: None)
        assert same.position == position
        lines = []
        other = read_saved(tmp_path, config, facts, two.fingerprint("cache"), lines.append)
        assert NEXT_EPOCH in lines
        assert other.position == (position[0] + 1, 0)
        next(two.batches(other.position))


def test_settings_that_mean_the_same_or_only_matter_in_training_are_no_obstacle(corpus, tmp_path):
    trainer = XTTSTrainer(small_config(corpus, tmp_path), display=quiet_display())
    next(trainer.task.feed)
    trainer.task.save()
    trainer.close()
    config = small_config(corpus, tmp_path, {"sample_rate": 16000, "mel_f_max": 8000.0}, mixed_precision="off")
    model = dataclasses.replace(config.model, dropout=0.2, decoder_dropout=0.1, condition_dropout=0.2)
    again = opened(dataclasses.replace(config, model=model))
    assert "Changed since the checkpoint: data.sample_rate: 'auto' → 16000" in text_of(again.display)
    assert again.task.feed.position == trainer.task.feed.position != (0, 0)


def train_state(keeps_ema=True, uses_loss_scale=False):
    return TrainState(tiny_model(num_speakers=1), keeps_ema, uses_loss_scale)


def carried_over(before, after):
    """Bring one train state to where another is; returns the lines that are printed."""
    lines = []
    restore_checkpoint(after, to_checkpoint(before, XTTSConfig(), {}, RunHistory(), (0, 0), "", {}), lines.append)
    return lines


def test_a_level_that_newly_keeps_an_ema_starts_it_from_the_weights():
    before, after = train_state(keeps_ema=False), train_state()
    before.assign_weights(before.flat_weights() + 1)
    assert carried_over(before, after) == ["The checkpoint has no EMA of its weights: the EMA starts from its weights."]
    np.testing.assert_array_equal(after.ema.numpy(), before.flat_weights())
    assert carried_over(after, train_state()) == []
    assert carried_over(after, before) == []


def test_the_scale_of_the_loss_follows_the_precision():
    scaled, plain, fresh = train_state(uses_loss_scale=True), train_state(), train_state(uses_loss_scale=True)
    scaled.loss_scale.assign(64.0)
    carried_over(scaled, fresh)
    assert fresh.loss_scale.numpy() == 64
    carried_over(scaled, plain)
    assert plain.loss_scale.numpy() == 1
    scaled = train_state(uses_loss_scale=True)
    carried_over(plain, scaled)
    assert scaled.loss_scale.numpy() == 2**15


def test_steps_beyond_the_whole_numbers_of_float32_are_kept(tmp_path):
    before, after = train_state(), train_state()
    before.step.assign(16_777_217)
    before.updates.assign(2**40 + 1)
    before.rate_factor.assign(0.1)
    saved = to_checkpoint(before, XTTSConfig(), {}, RunHistory(), (0, 0), "", {})
    restore_checkpoint(after, load_checkpoint(save_checkpoint(tmp_path, saved)), print)
    assert (int(after.step.numpy()), int(after.updates.numpy())) == (16_777_217, 2**40 + 1)
    assert after.rate_factor.numpy() == before.rate_factor.numpy()


def test_within_restored_steps_leave_the_state_as_it_was():
    state = train_state()
    before = [state.flat_weights(), *state.vectors().values(), *(value.numpy() for value in state.scalars().values())]
    with state.restored():
        state.assign_weights(state.flat_weights() + 1)
        for variable in (state.first_moment, state.second_moment, state.ema, *state.scalars().values()):
            variable.assign(variable + tf.ones_like(variable))
    after = [state.flat_weights(), *state.vectors().values(), *(value.numpy() for value in state.scalars().values())]
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


def test_weights_to_start_from_are_refused_by_a_run_that_has_its_own(corpus, tmp_path):
    opened(small_config(corpus, tmp_path / "source")).task.save()
    source = str(tmp_path / "source")
    opened(small_config(corpus, tmp_path / "run", init_from=source)).task.save()
    opened(small_config(corpus, tmp_path / "run", init_from=source + "/"))
    with pytest.raises(CheckpointError, match="holds a run at step 0, and --init-from base only sets"):
        opened(small_config(corpus, tmp_path / "run", init_from="bundled"))


def test_the_best_checkpoint_that_a_kill_did_not_let_be_marked_is_marked_by_the_next_run(corpus, tmp_path):
    trainer = opened(small_config(corpus, tmp_path))
    trainer.task.history.note_validation(1.0, trainer.step)
    trainer.task.save()
    opened(small_config(corpus, tmp_path))
    assert (tmp_path / "best" / "state.json").is_file()


def test_a_run_out_of_patience_ends_again_at_once(corpus, tmp_path):
    trainer = opened(small_config(corpus, tmp_path))
    trainer.task.history.validations_without_improvement = 2
    trainer.task.save()
    summary = XTTSTrainer(
        small_config(corpus, tmp_path, early_stopping_patience=2, enable_graph_mode=False), display=quiet_display()
    ).train()
    assert summary.reason is StopReason.PATIENCE
    assert load_newest(tmp_path)[0].step == 0


def test_another_batch_order_starts_the_next_epoch_and_reset_training_starts_from_zero(corpus, tmp_path):
    trainer = XTTSTrainer(small_config(corpus, tmp_path), display=quiet_display())
    trainer.task.step = 4
    trainer.task.state.step.assign(4)
    next(trainer.task.feed)
    trainer.task.save()
    trainer.close()
    display = quiet_display()
    with XTTSTrainer(small_config(corpus, tmp_path, {"batch_size": 12}), display=display) as changed:
        pass
    assert (changed.step, changed.task.feed.position) == (4, (1, 0))
    assert "Changed since the checkpoint: data.batch_size: 4 → 12" in text_of(display)
    assert NEXT_EPOCH in text_of(display)
    with XTTSTrainer(small_config(corpus, tmp_path), display=quiet_display(), reset_training=True) as reset:
        pass
    assert (reset.step, reset.task.feed.position) == (0, (0, 0))


def test_a_full_disk_is_reported_and_the_last_good_checkpoint_stays(corpus, tmp_path, monkeypatch):
    write, written = checkpoint_module._write_arrays, []

    def fails_after_the_first(path, arrays):
        if written:
            raise OSError(28, "No space left on device")
        written.append(path)
        return write(path, arrays)

    monkeypatch.setattr(checkpoint_module, "_write_arrays", fails_after_the_first)
    display = quiet_display()
    config = small_config(corpus, tmp_path, max_steps=12, checkpoint_interval=5, enable_graph_mode=False)
    with pytest.raises(CheckpointError, match=r"the disk is full\. The last good checkpoint is .*step-00000005"):
        XTTSTrainer(config, display=display).train()
    assert "Step 10: The checkpoint" in text_of(display)
    assert "Training continues." in text_of(display)
    assert [path.name for path in checkpoints_in(tmp_path)] == ["step-00000005"]
    assert load_newest(tmp_path)[0].step == 5


def test_too_little_memory_is_one_line_of_advice(corpus, tmp_path, monkeypatch):
    trainer = XTTSTrainer(small_config(corpus, tmp_path), display=quiet_display())

    def fails(batches):
        raise tf.errors.ResourceExhaustedError(
            None, None, "OOM when allocating tensor with shape[16,800,4096] and type float on /device:GPU:0"
        )

    monkeypatch.setattr(trainer.task.steps, "learn", fails)
    with pytest.raises(
        TrainingError, match=r"Out of memory for a tensor of 200 MiB at step 0.*--batch-size 1 --grad-accum 2"
    ):
        trainer.train()
    trainer.close()


@pytest.mark.slow
@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_process_resumes_bit_for_bit(corpus, tmp_path, kill):
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
        assert "interrupted; run the same command again to resume" in text
        assert load_newest(tmp_path / "parts")[0].step == victim_step
    assert "Resuming at step" in finish(start(**settings, **parts))
    finish(whole)
    assert losses_of(tmp_path / "parts.txt") == losses_of(tmp_path / "whole.txt"), f"killed at step {victim_step}"


def test_a_changed_setting_is_named_with_both_values():
    now = parse_config({"training": {"learning_rate": 1e-5}})
    (rate,) = compare_configs(config_to_dict(XTTSConfig()), config_to_dict(now))
    assert str(rate) == "training.learning_rate: None → 1e-05"


def test_every_listed_number_of_the_network_exists():
    assert {field.name for field in dataclasses.fields(ModelSpec)} >= FREE_OF_SPEC


def facts(symbols="abc", languages=("en",), speakers=("a",), kind="graphemes", rate=16000, **model):
    spec = ModelSpec.from_config(
        ModelConfig(**model), num_symbols=len(symbols), num_languages=1, num_speakers=len(speakers), n_mels=80
    )
    return {
        "model": spec.to_dict(),
        "mel": MelSpec(rate).to_dict(),
        "front_end": {"kind": kind, "lexicon": {}},
        "symbols": list(symbols),
        "languages": list(languages),
        "speakers": list(speakers),
    }


@pytest.mark.parametrize(
    ("before", "now", "lines"),
    [
        ({}, {"symbols": "abd"}, ["symbols: new d, gone c"]),
        ({}, {"symbols": "abcd"}, ["symbols: new d"]),
        ({}, {"symbols": "acb"}, ["symbols: the same in another order"]),
        ({}, {"languages": ("en", "fa")}, ["languages: new fa"]),
        ({}, {"kind": "phonemes"}, ["text_symbols: 'graphemes' → 'espeak'"]),
        ({}, {"rate": 22050}, ["mel.sample_rate: 16000 → 22050"]),
        ({}, {"decoder_layers": 3}, ["model.decoder_layers: 8 → 3"]),
        ({}, {"speakers": "ab"}, ["number of speakers: 1 → 2"]),
        ({"speakers": "ab"}, {"speakers": "acd"}, []),
        ({}, {"speakers": "b"}, []),
        ({}, {"dropout": 0.3, "decoder_dropout": 0.2, "condition_dropout": 0.2}, []),
    ],
)
def test_weights_fit_only_a_corpus_with_the_same_meaning(before, now, lines):
    assert compare_facts(facts(**before), facts(**now)) == lines


def test_a_number_that_an_earlier_version_did_not_save_is_no_difference():
    before = facts()
    del before["model"]["decoder_dilations"]
    assert compare_facts(before, facts()) == []


def test_a_run_of_version_010_is_resumed_and_can_be_started_from(corpus, tmp_path):
    run = tmp_path / "run"
    task = opened(small_config(corpus, run)).task
    task.state.assign_weights(task.state.flat_weights() + 1)
    task.state.ema.assign(task.state.ema + 2)
    task.state.step.assign(7)
    to_format_1(task.save().path)
    again = opened(small_config(corpus, run)).task
    assert again.step == 7
    np.testing.assert_array_equal(again.state.flat_weights(), task.state.flat_weights())
    np.testing.assert_array_equal(again.state.ema.numpy(), task.state.ema.numpy())
    started = opened(small_config(corpus, tmp_path / "other", init_from=str(run))).task
    assert started.step == 0
    np.testing.assert_array_equal(started.state.flat_weights(), task.state.ema.numpy())


def test_a_checkpoint_that_does_not_name_a_condition_has_none():
    facts = {
        "mel": {},
        "model": {},
        "front_end": {"kind": "graphemes"},
        "speakers": ["a", "b"],
        "symbols": [],
        "languages": [],
    }
    now = facts | {"model": {"recording_condition": True, "speaker_loss": 0.0, "virtual_speakers": 0.2}}
    assert compare_facts(facts, now) == ["model.recording_condition: False → True"]
    told_apart = facts | {"model": {"speaker_loss": 0.1}}
    assert compare_facts(told_apart, told_apart) == []
    (line,) = compare_facts(told_apart, told_apart | {"speakers": ["a", "b", "c"]})
    assert "model.speaker_loss" in line
