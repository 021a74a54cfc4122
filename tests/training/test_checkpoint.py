"""Checkpoints: whole or not there, damaged ones passed over, nothing lost on a full disk."""

import json

import numpy as np
import pytest

from myxtts.errors import CheckpointError
from myxtts.training import checkpoint as module
from myxtts.training.checkpoint import (
    Checkpoint,
    checkpoints_in,
    keep_newest,
    load_checkpoint,
    load_newest,
    mark_best,
    resolve_checkpoint,
    save_checkpoint,
)


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
    keep_newest(tmp_path, 1)
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


def test_a_folder_without_a_checkpoint_is_a_clear_error(tmp_path):
    with pytest.raises(CheckpointError, match="No checkpoint found"):
        resolve_checkpoint(tmp_path)
    with pytest.raises(CheckpointError, match="not a whole checkpoint"):
        load_checkpoint(tmp_path)
