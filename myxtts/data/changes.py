"""What has to be prepared: the corpus as it is now against the records that exist. Arrays in, arrays out; no files.

A recording is unchanged if its size and time are those of the record; if only the time differs, its content decides (a copied or
touched corpus costs reading, not preparing). A text is unchanged if its hash is, and costs no decoding when it is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from myxtts.data.journal import RECORD
from myxtts.data.notes import Setback


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
