"""Checkpoints: whole or not there, damaged ones passed over, nothing lost on a full disk."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from myxtts.errors import CheckpointError
from myxtts.training import checkpoint as module
from myxtts.training.checkpoint import (
    Checkpoint,
    best_state,
    checkpoints_in,
    finish_interrupted,
    keep_newest,
    load_checkpoint,
    load_newest,
    mark_best,
    resolve_checkpoint,
    save_checkpoint,
)
from myxtts.training.progress import Progress
from myxtts.training.resume import agree_on_best, set_aside_run


def make_checkpoint(step=10):
    return Checkpoint(
        step=step,
        position=(2, 5),
        arrays={"weights": np.arange(7, dtype=np.float32) + step, "fixed/mel_mean": np.ones(3, np.float32)},
        weight_names=["a", "b"],
        weight_shapes=[[2, 2], [3]],
        scalars={"step": step},
        config={"data": {}},
        corpus={"symbols": ["<pad>", "ə"]},
        progress={"best_loss": 0.5},
    )


def test_a_checkpoint_reads_back_equal(tmp_path):
    saved = make_checkpoint()
    loaded = load_checkpoint(save_checkpoint(tmp_path, saved))
    assert (loaded.step, loaded.position, loaded.scalars, loaded.corpus) == (10, (2, 5), saved.scalars, saved.corpus)
    np.testing.assert_array_equal(loaded.arrays["weights"], saved.arrays["weights"])


def test_weights_are_found_by_name(tmp_path):
    named = load_checkpoint(save_checkpoint(tmp_path, make_checkpoint())).named_weights()
    assert named["a"].shape == (2, 2)
    np.testing.assert_array_equal(named["b"], [14, 15, 16])
    np.testing.assert_array_equal(named["mel_mean"], np.ones(3))


@pytest.mark.parametrize("damage", ["cut", "flip", "no state", "no arrays", "garbage state", "other version"])
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(tmp_path, damage):
    save_checkpoint(tmp_path, make_checkpoint(10))
    newest = save_checkpoint(tmp_path, make_checkpoint(20))
    arrays, state = newest / module.ARRAYS_NAME, newest / module.STATE_NAME
    content = arrays.read_bytes()
    if damage == "cut":
        arrays.write_bytes(content[: len(content) // 2])
    elif damage == "flip":
        arrays.write_bytes(content[:-100] + bytes([content[-100] ^ 1]) + content[-99:])
    elif damage == "no arrays":
        arrays.unlink()
    elif damage == "no state":
        state.unlink()
    elif damage == "garbage state":
        state.write_text("{")
    else:
        state.write_text(json.dumps(json.loads(state.read_text()) | {"format_version": 99}))
    found, passed_over = load_newest(tmp_path)
    assert found.step == 10
    assert len(passed_over) == (0 if damage == "no state" else 1)


def test_a_half_written_checkpoint_is_never_seen(tmp_path):
    (tmp_path / "step-00000099.partial").mkdir()
    assert load_newest(tmp_path) == (None, [])
    save_checkpoint(tmp_path, make_checkpoint())
    finish_interrupted(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000010"]


def test_a_full_disk_leaves_the_last_good_checkpoint(tmp_path, monkeypatch):
    good = save_checkpoint(tmp_path, make_checkpoint(10))

    def no_space(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "_write_arrays", no_space)
    with pytest.raises(CheckpointError, match=rf"the disk is full\. The last good checkpoint is {good}"):
        save_checkpoint(tmp_path, make_checkpoint(20))
    assert checkpoints_in(tmp_path) == [good]
    assert load_newest(tmp_path)[0].step == 10


def test_only_the_newest_and_the_best_are_kept(tmp_path):
    for step in (10, 20, 30):
        mark = save_checkpoint(tmp_path, make_checkpoint(step))
        if step == 10:
            mark_best(tmp_path, mark)
    keep_newest(tmp_path, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best", "step-00000020", "step-00000030"]
    assert load_checkpoint(tmp_path / "best").step == 10
    assert resolve_checkpoint(tmp_path) == tmp_path / "best"


def test_the_best_can_be_replaced(tmp_path):
    mark_best(tmp_path, save_checkpoint(tmp_path, make_checkpoint(10)))
    mark_best(tmp_path, save_checkpoint(tmp_path, make_checkpoint(20)))
    assert load_checkpoint(tmp_path / "best").step == 20


class Killed(BaseException):
    """Not caught by anything, as a kill."""


def killed_at_rename(monkeypatch, number, action):
    """Run `action` until its rename of that number."""
    rename, count = Path.rename, 0

    def counted(path, target):
        nonlocal count
        count += 1
        if count == number:
            raise Killed
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", counted)
        with pytest.raises(Killed):
            action()


@pytest.mark.parametrize("number", [1, 2])
def test_a_kill_while_the_best_is_replaced_leaves_the_old_one(tmp_path, monkeypatch, number):
    mark_best(tmp_path, save_checkpoint(tmp_path, make_checkpoint(10)))
    newest = save_checkpoint(tmp_path, make_checkpoint(20))
    killed_at_rename(monkeypatch, number, lambda: mark_best(tmp_path, newest))
    keep_newest(tmp_path, 1)
    finish_interrupted(tmp_path)
    assert load_checkpoint(tmp_path / "best").step == 10
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best", "step-00000020"]


@pytest.mark.parametrize("number", [1, 2])
def test_a_kill_while_a_checkpoint_is_written_again_leaves_the_old_one(tmp_path, monkeypatch, number):
    save_checkpoint(tmp_path, make_checkpoint(10))
    killed_at_rename(monkeypatch, number, lambda: save_checkpoint(tmp_path, make_checkpoint(10)))
    finish_interrupted(tmp_path)
    assert load_newest(tmp_path)[0].step == 10
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000010"]


def test_a_full_disk_leaves_the_best_as_it_was(tmp_path, monkeypatch):
    mark_best(tmp_path, save_checkpoint(tmp_path, make_checkpoint(10)))
    newest = save_checkpoint(tmp_path, make_checkpoint(20))

    def no_space(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "_link_or_copy", no_space)
    with pytest.raises(CheckpointError, match=rf"could not be kept as {tmp_path / 'best'}: the disk is full"):
        mark_best(tmp_path, newest)
    assert load_checkpoint(tmp_path / "best").step == 10


@pytest.mark.parametrize(
    ("saved", "kept", "expected_best", "expected_progress"),
    [
        ([10, 20], None, 20, (0.2, 20)),  # killed before best/ was written
        ([10, 20], 10, 20, (0.2, 20)),
        ([10, 30], 10, 10, (0.1, 10)),  # the disk was full at step 20
        ([10, 30], None, None, (None, 0)),
        ([10, 20, 30], 30, 30, (0.2, 20)),  # best/ was marked after the checkpoint that the run goes on from
    ],
)
def test_the_best_that_is_told_and_the_best_that_is_kept_agree(tmp_path, saved, kept, expected_best, expected_progress):
    for step in saved:
        told = Progress(best_loss=step / 100, best_step=step).to_dict()
        path = save_checkpoint(tmp_path, dataclasses.replace(make_checkpoint(step), progress=told))
        if step == kept:
            mark_best(tmp_path, path)
    progress = Progress(best_loss=0.2, best_step=20)
    agree_on_best(tmp_path, progress, writes=True)
    best = best_state(tmp_path)
    assert (best and best["step"]) == expected_best
    assert (progress.best_loss, progress.best_step) == expected_progress


def test_the_best_by_evaluation_is_left_alone_and_only_the_chief_writes(tmp_path):
    save_checkpoint(tmp_path, make_checkpoint(20))
    agree_on_best(tmp_path, Progress(best_loss=0.2, best_step=20, best_evaluation=0.1), writes=True)
    agree_on_best(tmp_path, Progress(best_loss=0.2, best_step=20), writes=False)
    assert not (tmp_path / "best").exists()


def test_a_new_start_moves_all_that_the_earlier_run_left(tmp_path):
    left = (
        "step-00000010",
        "step-00000020.partial",
        ".voice.7.partial",
        "best",
        "best.old",
        "evaluated-voice",
        "worker-1",
    )
    for name in left:
        (tmp_path / name).mkdir()
    (tmp_path / "before-reset-2").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    for _ in range(2):
        (tmp_path / "status.json").write_text("{}")
        set_aside_run(tmp_path, lambda line: None)
    assert {path.name for path in tmp_path.iterdir()} == {
        "before-reset-1",
        "before-reset-2",
        "before-reset-3",
        "notes.txt",
    }
    assert {path.name for path in (tmp_path / "before-reset-1").iterdir()} == {*left, "status.json"}


def test_a_folder_without_a_checkpoint_is_a_clear_error(tmp_path):
    with pytest.raises(CheckpointError, match="No checkpoint found"):
        resolve_checkpoint(tmp_path)
    with pytest.raises(CheckpointError, match="not a whole checkpoint"):
        load_checkpoint(tmp_path)
