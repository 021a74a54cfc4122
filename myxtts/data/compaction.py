"""Taking dead space out of a cache: records in, the same records in new files out. Nothing that is published is changed.

Changed and removed clips leave their old frames behind, because the files only grow. Once a large share is dead, the live records
are copied, in the order of the clips, into files of the next generation, which `publish` then names.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.data.cache_writer import write_error

DEAD_SHARE = 0.25
"""Of the rows; below it, copying costs more than the space is worth."""


def is_worth_compacting(folder: Path, records: np.ndarray, data: Mapping[str, Any], n_mels: int) -> bool:
    """Enough is dead, and the disk has room for the copy."""
    live_rows = 1 + count_live_rows(records)
    is_wasteful = data["rows"] - live_rows > DEAD_SHARE * data["rows"]
    return is_wasteful and shutil.disk_usage(folder).free > 2 * live_rows * n_mels * 4


def count_live_rows(records: np.ndarray) -> int:
    """Frames that belong to a record."""
    return int(records["frame_count"].sum(dtype=np.int64))


def compact(
    folder: Path, records: np.ndarray, data: Mapping[str, Any], n_mels: int, generation: int
) -> tuple[np.ndarray, dict[str, Any]]:
    """Copy the live records; returns them with their new places, and the header's names and sizes of the new files."""
    frames = np.memmap(folder / data["frames_file"], "<f4", "r", shape=(data["rows"], n_mels))
    tokens = np.memmap(folder / data["tokens_file"], "<i4", "r", shape=(data["tokens"],))
    records = records.copy()
    names = {"frames_file": f"frames-{generation}.f32", "tokens_file": f"tokens-{generation}.i32"}
    sizes = {}
    for field, size, source, start, count in (
        ("frames_file", "rows", frames, "frame_start", "frame_count"),
        ("tokens_file", "tokens", tokens, "token_start", "token_count"),
    ):
        sizes[size] = _copy_live(folder / names[field], source, records, start, count)
    return records, names | sizes


def _copy_live(target: Path, source: np.ndarray, records: np.ndarray, start_field: str, count_field: str) -> int:
    """Write the zero element and every record's part of `source`; returns the number of elements written."""
    counts = records[count_field].astype(np.int64)
    starts = records[start_field].copy()
    try:
        with target.open("wb", buffering=1 << 20) as file:
            file.write(source[:1].tobytes())
            for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
                file.write(source[start : start + count].tobytes())
    except OSError as error:
        target.unlink(missing_ok=True)
        raise write_error(target.parent, error) from None
    records[start_field] = 1 + np.cumsum(counts) - counts
    return 1 + int(counts.sum())
