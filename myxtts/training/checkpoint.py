"""Checkpoints: the whole train state in one folder, written beside and renamed, read without running anything from it.

    step-00001500/
      arrays.npz        weights, first_moment, second_moment, average: flat float32; the network's fixed statistics
      state.json        step, data position, names and shapes of the weights, config, symbols, …; checksum of arrays.npz
    best/               a copy of the folder that was best by validation
A folder that is whole has a state.json whose checksum fits; the newest whole one is the run's state.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.batches.plan import Position
from myxtts.config.config import XTTSConfig
from myxtts.config.load import config_to_dict
from myxtts.errors import CheckpointError
from myxtts.runtime.atomic import cause_of
from myxtts.training.progress import Progress
from myxtts.training.state import TrainState

FORMAT_VERSION = 1
STATE_NAME = "state.json"
ARRAYS_NAME = "arrays.npz"
BEST_NAME = "best"
OLD_SUFFIX = ".old"
"""What is being replaced has it for the moment between two renames."""
_FOLDER = re.compile(r"^step-(\d{8})$")


@dataclass(frozen=True)
class Checkpoint:
    """A train state as plain data."""

    step: int
    position: tuple[int, int]
    """(pass, row) of the next batch, in the batch order that `plan_fingerprint` names."""
    arrays: dict[str, np.ndarray]
    weight_names: list[str]
    weight_shapes: list[list[int]]
    scalars: dict[str, int | float]
    config: dict[str, Any]
    corpus: dict[str, Any]
    """What the weights mean: model spec, mel, symbols, front end, languages, speakers, licence, cache fingerprint."""
    progress: dict[str, Any] = field(default_factory=dict)
    """Best validation, patience and plateau counters."""
    plan_fingerprint: str = ""
    """`Plan.fingerprint` of the batch order; empty in checkpoints of 0.1.0."""
    hardware: dict[str, str] = field(default_factory=dict)
    """What it was computed on (`Hardware.facts`); empty in checkpoints of 0.1.0."""
    format_version: int = FORMAT_VERSION

    def with_position(self, position: tuple[int, int]) -> Checkpoint:
        """The same state at another place of the data."""
        return replace(self, position=position)

    def named_weights(self, kind: str = "weights") -> dict[str, np.ndarray]:
        """Weights (or their "average") by name, the network's fixed statistics among them."""
        flat = self.arrays[kind]
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
    """Write `folder`/step-N so that a reader sees all of it or nothing; on a full disk what was there before stays."""
    target = folder_of_step(folder, checkpoint.step)
    partial = folder / f"{target.name}.partial"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        checksum = _write_arrays(partial / ARRAYS_NAME, checkpoint.arrays)
        state = {name: value for name, value in asdict(checkpoint).items() if name != "arrays"}
        _write_synced(partial / STATE_NAME, json.dumps(state | {"arrays_crc32": checksum}, ensure_ascii=False).encode())
        _put_in_place(partial, target)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        last = newest_checkpoint(folder)
        kept = f"The last good checkpoint is {last}." if last else "There is no earlier checkpoint."
        raise CheckpointError(
            f"The checkpoint {target} could not be written: {cause_of(error)}. {kept} Free some space."
        ) from error
    return target


