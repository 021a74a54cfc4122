"""What `prepare` remembers about clips beyond their records: why they were rejected, and which characters had no symbol.

Written with each generation of a cache (`notes-G.json`) and read only by `prepare`, `verify` and `stats`; opening a cache does
not read it. Rejections hold for one version of libsndfile: a newer one may decode what the old one could not.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import soundfile

from myxtts.cache.format import Cache, canonical_json

DECODER = f"libsndfile {soundfile.__libsndfile_version__}"


@dataclass(frozen=True)
class RememberedRejection:
    """Why a clip was rejected, and the state of its recording and text at that time."""

    reason: str
    detail: str
    source_bytes: int
    source_mtime_ns: int
    text_hash: int


@dataclass(frozen=True)
class RejectionMemory:
    """By clip id."""

    rejected: Mapping[str, RememberedRejection] = field(default_factory=dict)
    unknown: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Characters of the phonemized text that have no symbol, with their counts."""

    def unknown_symbols(self) -> dict[str, int]:
        """Characters without a symbol, counted over all clips, most frequent first."""
        total: Counter[str] = Counter()
        for counts in self.unknown.values():
            total.update(counts)
        return dict(total.most_common())

    def to_bytes(self) -> bytes:
        """The content of the file; `read_rejection_memory` reads it back."""
        rejected = {clip_id: dataclasses.astuple(each) for clip_id, each in self.rejected.items()}
        return canonical_json({"decoder": DECODER, "set_aside": rejected, "unknown": self.unknown})


def read_rejection_memory(cache: Cache) -> RejectionMemory:
    """The memory of a cache; one that cannot be read only means that rejected clips are tried again."""
    try:
        content = json.loads((cache.folder / cache.header["notes_file"]).read_bytes())
        remembered = content["set_aside"] if content["decoder"] == DECODER else {}
        rejected = {clip_id: RememberedRejection(*values) for clip_id, values in remembered.items()}
        return RejectionMemory(rejected, content["unknown"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return RejectionMemory()
