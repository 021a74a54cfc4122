"""The format of a prepared cache: its files, its header, the record of a clip, and what makes them valid. NumPy only.

A cache folder holds
    cache.json         settings and their fingerprint, symbols, speakers, languages, license and attribution of the corpus,
                       names and sizes of the files below, names and types of the index's columns
    frames-G.f32       raw little-endian float32 (rows, n_mels); row 0 is zeros, the row that padding points at
    tokens-G.i32       raw little-endian int32; element 0 is 0
    samples-G.i16      raw little-endian int16 at the mel's sample rate, of the clips that were prepared with their sound;
                       element 0 is 0
    pitch-G.f32        raw little-endian float32, Hz per frame (0: unvoiced), of the same clips; element 0 is 0
    index-G.bin        one column after the other, one value per clip in each (`HOT_COLUMNS`, `COLD_COLUMNS`)
    strings-G.bin      UTF-8: all ids, then all texts
    notes-G.json       rejected clips and unknown characters, for `prepare` (`myxtts.cache.changes`)
    journal.bin        only while clips are being prepared, or after that was interrupted (`myxtts.cache.journal`)
    lock               held by the process that writes (`myxtts.cache.writer`)
    rejected.csv       which clips were rejected, and why
G is a generation. `cache.json` is renamed into place last: a reader sees the old cache or the whole new one. A header may name
more files (`…_file`) and more columns than this version reads; fields that older caches lack are filled in (`_ADDED_FIELDS`).
`myxtts.cache.clip_table` opens a cache, `myxtts.cache.writer` publishes one.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import mmap
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from myxtts.audio.mel import MEL_VERSION, MelSpec
from myxtts.errors import CacheError

FORMAT_VERSION = 1
"""Raised when an older version could not read what a newer one writes."""
HEADER_NAME = "cache.json"
COLUMN_ALIGNMENT_BYTES = 64
"""A line of the processor's cache; every NumPy type may start there."""

HOT_COLUMNS = {
    "frame_starts": np.dtype("<i8"),
    "token_starts": np.dtype("<i8"),
    "frame_counts": np.dtype("<i4"),
    "token_counts": np.dtype("<i4"),
    "speaker_numbers": np.dtype("<i4"),
    "language_numbers": np.dtype("<i4"),
    "checksums": np.dtype("<u4"),
    "is_validation": np.dtype("?"),
}
"""Columns that every reader needs: read and checked on opening."""
COLD_COLUMNS = {
    "id_ends": np.dtype("<i8"),
    "text_ends": np.dtype("<i8"),
    "source_bytes": np.dtype("<i8"),
    "source_mtimes_ns": np.dtype("<i8"),
    "source_hashes": np.dtype("V16"),
    "text_hashes": np.dtype("<u8"),
}
"""Columns for preparing, verifying and naming clips: mapped, read on demand."""
ADDED_COLUMNS = {
    "bandwidths": np.dtype("<f4"),
    "snrs": np.dtype("<f4"),
    "sample_starts": np.dtype("<i8"),
    "sample_counts": np.dtype("<i4"),
    "pitch_starts": np.dtype("<i8"),
    "sound_checksums": np.dtype("<u4"),
}
"""Cold columns that older caches lack; they are zeros there, which means: not measured, not prepared with its sound."""
FIRST_COLD_COLUMN = next(iter(COLD_COLUMNS))
COLUMN_TYPES = {name: dtype.str for name, dtype in (HOT_COLUMNS | COLD_COLUMNS | ADDED_COLUMNS).items()}
"""The columns of an index file in their order, as a header names them."""
_ADDED_FIELDS = {
    "columns": {name: dtype.str for name, dtype in (HOT_COLUMNS | COLD_COLUMNS).items()},
    "license": "",
    "attribution": "",
    "samples_file": "",
    "pitch_file": "",
    "samples": 0,
    "pitches": 0,
    "speaker_corpora": [],
}
"""Header fields that older caches lack, with what they mean there."""


@dataclasses.dataclass(frozen=True)
class CacheSettings:
    """Everything that changes what a record holds. Another value is another fingerprint, so another folder."""

    mel: MelSpec
    trim_silence_db: float | None
    trim_noise_db: float | None
    loudness_db: float | None
    min_seconds: float
    max_seconds: float
    front_end_kind: str
    front_end_fingerprint: str
    validation_folder: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as written into cache.json."""
        return {"format": FORMAT_VERSION, "mel_version": MEL_VERSION, **dataclasses.asdict(self)}

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits."""
        return fingerprint_of(self.to_dict())


