"""Where a run goes on: the newest whole checkpoint, and what a changed configuration means for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from myxtts.config.config import XTTSConfig
from myxtts.config.load import config_to_dict
from myxtts.errors import CheckpointError
from myxtts.training.checkpoint import Checkpoint, load_newest

EARLIER_RUN = "before-reset"
RUN_FILES = ("step-*", "best", "*.jsonl", "*.csv", "status.json", "tensorboard", "voice", "samples")
"""What a run leaves in its folder."""
REFUSED = {
    "model": None,
    "data": {
        "sample_rate", "n_fft", "win_length", "hop_length", "n_mels", "mel_f_min", "mel_f_max", "log_floor", "text_symbols",
        "reference_frames",
    },
    "training": {"mixed_precision"},
}  # fmt: skip
"""Settings that the weights were made for; None is every setting of the section."""
NEW_ORDER = {
    "data": {
        "train_data", "val_data", "validation_share", "language", "lexicon", "trim_silence_db", "loudness_db", "min_seconds",
        "max_seconds", "plan", "pad_to_fixed_length", "max_text_length", "max_mel_frames", "batch_size", "num_buckets",
        "gap_frames", "gap_tokens",
    },
    "training": {"seed"},
}  # fmt: skip
"""Settings that change which clips lie in which batch: allowed, but the position in the data starts a new pass."""


@dataclass(frozen=True)
class Change:
    """One setting that differs between the checkpoint and this run."""

    name: str
    before: Any
    now: Any

    def __str__(self) -> str:
        return f"{self.name}: {self.before!r} → {self.now!r}"


@dataclass(frozen=True)
class ConfigChanges:
    """All differences, by what they mean."""

    refused: list[Change]
    new_order: list[Change]
    allowed: list[Change]


def compare_configs(before: Mapping[str, Mapping[str, Any]], now: Mapping[str, Mapping[str, Any]]) -> ConfigChanges:
    """Sort the differences of two configurations (as dicts). A setting that an older version did not know is no difference."""
    found = ConfigChanges([], [], [])
    for section, settings in now.items():
        for field, value in settings.items():
            old = before.get(section, {}).get(field, value)
            if old == value:
                continue
            change = Change(f"{section}.{field}", old, value)
            if _is_listed(REFUSED, section, field):
                found.refused.append(change)
            elif _is_listed(NEW_ORDER, section, field):
                found.new_order.append(change)
            else:
                found.allowed.append(change)
    return found


def _is_listed(table: Mapping[str, set[str] | None], section: str, field: str) -> bool:
    return section in table and (table[section] is None or field in table[section])


def read_saved(
    folder: Path, config: XTTSConfig, facts: Mapping[str, Any], announce: Callable[[str], None]
) -> Checkpoint | None:
    """The state to go on from, if `folder` holds one. Tells what changed; a `CheckpointError` if its weights do not fit."""
    saved, damaged = load_newest(folder)
    for line in damaged:
        announce(line)
    if saved is None:
        return None
    changes = compare_configs(saved.config, config_to_dict(config))
    if changes.refused:
        raise CheckpointError(
            f"{folder} holds a run whose weights do not fit this configuration:\n"
            + "\n".join(f"  - {change}" for change in changes.refused)
            + "\nUse the old values, another --checkpoint-dir, --init-from, or --reset-training."
        )
    for change in (*changes.new_order, *changes.allowed):
        announce(f"Changed since the checkpoint: {change}")
    if changes.new_order or saved.corpus["content_id"] != facts["content_id"]:
        announce("The batches are others than before: the data starts a new pass.")
        saved = saved.with_position((saved.position[0] + 1, 0))
    announce(f"Resuming at step {saved.step} from {folder}")
    return saved


def set_aside_run(folder: Path, announce: Callable[[str], None]) -> None:
    """Move an earlier run in `folder` into a folder within it, so that a new run there is not taken for its continuation."""
    earlier = [path for pattern in RUN_FILES for path in folder.glob(pattern)]
    if not earlier:
        return
    number = 1 + sum(1 for _ in folder.glob(f"{EARLIER_RUN}-*"))
    target = folder / f"{EARLIER_RUN}-{number}"
    target.mkdir()
    for path in earlier:
        path.rename(target / path.name)
    announce(f"Starting anew; the earlier run was moved to {target}.")
