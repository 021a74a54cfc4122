"""Checkpoints: the whole train state in one folder that a reader sees complete or not at all. No TensorFlow here.

    step-00001500/
      arrays.safetensors  weights, first_moment, second_moment, average (the EMA): flat float32; the network's fixed statistics
      state.json          step, data position, names and shapes of the weights, config, symbols, …; checksum of the arrays
    best/                 a copy of the folder that was best by validation

Checkpoints of version 0.1.0 (format 1) hold arrays.npz instead, and are still read. safetensors is made for
untrusted files: every defect is one type of error. It does not detect a flipped bit, so the checksum stays.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import tokenize
import zipfile
import zlib
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_safetensors
from safetensors.numpy import save as safetensors_bytes

from myxtts.errors import CheckpointError
from myxtts.runtime.safe_files import TEMPORARY_SUFFIX, cause_of, recover_folder, replacing_folder

FORMAT_VERSION = 2
"""1: arrays in an npz file (0.1.0). 2: safetensors."""
STATE_NAME = "state.json"
ARRAYS_NAMES = {1: "arrays.npz", 2: "arrays.safetensors"}
"""The file of arrays by format version."""
ARRAYS_NAME = ARRAYS_NAMES[FORMAT_VERSION]
BEST_NAME = "best"
_FOLDER = re.compile(r"^step-(\d{8})$")


@dataclass(frozen=True)
class Checkpoint:
    """A train state as plain data."""

    step: int
    position: tuple[int, int]
    """(epoch, row) of the next batch, in the batch order that `plan_fingerprint` names."""
    arrays: dict[str, np.ndarray]
    weight_names: list[str]
    weight_shapes: list[list[int]]
    scalars: dict[str, int | float]
    config: dict[str, Any]
    corpus: dict[str, Any]
    """What the weights mean: model spec, mel, symbols, front end, languages, speakers, license, cache fingerprint."""
    progress: dict[str, Any] = field(default_factory=dict)
    """`RunHistory` as a dict."""
    plan_fingerprint: str = ""
    """`Plan.fingerprint` of the batch order; empty in checkpoints of 0.1.0."""
    hardware: dict[str, str] = field(default_factory=dict)
    """What it was computed on (`Hardware.facts`); empty in checkpoints of 0.1.0."""
    format_version: int = FORMAT_VERSION

    def with_position(self, position: tuple[int, int]) -> Checkpoint:
        """The same state at another position in the data."""
        return replace(self, position=position)

    def named_weights(self, *, prefers_ema: bool = False) -> dict[str, np.ndarray]:
        """Weights by name, the network's fixed statistics among them.

        Args:
            prefers_ema: the EMA of the weights where there is one, which is what a voice gets.
        """
        flat = self.arrays["average" if prefers_ema and "average" in self.arrays else "weights"]
        sizes = [int(np.prod(shape)) for shape in self.weight_shapes]
        parts = np.split(flat, np.cumsum(sizes)[:-1])
        named = {
            name: part.reshape(shape)
            for name, shape, part in zip(self.weight_names, self.weight_shapes, parts, strict=True)
        }
        return named | {
            name.removeprefix("fixed/"): array for name, array in self.arrays.items() if name.startswith("fixed/")
        }


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write `folder`/step-N; on a full disk what was there before stays, and a `CheckpointError` names it."""
    target = folder_of_step(folder, checkpoint.step)
    try:
        with replacing_folder(target) as new:
            checksum = _write_arrays(new / ARRAYS_NAME, checkpoint.arrays)
            state = {name: value for name, value in asdict(replace(checkpoint, arrays={})).items() if name != "arrays"}
            state |= {"format_version": FORMAT_VERSION, "arrays_crc32": checksum}
            (new / STATE_NAME).write_text(json.dumps(state, ensure_ascii=False), encoding="utf-8")
    except OSError as error:
        last = newest_checkpoint(folder)
        kept = f"The last good checkpoint is {last}." if last else "There is no earlier checkpoint."
        raise CheckpointError(
            f"The checkpoint {target} could not be written: {cause_of(error)}. {kept} Free some space."
        ) from error
    return target


def load_checkpoint(folder: Path) -> Checkpoint:
    """Read one checkpoint folder; anything that is missing, cut off or not a checkpoint is a `CheckpointError`."""
    state = read_state(folder)
    version = state["format_version"]
    path = folder / ARRAYS_NAMES[version]
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _not_whole(folder, error) from None
    if zlib.crc32(content) != state.pop("arrays_crc32", None):
        raise CheckpointError(
            f"{path} is damaged: its checksum does not match. Remove the folder; the previous checkpoint is then used."
        )
    try:
        state["arrays"] = load_safetensors(content) if version > 1 else _load_npz(content)
        state["position"] = tuple(state["position"])
        return Checkpoint(**state)
    except (TypeError, KeyError, ValueError, SafetensorError, zipfile.BadZipFile, tokenize.TokenError) as error:
        raise CheckpointError(f"{folder} is not a valid checkpoint: {error}. Use another one.") from None