def fingerprint_of(settings: Mapping[str, Any]) -> str:
    """Fingerprint of plain settings; the order of the keys does not matter."""
    return hashlib.blake2b(canonical_json(settings), digest_size=8).hexdigest()


def canonical_json(value: Any) -> bytes:
    """The one way in which a value is written for hashing."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


def sound_files(header: Mapping[str, Any]) -> dict[str, int]:
    """Names of the files with the sound of clips, and their bytes; empty if no clip has any."""
    if not header["samples_file"]:
        return {}
    return {header["samples_file"]: header["samples"] * 2, header["pitch_file"]: header["pitches"] * 4}


HeaderFault = Literal["missing", "damaged", "stale"]


class HeaderError(CacheError):
    """A header that cannot be used: there is none, it is not what was written, or it belongs to other settings."""

    def __init__(self, folder: Path, fault: HeaderFault, detail: str):
        messages = {
            "missing": f"There is no prepared cache in {folder} ({HEADER_NAME} is missing). Run `myxtts prepare`.",
            "damaged": str(damaged(folder, f"{HEADER_NAME} {detail}")),
            "stale": f"The cache in {folder} was prepared with different settings: {detail}. Run `myxtts prepare` with the "
            "current settings.",
        }
        super().__init__(messages[fault])
        self.fault, self.detail = fault, detail


def read_header(folder: Path, expected_settings: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """`cache.json`, checked against its checksum, the format version and the settings; raises `HeaderError`."""
    header = read_unchecked_header(folder)
    settings, fingerprint = header["settings"], header["fingerprint"]
    if settings["format"] != FORMAT_VERSION:
        raise HeaderError(folder, "stale", f"format {settings['format']}, this version reads {FORMAT_VERSION}")
    if fingerprint != fingerprint_of(settings):
        raise HeaderError(folder, "stale", f"fingerprint {fingerprint} is not that of its settings")
    if expected_settings is not None and fingerprint != fingerprint_of(expected_settings):
        raise HeaderError(folder, "stale", "; ".join(settings_differences(settings, expected_settings)))
    return _ADDED_FIELDS | header


def read_unchecked_header(folder: Path) -> dict[str, Any]:
    """`cache.json` as it was written, also by other versions; raises `HeaderError` if it is missing or damaged."""
    try:
        header = json.loads((folder / HEADER_NAME).read_bytes())
    except FileNotFoundError:
        raise HeaderError(folder, "missing", "the file is missing") from None
    except (OSError, ValueError) as error:
        raise HeaderError(folder, "damaged", f"cannot be read ({error})") from None
    if not isinstance(header, dict) or header.pop("checksum", None) != zlib.crc32(canonical_json(header)):
        raise HeaderError(folder, "damaged", "does not match its checksum")
    return header


def settings_differences(received: Mapping[str, Any], expected: Mapping[str, Any], prefix: str = "") -> list[str]:
    """One phrase for each setting in which two caches differ."""
    found = []
    for name in expected:
        old, new = received.get(name), expected[name]
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += settings_differences(old, new, f"{prefix}{name}.")
        elif old != new:
            found.append(f"{prefix}{name}: {old} in the cache, {new} now")
    return found


def column_offsets(columns: Mapping[str, str], clips: int) -> tuple[dict[str, int], int]:
    """Where each column (name → NumPy type) starts in an index file, and how long the file is (bytes)."""
    offsets, end = {}, 0
    for name, dtype in columns.items():
        offsets[name] = end
        end += -(-clips * np.dtype(dtype).itemsize // COLUMN_ALIGNMENT_BYTES) * COLUMN_ALIGNMENT_BYTES
    return offsets, end


def map_bytes(path: Path) -> np.ndarray:
    """A file as read-only uint8 without reading it; empty files, which cannot be mapped, are empty arrays."""
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            return np.zeros(0, np.uint8)
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)


def damaged(folder: Path, what: str) -> CacheError:
    """The error of a cache that must be repaired before it can be used."""
    return CacheError(f"The cache in {folder} is damaged: {what}. Run `myxtts verify --fix`.")


# --- the record of a clip ------------------------------------------------------------------------------------------------

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
