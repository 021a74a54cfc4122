"""The record of a prepared clip: its fields, its checksum, and the columns of an index that hold them."""

from __future__ import annotations

import hashlib
import zlib
from typing import NamedTuple

import numpy as np

from myxtts.cache.clip_table import Cache

RECORD = np.dtype(
    [
        ("key", "V16"),
        ("frame_start", "<i8"),
        ("token_start", "<i8"),
        ("source_bytes", "<i8"),
        ("source_mtime_ns", "<i8"),
        ("source_hash", "V16"),
        ("text_hash", "<u8"),
        ("frame_count", "<i4"),
        ("token_count", "<i4"),
        ("checksum", "<u4"),
        ("bandwidth", "<f4"),
        ("snr", "<f4"),
        ("sample_start", "<i8"),
        ("sample_count", "<i4"),
        ("pitch_start", "<i8"),
        ("sound_checksum", "<u4"),
    ]
)
"""One prepared clip, without what the metadata alone decides (speaker, language, held out)."""

COLUMN_FIELDS = {
    "frame_starts": "frame_start",
    "token_starts": "token_start",
    "frame_counts": "frame_count",
    "token_counts": "token_count",
    "checksums": "checksum",
    "source_bytes": "source_bytes",
    "source_mtimes_ns": "source_mtime_ns",
    "source_hashes": "source_hash",
    "text_hashes": "text_hash",
    "bandwidths": "bandwidth",
    "snrs": "snr",
    "sample_starts": "sample_start",
    "sample_counts": "sample_count",
    "pitch_starts": "pitch_start",
    "sound_checksums": "sound_checksum",
}
"""The field of a record that each column of an index holds."""

AUDIO_FIELDS = (
    "frame_start",
    "frame_count",
    "bandwidth",
    "snr",
    "sample_start",
    "sample_count",
    "pitch_start",
    "sound_checksum",
)
"""What follows from the recording alone."""

ELEMENTS = {
    "rows": ("frame_start", "frame_count"),
    "tokens": ("token_start", "token_count"),
    "samples": ("sample_start", "sample_count"),
    "pitches": ("pitch_start", "frame_count"),
}
"""The header's name for the number of elements of each data file, and the fields of a record that point into it."""


def clip_key(clip_id: str) -> bytes:
    """The key of a clip in the journal: 16 bytes, whatever the length of its id."""
    return hashlib.blake2b(clip_id.encode("utf-8"), digest_size=16).digest()


def text_hash(language: str, text: str) -> int:
    """Changes when the tokens of a clip must be made again."""
    return int.from_bytes(hashlib.blake2b(f"{language}\0{text}".encode(), digest_size=8).digest(), "little")


def record_checksum(frames: np.ndarray, tokens: np.ndarray) -> int:
    """CRC-32 of a record: its frame bytes, continued over its token bytes."""
    frames_checksum = zlib.crc32(np.ascontiguousarray(frames, "<f4").data.cast("B")) if frames.size else 0
    return (
        zlib.crc32(np.ascontiguousarray(tokens, "<i4").data.cast("B"), frames_checksum)
        if tokens.size
        else frames_checksum
    )


class Sound(NamedTuple):
    """The samples of a clip, int16 (samples,), and its pitch, float32 (frames,)."""

    samples: np.ndarray
    pitch: np.ndarray

    def checksum(self) -> int:
        """CRC-32 of the bytes of the samples, continued over those of the pitch."""
        start = zlib.crc32(np.ascontiguousarray(self.samples, "<i2").tobytes())
        return zlib.crc32(np.ascontiguousarray(self.pitch, "<f4").tobytes(), start)


def record_columns(records: np.ndarray) -> dict[str, np.ndarray]:
    """The columns of an index that records hold."""
    return {column: records[field] for column, field in COLUMN_FIELDS.items()}


def cache_records(cache: Cache) -> np.ndarray:
    """The records of a published cache, in the order of its clips."""
    records = np.zeros(cache.num_clips, RECORD)
    records["key"] = np.frombuffer(b"".join(clip_key(clip_id) for clip_id in cache.ids), "V16")
    columns = cache.columns()
    for column, field in COLUMN_FIELDS.items():
        records[field] = columns[column]
    return records