def read_state(folder: Path) -> dict[str, Any]:
    """The description of a checkpoint: `Checkpoint` without its arrays, which are not read."""
    try:
        state = json.loads((folder / STATE_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _not_whole(folder, error) from None
    version = state.get("format_version") if isinstance(state, dict) else None
    if version not in ARRAYS_NAMES:
        known = " and ".join(map(str, ARRAYS_NAMES))
        raise CheckpointError(
            f"{folder} has checkpoint format {version}; this version of MyXTTS reads {known}. Use another checkpoint."
        )
    return state


def _not_whole(folder: Path, error: Exception) -> CheckpointError:
    return CheckpointError(
        f"{folder} is not a whole checkpoint ({error}). Expected a folder with {STATE_NAME} and {ARRAYS_NAME}, "
        "such as checkpointsmain/step-00001000."
    )


def _write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> int:
    """Write the arrays; returns the checksum of the file."""
    content = safetensors_bytes(arrays)
    path.write_bytes(content)
    return zlib.crc32(content)


def _load_npz(content: bytes) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def folder_of_step(folder: Path, step: int) -> Path:
    """Where the checkpoint of a step is kept."""
    return folder / f"step-{step:08d}"


def checkpoints_in(folder: Path) -> list[Path]:
    """Finished checkpoint folders, oldest first."""
    if not os.path.isdir(folder):  # unlike Path.is_dir, it raises nothing for a name that is too long
        return []
    return sorted(path for path in folder.iterdir() if _FOLDER.match(path.name) and (path / STATE_NAME).is_file())


def newest_checkpoint(folder: Path) -> Path | None:
    """The newest finished checkpoint folder, if any."""
    found = checkpoints_in(folder)
    return found[-1] if found else None


def load_newest(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that is whole, and a line for each damaged one that was skipped."""
    skipped = []
    for path in reversed(checkpoints_in(folder)):
        try:
            return load_checkpoint(path), skipped
        except CheckpointError as error:
            skipped.append(str(error))
    return None, skipped


def keep_newest(folder: Path, count: int) -> None:
    """Remove all but the newest `count` checkpoints."""
    for path in checkpoints_in(folder)[:-count]:
        shutil.rmtree(path, ignore_errors=True)


def finish_interrupted(folder: Path) -> None:
    """Before a run: put back what a kill left between two renames, and remove what it left half written."""
    for left in folder.glob(f".*.old{TEMPORARY_SUFFIX}"):
        try:
            step = read_state(left)["step"]
        except (CheckpointError, KeyError):
            continue
        for target in (folder / BEST_NAME, folder_of_step(folder, step)):
            recover_folder(target)
    for old in (*folder.glob("step-*.old"), *folder.glob(f"{BEST_NAME}.old")):  # of version 0.1.0
        if not old.with_suffix("").exists():
            old.rename(old.with_suffix(""))
        shutil.rmtree(old, ignore_errors=True)
    for left in folder.glob(f"*{TEMPORARY_SUFFIX}"):
        shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink(missing_ok=True)


def mark_best(folder: Path, checkpoint: Path) -> None:
    """Make `folder`/best a copy of a checkpoint; hard links where the file system has them."""
    try:
        with replacing_folder(folder / BEST_NAME) as new:
            for path in checkpoint.iterdir():
                _link_or_copy(path, new / path.name)
    except OSError as error:
        raise CheckpointError(
            f"{checkpoint} could not be kept as {folder / BEST_NAME}: {cause_of(error)}. Free some space."
        ) from error


def best_state(folder: Path) -> dict[str, Any] | None:
    """The description of `folder`/best (`Checkpoint` without its arrays); None if there is none that can be read."""
    try:
        return read_state(folder / BEST_NAME)
    except CheckpointError:
        return None


def resolve_checkpoint(path: Path) -> Path:
    """A checkpoint folder from what a user names: the folder itself, or a run's folder (its best, or otherwise its newest)."""
    if os.path.isfile(path / STATE_NAME):
        return path
    if os.path.isfile(path / BEST_NAME / STATE_NAME):
        return path / BEST_NAME
    newest = newest_checkpoint(path)
    if newest is None:
        raise CheckpointError(
            f"No checkpoint found. Received: {path}. Expected: a folder such as checkpointsmain/step-00001000, or a run's folder."
        )
    return newest


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
