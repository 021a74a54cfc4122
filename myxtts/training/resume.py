"""Where a run goes on: the newest whole checkpoint, and what a changed configuration or corpus means for it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from myxtts.config.config import XTTSConfig
from myxtts.config.load import config_to_dict
from myxtts.errors import CheckpointError
from myxtts.text.tokenizer import text_symbols_of
from myxtts.training.checkpoint import (
    Checkpoint,
    best_state,
    checkpoints_in,
    finish_interrupted,
    folder_of_step,
    load_newest,
    mark_best,
)
from myxtts.training.progress import Progress

EARLIER_RUN = "before-reset"
RUN_FILES = (
    "step-*", "best", "*.jsonl", "*.csv", "status.json", "tensorboard", "voice", "evaluated-voice", "samples", "worker-*",
    "*.partial", "best.old",
)  # fmt: skip
"""What a run leaves in its folder."""
FREE_OF_SPEC = {"dropout", "decoder_dropout", "condition_dropout", "num_symbols", "num_languages", "num_speakers"}
"""Numbers of the network that weights do not depend on, or that the names of the corpus tell better."""


@dataclass(frozen=True)
class Change:
    """One setting that differs between the checkpoint and this run."""

    name: str
    before: Any
    now: Any

    def __str__(self) -> str:
        return f"{self.name}: {self.before!r} → {self.now!r}"


def compare_configs(before: Mapping[str, Mapping[str, Any]], now: Mapping[str, Mapping[str, Any]]) -> list[Change]:
    """The differences of two configurations (as dicts). A setting that an older version did not know is no difference."""
    return [
        Change(f"{section}.{field}", before[section][field], value)
        for section, settings in now.items()
        for field, value in settings.items()
        if field in before[section] and before[section][field] != value
    ]


def compare_facts(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Why the weights of one corpus (`corpus_facts`) would mean something else, or nothing, with another: one line each.

    A network of several speakers hears them in references, so it takes any others; one of a single speaker hears nobody.
    """
    found = [
        Change(f"{part}.{name}", before[part][name], value)
        for part in ("mel", "model")
        for name, value in now[part].items()
        if name not in FREE_OF_SPEC and name in before[part] and before[part][name] != value
    ]
    spelling_before, spelling_now = text_symbols_of(before["front_end"]), text_symbols_of(now["front_end"])
    if spelling_before != spelling_now:
        found.append(Change("spelling", spelling_before, spelling_now))
    if (len(before["speakers"]) > 1) != (len(now["speakers"]) > 1):
        found.append(Change("number of speakers", len(before["speakers"]), len(now["speakers"])))
    lines = [str(change) for change in found]
    for kind in ("symbols", "languages"):
        if before[kind] != now[kind]:
            lines.append(f"{kind}: {_difference(before[kind], now[kind])}")
    return lines


def _difference(before: Sequence[str], now: Sequence[str]) -> str:
    new = [name for name in now if name not in before]
    gone = [name for name in before if name not in now]
    parts = [f"{word} {' '.join(names)}" for word, names in (("new", new), ("gone", gone)) if names]
    return ", ".join(parts) or "the same in another order"


def find_run(
    folder: Path,
    config: XTTSConfig,
    facts: Mapping[str, Any],
    fingerprint: str,
    announce: Callable[[str], None],
    starts_anew: bool,
    writes: bool,
) -> tuple[Checkpoint | None, Progress]:
    """What the run in `folder` goes on from: nothing if it `starts_anew` or there is none. Only one process of a run `writes`."""
    if starts_anew:
        if writes:
            set_aside_run(folder, announce)
        return None, Progress()
    if writes:
        finish_interrupted(folder)
    saved = read_saved(folder, config, facts, fingerprint, announce)
    if saved is None:
        return None, Progress()
    progress = Progress.restored(saved.progress)
    agree_on_best(folder, progress, writes)
    return saved, progress


def read_saved(
    folder: Path, config: XTTSConfig, facts: Mapping[str, Any], fingerprint: str, announce: Callable[[str], None]
) -> Checkpoint | None:
    """The state to resume from, if `folder` holds one. Announces what changed; a `CheckpointError` if its weights do not fit.

    `facts` describe the current corpus (`corpus_facts`), `fingerprint` the current batch order (`Plan.fingerprint`).
    """
    saved, damaged = load_newest(folder)
    for line in damaged:
        announce(line)
    if saved is None:
        return None
    _check_start(folder, saved, config.training.init_from)
    if differences := compare_facts(saved.corpus, facts):
        raise CheckpointError(
            f"{folder} holds a run whose weights do not fit this corpus and configuration:\n"
            + "\n".join(f"  - {line}" for line in differences)
            + "\nUse the old ones; or take over what fits, with symbols and languages mapped by name (another "
            f"--checkpoint-dir with --init-from {folder}); or start anew (--reset-training)."
        )
    for change in compare_configs(saved.config, config_to_dict(config)):
        announce(f"Changed since the checkpoint: {change}")
    if saved.plan_fingerprint != fingerprint:  # a checkpoint of an earlier version has none
        announce("The batch order changed, so training continues from the start of the next epoch.")
        saved = saved.with_position((saved.position[0] + 1, 0))
    announce(f"Resuming at step {saved.step} from {folder}")
    return saved


def _check_start(folder: Path, saved: Checkpoint, init_from: str | None) -> None:
    """Weights to start from are of no use to a run that has its own."""
    before = saved.config["training"]["init_from"]
    if init_from is not None and (before is None or Path(before) != Path(init_from)):
        raise CheckpointError(
            f"{folder} holds a run at step {saved.step}, and --init-from {init_from} only sets the weights that a run begins "
            "with. Leave it out to go on; to start from it, use another --checkpoint-dir or --reset-training."
        )


def agree_on_best(folder: Path, progress: Progress, writes: bool) -> None:
    """Let `folder`/best and `progress` tell of the same step, whatever ended the run before one of them was written.

    With `writes` the checkpoint of the best step becomes best/. If it is gone (a full disk), the best is the one that was kept.
    """
    if progress.best_loss is None or progress.best_evaluation is not None:  # then best/ is the evaluation's
        return
    kept = best_state(folder)
    if kept is not None and kept["step"] >= progress.best_step:
        return
    checkpoint = folder_of_step(folder, progress.best_step)
    if checkpoint not in checkpoints_in(folder):
        told = Progress.restored(kept["progress"]) if kept else Progress()
        progress.best_loss, progress.best_step = told.best_loss, told.best_step
    elif writes:
        mark_best(folder, checkpoint)


def set_aside_run(folder: Path, announce: Callable[[str], None]) -> None:
    """Move an earlier run in `folder` into a folder within it, so that a new run there is not taken for its continuation."""
    earlier = {path for pattern in RUN_FILES for path in folder.glob(pattern)}
    if not earlier:
        return
    targets = (folder / f"{EARLIER_RUN}-{number}" for number in itertools.count(1))
    target = next(path for path in targets if not path.exists())
    target.mkdir()
    for path in earlier:
        path.rename(target / path.name)
    announce(f"Starting anew; the earlier run was moved to {target}.")
