"""What has to be prepared: the corpus as it is now against the records that exist. Arrays in, arrays out; no files.

A recording is unchanged if its size and time are those of the record; if only the time differs, its content decides (a copied or
touched corpus costs reading, not preparing). A text is unchanged if its hash is, and costs no decoding when it is not.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import soundfile

from myxtts.cache.format import canonical_json
from myxtts.cache.journal import RECORD

# MERGED: What `prepare` remembers about clips besides their records: why they were rejected, which characters had no symbol.
#
# Written with each generation of a cache and read only by `prepare`, `verify` and `stats`; opening a cache does not touch it.
# Rejections hold for one version of libsndfile: a newer one may read what the old one could not.

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


@dataclass(frozen=True, eq=False)
class Clips:
    """The clips of the metadata, one value for each."""

    ids: Sequence[str]
    keys: Sequence[bytes]
    source_bytes: np.ndarray
    source_mtimes_ns: np.ndarray
    text_hashes: np.ndarray


@dataclass(frozen=True, eq=False)
class Changes:
    """Which clips need what; every array has one value per clip."""

    records: np.ndarray
    """`RECORD` of each clip; zeros where there is none."""
    is_known: np.ndarray
    """A record exists."""
    is_set_aside: np.ndarray
    """Found unusable before, and neither its recording nor its text has changed since."""
    has_same_audio: np.ndarray
    """The recording is the recorded one, by size and time."""
    needs_hash: np.ndarray
    """The size is the same but the time is not: only the content can tell."""
    has_same_text: np.ndarray


def find_changes(clips: Clips, known: np.ndarray, set_aside: Mapping[str, Setback]) -> Changes:
    """Compare the clips with the known records (`RECORD`; of several with one key the last counts) and former rejections."""
    keys = known["key"].tobytes()
    row_of_key = {keys[16 * row : 16 * row + 16]: row for row in range(len(known))}
    rows = np.array([row_of_key.get(key, -1) for key in clips.keys], np.int64)
    is_known = rows >= 0
    records = np.zeros(len(rows), RECORD)
    records[is_known] = known[rows[is_known]]
    is_set_aside = np.zeros(len(rows), bool)
    if set_aside:
        is_set_aside[:] = [_is_as_before(clips, number, set_aside) for number in range(len(rows))]
    has_same_size = is_known & (records["source_bytes"] == clips.source_bytes)
    has_same_time = records["source_mtime_ns"] == clips.source_mtimes_ns
    return Changes(
        records=records,
        is_known=is_known,
        is_set_aside=is_set_aside & ~is_known,
        has_same_audio=has_same_size & has_same_time,
        needs_hash=has_same_size & ~has_same_time,
        has_same_text=is_known & (records["text_hash"] == clips.text_hashes),
    )


def _is_as_before(clips: Clips, number: int, set_aside: Mapping[str, Setback]) -> bool:
    setback = set_aside.get(clips.ids[number])
    return setback is not None and (setback.source_bytes, setback.source_mtime_ns, setback.text_hash) == (
        int(clips.source_bytes[number]),
        int(clips.source_mtimes_ns[number]),
        int(clips.text_hashes[number]),
    )
