"""What `prepare` remembers about clips besides their records: why they were rejected, which characters had no symbol.

Written with each generation of a cache and read only by `prepare`, `verify` and `stats`; opening a cache does not touch it.
Rejections hold for one version of libsndfile: a newer one may read what the old one could not.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import soundfile

from myxtts.data.cache import canonical_json

DECODER = f"libsndfile {soundfile.__libsndfile_version__}"


@dataclass(frozen=True)
class Setback:
    """A clip that was found unusable, and the state of its recording and text at that time."""

    reason: str
    detail: str
    source_bytes: int
    source_mtime_ns: int
    text_hash: int


@dataclass(frozen=True)
class Notes:
    """By clip id."""

    set_aside: Mapping[str, Setback] = field(default_factory=dict)
    unknown: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Characters of the spelled text that the symbol table lacks, with their counts."""

    def unknown_symbols(self) -> dict[str, int]:
        """Counted over all clips, most frequent first."""
        total: Counter[str] = Counter()
        for counts in self.unknown.values():
            total.update(counts)
        return dict(total.most_common())

    def to_bytes(self) -> bytes:
        """For the file; `read_notes` reads it back."""
        set_aside = {clip_id: dataclasses.astuple(setback) for clip_id, setback in self.set_aside.items()}
        return canonical_json({"decoder": DECODER, "set_aside": set_aside, "unknown": self.unknown})


def read_notes(path: Path) -> Notes:
    """The notes of a cache; ones that cannot be read only mean that unusable clips are looked at once more."""
    try:
        content = json.loads(path.read_bytes())
        rejected = content["set_aside"] if content["decoder"] == DECODER else {}
        set_aside = {clip_id: Setback(*values) for clip_id, values in rejected.items()}
        return Notes(set_aside, content["unknown"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Notes()