def load_checkpoint(folder: Path) -> Checkpoint:
    """Read one checkpoint folder; anything missing, cut off or foreign is a `CheckpointError`."""
    state = read_state(folder)
    try:
        content = (folder / ARRAYS_NAME).read_bytes()
    except OSError as error:
        raise _not_whole(folder, error) from None
    if zlib.crc32(content) != state.pop("arrays_crc32", None):
        raise CheckpointError(
            f"{folder / ARRAYS_NAME} is damaged: its checksum does not fit. Remove the folder; the one before is used."
        )
    try:
        with np.load(folder / ARRAYS_NAME, allow_pickle=False) as arrays:
            state["arrays"] = {name: arrays[name] for name in arrays.files}
        state["position"] = tuple(state["position"])
        return Checkpoint(**state)
    except (TypeError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{folder} does not hold what a checkpoint holds: {error}.") from None


def read_state(folder: Path) -> dict[str, Any]:
    """What a checkpoint folder says of itself: `Checkpoint` without its arrays, which are not read."""
    try:
        state = json.loads((folder / STATE_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _not_whole(folder, error) from None
    if not isinstance(state, dict) or state.get("format_version") != FORMAT_VERSION:
        version = state.get("format_version") if isinstance(state, dict) else None
        raise CheckpointError(
            f"{folder} has checkpoint format {version}; this version of MyXTTS reads {FORMAT_VERSION}."
        )
    return state


def _not_whole(folder: Path, error: Exception) -> CheckpointError:
    return CheckpointError(
        f"{folder} is not a whole checkpoint ({error}). Expected a folder with {STATE_NAME} and {ARRAYS_NAME}, "
        "such as checkpointsmain/step-00001000."
    )


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
    """The newest checkpoint that is whole, and a line for each damaged one that was passed over."""
    passed_over = []
    for path in reversed(checkpoints_in(folder)):
        try:
            return load_checkpoint(path), passed_over
        except CheckpointError as error:
            passed_over.append(str(error))
    return None, passed_over


def keep_newest(folder: Path, count: int) -> None:
    """Remove all but the newest `count` checkpoints."""
    for path in checkpoints_in(folder)[:-count]:
        shutil.rmtree(path, ignore_errors=True)


def finish_interrupted(folder: Path) -> None:
    """Before a run: bring back what a kill left between two names, and remove what it left half written."""
    for old in (*folder.glob(f"step-*{OLD_SUFFIX}"), *folder.glob(BEST_NAME + OLD_SUFFIX)):
        if old.with_suffix("").exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.rename(old.with_suffix(""))
    for path in folder.glob("*.partial"):
        shutil.rmtree(path, ignore_errors=True)


def mark_best(folder: Path, checkpoint: Path) -> None:
    """Make `folder`/best a copy of a checkpoint; hard links where the file system has them."""
    partial = folder / f"{BEST_NAME}.partial"
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        for path in checkpoint.iterdir():
            _link_or_copy(path, partial / path.name)
        _put_in_place(partial, folder / BEST_NAME)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise CheckpointError(
            f"{checkpoint} could not be kept as {folder / BEST_NAME}: {cause_of(error)}. Free some space."
        ) from error


def best_state(folder: Path) -> dict[str, Any] | None:
    """What `folder`/best says of itself (`Checkpoint` without its arrays); None if there is none that can be read."""
    try:
        return json.loads((folder / BEST_NAME / STATE_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def resolve_checkpoint(path: Path) -> Path:
    """A checkpoint folder from what a user names: the folder itself, or a run's folder (its best, else its newest)."""
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


def _write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> int:
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
        file.flush()
        os.fsync(file.fileno())
    return zlib.crc32(path.read_bytes())


def _write_synced(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _put_in_place(partial: Path, target: Path) -> None:
    """Rename a whole folder to `target`, which may exist; a kill in between loses nothing (`finish_interrupted`)."""
    old = target.with_name(target.name + OLD_SUFFIX)
    if target.exists():
        shutil.rmtree(old, ignore_errors=True)
        target.rename(old)
    partial.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


# MERGED: Between a run and its checkpoint: the train state with all that belongs to it as plain data, and back.


def take_snapshot(
    state: TrainState,
    config: XTTSConfig,
    facts: Mapping[str, Any],
    progress: Progress,
    position: Position,
    plan_fingerprint: str,
    hardware: Mapping[str, str],
) -> Checkpoint:
    """Everything that a run needs to resume from here; `facts` are those of `corpus_facts`."""
    fixed = {f"fixed/{name}": value.numpy() for name, value in state.fixed_weights().items()}
    return Checkpoint(
        step=int(state.step.numpy()),
        position=position,
        arrays={"weights": state.flat_weights(), **state.vectors(), **fixed},
        weight_names=state.names,
        weight_shapes=[list(shape) for shape in state.layout.shapes],
        scalars={name: variable.numpy().item() for name, variable in state.scalars().items()},
        config=config_to_dict(config),
        corpus=dict(facts),
        progress=progress.to_dict(),
        plan_fingerprint=plan_fingerprint,
        hardware=dict(hardware),
    )


def apply_snapshot(state: TrainState, saved: Checkpoint, announce: Callable[[str], None]) -> None:
    """Bring `state` to where the checkpoint was taken."""
    if saved.weight_names != state.names:
        raise CheckpointError("The checkpoint belongs to another network. Use --reset-training.")
    state.assign_weights(saved.arrays["weights"])
    if not state.restore_vectors(saved.arrays):
        announce("The checkpoint has no averaged weights: the average starts from its weights.")
    # Another precision may need a scale where there was none (1), or none where there was one.
    keeps_scale = state.uses_loss_scale and saved.scalars["loss_scale"] > 1
    for name, variable in state.scalars().items():
        if name != "loss_scale" or keeps_scale:
            # By NumPy: TensorFlow would make a Python number a float32 first, which rounds steps beyond 16.7 million.
            variable.assign(np.asarray(saved.scalars[name], variable.dtype.as_numpy_dtype))
    for name, variable in state.fixed_weights().items():
        variable.assign(saved.arrays[f"fixed/{name}"])
