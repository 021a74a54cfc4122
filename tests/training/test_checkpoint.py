"""Checkpoints: whole or not there, damaged ones skipped, nothing lost on a full disk."""

import dataclasses
import json
import subprocess
import sys
import zipfile
import zlib

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
from myxtts.training.starting_state import agree_on_best, move_earlier_run
from myxtts.training.state import RunHistory
from tests.training.small_runs import to_format_1


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
def test_a_damaged_checkpoint_is_skipped_for_the_one_before(tmp_path, damage):
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
    found, skipped = load_newest(tmp_path)
    assert found.step == 10
    assert len(skipped) == (0 if damage == "no state" else 1)


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


KILLED_AT_RENAME = """
import os, sys
from pathlib import Path
from myxtts.training.checkpoint import load_checkpoint, mark_best, save_checkpoint

rename, count, folder = Path.rename, 0, Path(sys.argv[1])

def counted(path, target):
    global count
    count += 1
    if count == int(sys.argv[3]):
        os._exit(9)
    return rename(path, target)

newest = sorted(folder.glob("step-*"))[-1]
saved = load_checkpoint(newest)
Path.rename = counted
mark_best(folder, newest) if sys.argv[2] == "best" else save_checkpoint(folder, saved)
"""


def killed_at_rename(folder, what, number):
    """Replace a folder in a process that ends, without any cleanup, at its rename of that number."""
    done = subprocess.run([sys.executable, "-c", KILLED_AT_RENAME, str(folder), what, str(number)], check=False)
    assert done.returncode == 9


@pytest.mark.parametrize("number", [1, 2])
def test_a_kill_while_the_best_is_replaced_leaves_the_old_one(tmp_path, number):
    mark_best(tmp_path, save_checkpoint(tmp_path, make_checkpoint(10)))
    save_checkpoint(tmp_path, make_checkpoint(20))
    killed_at_rename(tmp_path, "best", number)
    keep_newest(tmp_path, 1)
    finish_interrupted(tmp_path)
    assert load_checkpoint(tmp_path / "best").step == 10
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best", "step-00000020"]


@pytest.mark.parametrize("number", [1, 2])
def test_a_kill_while_a_checkpoint_is_written_again_leaves_the_old_one(tmp_path, number):
    save_checkpoint(tmp_path, make_checkpoint(10))
    killed_at_rename(tmp_path, "step", number)
    finish_interrupted(tmp_path)
    assert load_newest(tmp_path)[0].step == 10
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000010"]


def test_what_version_010_left_between_two_renames_is_put_back(tmp_path):
    mark_best(tmp_path, save_checkpoint(tmp_path, make_checkpoint(10)))
    (tmp_path / "best").rename(tmp_path / "best.old")
    save_checkpoint(tmp_path, make_checkpoint(20)).rename(tmp_path / "step-00000020.partial")
    finish_interrupted(tmp_path)
    assert load_checkpoint(tmp_path / "best").step == 10
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best", "step-00000010"]


def test_a_checkpoint_of_version_010_is_read_and_saved_again_in_the_current_format(tmp_path):
    saved = make_checkpoint()
    loaded = load_checkpoint(to_format_1(save_checkpoint(tmp_path, saved)))
    np.testing.assert_array_equal(loaded.arrays["weights"], saved.arrays["weights"])
    again = save_checkpoint(tmp_path, loaded)
    assert sorted(path.name for path in again.iterdir()) == [module.ARRAYS_NAME, module.STATE_NAME]
    np.testing.assert_array_equal(load_checkpoint(again).arrays["weights"], saved.arrays["weights"])


@pytest.mark.parametrize("header", [b"{", b"(" * 200])
def test_an_array_header_of_format_1_that_cannot_be_parsed_is_one_clear_error(tmp_path, header):
    path = to_format_1(save_checkpoint(tmp_path, make_checkpoint()))
    array = b"\x93NUMPY\x01\x00" + (len(header) + 1).to_bytes(2, "little") + header + b"\n"
    with zipfile.ZipFile(path / "arrays.npz", "w") as file:
        file.writestr("weights.npy", array)
    state = json.loads((path / module.STATE_NAME).read_text())
    state["arrays_crc32"] = zlib.crc32((path / "arrays.npz").read_bytes())
    (path / module.STATE_NAME).write_text(json.dumps(state))
    with pytest.raises(CheckpointError, match="is not a valid checkpoint"):
        load_checkpoint(path)


def test_checkpoints_and_the_settings_of_a_start_are_read_without_tensorflow():
    code = "import sys, myxtts.training.checkpoint, myxtts.training.starting_config as s; "
    code += "s.read_origin('bundled'); sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


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
    ("saved", "kept", "expected_best", "expected_history"),
    [
        ([10, 20], None, 20, (0.2, 20)),  # killed before best/ was written
        ([10, 20], 10, 20, (0.2, 20)),
        ([10, 30], 10, 10, (0.1, 10)),  # the disk was full at step 20
        ([10, 30], None, None, (None, 0)),
        ([10, 20, 30], 30, 30, (0.2, 20)),  # best/ was marked after the checkpoint that the run resumes from
    ],
)
def test_the_best_step_in_the_history_and_in_the_folder_agree(tmp_path, saved, kept, expected_best, expected_history):
    for step in saved:
        history = RunHistory(best_loss=step / 100, best_step=step).to_dict()
        path = save_checkpoint(tmp_path, dataclasses.replace(make_checkpoint(step), progress=history))
        if step == kept:
            mark_best(tmp_path, path)
    history = RunHistory(best_loss=0.2, best_step=20)
    agree_on_best(tmp_path, history, writes=True)
    best = best_state(tmp_path)
    assert (best and best["step"]) == expected_best
    assert (history.best_loss, history.best_step) == expected_history


def test_the_best_by_evaluation_is_left_alone_and_only_the_chief_writes(tmp_path):
    save_checkpoint(tmp_path, make_checkpoint(20))
    agree_on_best(tmp_path, RunHistory(best_loss=0.2, best_step=20, best_evaluation=0.1), writes=True)
    agree_on_best(tmp_path, RunHistory(best_loss=0.2, best_step=20), writes=False)
    assert not (tmp_path / "best").exists()


def test_reset_training_moves_all_files_of_the_earlier_run(tmp_path):
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
        move_earlier_run(tmp_path, lambda line: None)
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
