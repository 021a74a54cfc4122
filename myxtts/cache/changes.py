"""What has to be prepared, and what was: the clips of a corpus compared with the records and rejections of the last run.

A recording is unchanged if its size and time are those of the record. If only the time differs, the worker compares the content
before it decodes, so that a copied or touched corpus costs reading, not preparing. A changed text costs no decoding.

Why clips were rejected, and which characters had no symbol, is written with each generation of a cache (`notes-G.json`) and read
only by `prepare`, `verify` and `stats`; opening a cache does not read it. Rejections hold for one version of libsndfile: a newer
one may decode what the old one could not.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import soundfile

from myxtts.cache.clip_table import Cache
from myxtts.cache.format import RECORD, canonical_json, clip_key, text_hash
from myxtts.cache.worker import (
    Failure,
)
from myxtts.corpus.corpus import Corpus

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


@dataclass(frozen=True, eq=False)
class ClipStates:
    """The clips of a corpus as they are now, one value per clip."""

    ids: Sequence[str]
    keys: Sequence[bytes]
    source_bytes: np.ndarray
    source_mtimes_ns: np.ndarray
    text_hashes: np.ndarray


def clip_states(corpus: Corpus) -> ClipStates:
    """The state of every recording and text of a corpus."""
    return ClipStates(
        ids=[one.id for one in corpus.utterances],
        keys=[clip_key(one.id) for one in corpus.utterances],
        source_bytes=corpus.sizes,
        source_mtimes_ns=corpus.mtimes_ns,
        text_hashes=np.array([text_hash(one.language, one.text) for one in corpus.utterances], np.uint64),
    )


@dataclass(frozen=True, eq=False)
class Changes:
    """Which clips need what; every array has one value per clip."""

    records: np.ndarray
    """`RECORD` of each clip; zeros where there is none."""
    is_rejected: np.ndarray
    """Rejected before, and neither the recording nor the text has changed since."""
    has_same_audio: np.ndarray
    """The recording is the recorded one, by size and time."""
    may_have_same_audio: np.ndarray
    """The size is the recorded one but the time is not: only the content can show whether the recording changed."""
    has_same_text: np.ndarray
    lacks_parts: np.ndarray
    """Prepared by an earlier version, or without the sound that is asked for now: decoded once more, its frames stay."""

    @property
    def is_ready(self) -> np.ndarray:
        """Nothing has to be done."""
        return self.has_same_audio & self.has_same_text & ~self.lacks_parts


def find_changes(
    clips: ClipStates, known: np.ndarray, remembered: Mapping[str, RememberedRejection], with_sound: bool = False
) -> Changes:
    """Compare the clips with the known records (`RECORD`; of several with one key the last counts) and former rejections.

    `with_sound`: records without samples and pitch lack a part.
    """
    keys = known["key"].tobytes()
    row_of_key = {keys[16 * row : 16 * row + 16]: row for row in range(len(known))}
    rows = np.array([row_of_key.get(key, -1) for key in clips.keys], np.int64)
    is_known = rows >= 0
    records = np.zeros(len(rows), RECORD)
    records[is_known] = known[rows[is_known]]
    is_rejected = np.zeros(len(rows), bool)
    if remembered:
        is_rejected[:] = [_is_as_remembered(clips, clip, remembered) for clip in range(len(rows))]
    has_same_size = is_known & (records["source_bytes"] == clips.source_bytes)
    has_same_time = records["source_mtime_ns"] == clips.source_mtimes_ns
    return Changes(
        records=records,
        is_rejected=is_rejected & ~is_known,
        has_same_audio=has_same_size & has_same_time,
        may_have_same_audio=has_same_size & ~has_same_time,
        lacks_parts=is_known & ((records["bandwidth"] == 0) | (with_sound & (records["sample_start"] == 0))),
        has_same_text=is_known & (records["text_hash"] == clips.text_hashes),
    )


def _is_as_remembered(clips: ClipStates, clip: int, remembered: Mapping[str, RememberedRejection]) -> bool:
    rejection = remembered.get(clips.ids[clip])
    return rejection is not None and (rejection.source_bytes, rejection.source_mtime_ns, rejection.text_hash) == (
        int(clips.source_bytes[clip]),
        int(clips.source_mtimes_ns[clip]),
        int(clips.text_hashes[clip]),
    )


@dataclasses.dataclass(frozen=True)
class UpdateOutcome:
    """Counts of clips: what they were before this run, and what it did."""

    added: int
    changed: int
    retexted: int
    removed: int
    kept: int
    recovered: int
    memory: RejectionMemory
    failed: Mapping[str, Failure]
    """Clips that failed for a reason that does not follow from the clip: the next run tries them again."""


def join_outcomes(outcomes: Sequence[UpdateOutcome]) -> UpdateOutcome:
    """The counts of several corpora together."""
    names = ("added", "changed", "retexted", "removed", "kept", "recovered")
    rejected = {name: one for each in outcomes for name, one in each.memory.rejected.items()}
    unknown = {name: one for each in outcomes for name, one in each.memory.unknown.items()}
    failed = {name: one for each in outcomes for name, one in each.failed.items()}
    counts = {name: sum(getattr(each, name) for each in outcomes) for name in names}
    return UpdateOutcome(**counts, memory=RejectionMemory(rejected, unknown), failed=failed)
