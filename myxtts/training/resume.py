"""What a changed configuration means for a run that is resumed: plain functions, dicts in, decisions out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
