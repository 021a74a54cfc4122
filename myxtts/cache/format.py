"""The format of a prepared cache, and `open_cache`. NumPy only, no TensorFlow.

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
G is a generation. `cache.json` is renamed into place last: a reader sees the old cache or the whole new one. Opening reads
the columns and no string, so that a million clips open in a fraction of a second. A header may name more files (`…_file`) and
more columns than this version reads; fields that older caches lack are filled in (`_ADDED_FIELDS`).
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import mmap
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from myxtts.audio.mel import MEL_VERSION, MelSpec
from myxtts.cache.clip_table import PreparedTable
from myxtts.errors import CacheError
from myxtts.text.tokenizer import SymbolTable

if TYPE_CHECKING:
    from myxtts.cache.prepare import PrepareReport

FORMAT_VERSION = 1
HEADER_NAME = "cache.json"
COLUMN_ALIGNMENT_BYTES = 64
BANDWIDTH_EDGES_KHZ = (5, 7, 9, 11)
"""Reported bands: telephone below 5, wideband telephony and 16 kHz files at 7 to 9, 22.05 and 24 kHz files from 11."""

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


class Strings(Sequence[str]):
    """Strings of all clips in one mapped file; each is decoded when it is asked for."""

    def __init__(self, data: np.ndarray, first: int, ends: np.ndarray):
        self._data, self._first, self._ends = data, first, ends

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[clip] for clip in range(*index.indices(len(self)))]
        clip = range(len(self))[index]
        start = self._first if clip == 0 else int(self._ends[clip - 1])
        return self._data[start : int(self._ends[clip])].tobytes().decode("utf-8")

    def __iter__(self) -> Iterator[str]:
        return (self[clip] for clip in range(len(self)))


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Cache(PreparedTable):
    """An opened cache. Arrays are read-only and hold one value per clip; a clip is its index in them."""

    folder: Path
    header: Mapping[str, Any]
    mel: MelSpec
    symbols: SymbolTable
    front_end_kind: str
    speakers: tuple[str, ...]
    languages: tuple[str, ...]
    frame_starts: np.ndarray
    """int64: row of the clip's first frame in frames_path."""
    frame_counts: np.ndarray
    """int32."""
    token_starts: np.ndarray
    """int64: index of the clip's first token in tokens_path."""
    token_counts: np.ndarray
    """int32: symbols without blanks."""
    speaker_numbers: np.ndarray
    """int32: index into speakers."""
    language_numbers: np.ndarray
    """int32: index into languages."""
    is_validation: np.ndarray
    """bool: held out."""
    checksums: np.ndarray
    """uint32: CRC-32 of the frame bytes, continued over the token bytes."""
    cold: Mapping[str, np.ndarray]
    """`COLD_COLUMNS` and `ADDED_COLUMNS`, mapped: for preparing, verifying and naming clips."""
    strings: np.ndarray
    """uint8: the strings file, mapped, so that it stays readable after a newer generation removed the file."""
    data_folder: Path
    """The corpus that the clips come from."""
    license: str = ""
    """Text of the corpus's license file."""
    attribution: str = ""
    """Text of the corpus's attribution file."""
    _report: PrepareReport | None = None

    def __repr__(self) -> str:
        return f"Cache({str(self.folder)!r}, {self.num_clips} clips)"

    @property
    def report(self) -> PrepareReport:
        """What `prepare_cache` found and did; only the cache that it returns has a report."""
        if self._report is None:
            raise CacheError(f"The cache in {self.folder} was opened without `prepare_cache`, so it has no report.")
        return self._report

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the settings."""
        return self.header["fingerprint"]

    @property
    def validation_folder(self) -> str | None:
        """The folder that the validation clips come from; None: they are held out of `data_folder`."""
        return self.header["settings"]["validation_folder"]

    @property
    def speaker_corpora(self) -> tuple[str, ...]:
        """The corpus of each speaker in a joint cache; empty if there is only one corpus."""
        return tuple(self.header["speaker_corpora"])

    @property
    def content_id(self) -> str:
        """Fingerprint of the settings and the clips: changes when a clip is added, changed, removed or held out."""
        return f"{self.fingerprint}-{self.header['hot_checksum']:08x}"

    @property
    def num_clips(self) -> int:
        return len(self.frame_counts)

    @property
    def speech_seconds(self) -> float:
        """Length of all clips together, without the silence that was trimmed."""
        return float(self.frame_counts.sum(dtype=np.int64)) / self.mel.frames_per_second

    def describe_quality(self) -> str:
        """One line: minutes of speech by the bandwidth of the recordings, and their signal-to-noise ratio."""
        is_known = np.asarray(self.bandwidths) > 0
        if not is_known.any():
            return "bandwidth of the recordings: not measured yet (`myxtts prepare` does it)"
        minutes = self.frame_counts / self.mel.frames_per_second / 60
        bands = np.digitize(self.bandwidths, [edge * 1000 for edge in BANDWIDTH_EDGES_KHZ])
        names = (
            f"below {BANDWIDTH_EDGES_KHZ[0]} kHz",
            *(f"{low} to {high} kHz" for low, high in itertools.pairwise(BANDWIDTH_EDGES_KHZ)),
            f"{BANDWIDTH_EDGES_KHZ[-1]} kHz and more",
        )
        found = [
            f"{minutes[is_known & (bands == band)].sum():.1f} minutes {name}"
            for band, name in enumerate(names)
            if (is_known & (bands == band)).any()
        ]
        return f"bandwidth of the recordings: {', '.join(found)}; median SNR {np.median(self.snrs[is_known]):.0f} dB"

    @property
    def num_rows(self) -> int:
        """Rows of frames_path, the zero row included."""
        return self.header["rows"]

    @property
    def num_tokens(self) -> int:
        """Elements of tokens_path, the zero included."""
        return self.header["tokens"]

    @property
    def frames_path(self) -> Path:
        return self.folder / self.header["frames_file"]

    @property
    def tokens_path(self) -> Path:
        return self.folder / self.header["tokens_file"]

    @property
    def bandwidths(self) -> np.ndarray:
        """float32 (clips,): the highest frequency (Hz) that each recording contains; 0: not measured yet."""
        return self.cold["bandwidths"]

    @property
    def snrs(self) -> np.ndarray:
        """float32 (clips,): level of the speech above the pauses (dB); only measured where `bandwidths` is not 0."""
        return self.cold["snrs"]

    @property
    def sample_starts(self) -> np.ndarray:
        """int64 (clips,): element of the first sample in `samples`; 0: the clip was prepared without its sound."""
        return self.cold["sample_starts"]

    @property
    def sample_counts(self) -> np.ndarray:
        """int32 (clips,)."""
        return self.cold["sample_counts"]

    @property
    def pitch_starts(self) -> np.ndarray:
        """int64 (clips,): element of the pitch of the first frame in `pitches`."""
        return self.cold["pitch_starts"]

    @cached_property
    def samples(self) -> np.ndarray:
        """Mapped int16: the samples of all clips that were prepared with their sound."""
        return np.memmap(self.folder / self.header["samples_file"], "<i2", "r", shape=(self.header["samples"],))

    @cached_property
    def pitches(self) -> np.ndarray:
        """Mapped float32: Hz of each frame of the same clips, 0 where a frame is unvoiced."""
        return np.memmap(self.folder / self.header["pitch_file"], "<f4", "r", shape=(self.header["pitches"],))

    @cached_property
    def frames(self) -> np.ndarray:
        """Mapped float32 (rows, n_mels)."""
        return np.memmap(self.frames_path, "<f4", "r", shape=(self.num_rows, self.mel.n_mels))

    @cached_property
    def tokens(self) -> np.ndarray:
        """Mapped int32 (tokens,)."""
        return np.memmap(self.tokens_path, "<i4", "r", shape=(self.num_tokens,))

    def clip_frames(self, clip: int) -> np.ndarray:
        """Log-mel of one clip, (frames, n_mels)."""
        start = int(self.frame_starts[clip])
        return self.frames[start : start + int(self.frame_counts[clip])]

    def clip_tokens(self, clip: int) -> np.ndarray:
        """Tokens of one clip, (symbols,)."""
        start = int(self.token_starts[clip])
        return self.tokens[start : start + int(self.token_counts[clip])]

    def clip_samples(self, clip: int) -> np.ndarray:
        """Samples of one clip, int16 (samples,); empty if it was prepared without its sound."""
        start = int(self.sample_starts[clip])
        return self.samples[start : start + int(self.sample_counts[clip])]

    def clip_pitch(self, clip: int) -> np.ndarray:
        """Hz of each frame of one clip, float32 (frames,), 0 where unvoiced; empty if it was prepared without its sound."""
        start = int(self.pitch_starts[clip])
        return self.pitches[start : start + (int(self.frame_counts[clip]) if start else 0)]

    def columns(self) -> dict[str, np.ndarray]:
        """Every column by name, as `myxtts.cache.writer.publish` takes them."""
        return {name: vars(self)[name] for name in HOT_COLUMNS} | dict(self.cold)

    @cached_property
    def ids(self) -> Strings:
        return Strings(self.strings, 0, self.cold["id_ends"])

    @cached_property
    def texts(self) -> Strings:
        first = int(self.cold["id_ends"][-1]) if self.num_clips else 0
        return Strings(self.strings, first, self.cold["text_ends"])


def open_cache(
    folder: str | Path, expected_fingerprint: str | None = None, expected_settings: Mapping[str, Any] | None = None
) -> Cache:
    """Open the cache in `folder`; raises a `CacheError` that says what is missing, damaged or different."""
    folder = Path(folder)
    header = read_header(folder, expected_settings)
    if expected_fingerprint is not None and header["fingerprint"] != expected_fingerprint:
        raise CacheError(
            f"The cache in {folder} was prepared with other settings. Received fingerprint {header['fingerprint']}, expected "
            f"{expected_fingerprint}. Run `myxtts prepare` with the present settings."
        )
    n_mels = header["mel"]["n_mels"]
    for name, size in (
        (header["frames_file"], header["rows"] * n_mels * 4),
        (header["tokens_file"], header["tokens"] * 4),
        (header["strings_file"], header["strings_bytes"]),
        (header["index_file"], column_offsets(header["columns"], header["clips"])[1]),
        *sound_files(header).items(),
    ):
        _require_size(folder / name, size)
    return load_cache(folder, header)


def sound_files(header: Mapping[str, Any]) -> dict[str, int]:
    """Names of the files with the sound of clips, and their bytes; empty if no clip has any."""
    if not header["samples_file"]:
        return {}
    return {header["samples_file"]: header["samples"] * 2, header["pitch_file"]: header["pitches"] * 4}


def load_cache(folder: Path, header: Mapping[str, Any]) -> Cache:
    """The cache that a checked header describes; the sizes of its data files are not checked."""
    index_path, clips = folder / header["index_file"], header["clips"]
    offsets, _ = column_offsets(header["columns"], clips)
    hot = np.fromfile(index_path, np.uint8, count=offsets[FIRST_COLD_COLUMN])
    hot.flags.writeable = False
    if zlib.crc32(hot.data) != header["hot_checksum"]:
        raise damaged(folder, f"{header['index_file']} does not match its checksum")
    columns: dict[str, Any] = _columns(hot, HOT_COLUMNS, offsets, clips)
    return Cache(
        folder=folder,
        header=header,
        mel=MelSpec.from_dict(header["mel"]),
        symbols=SymbolTable.from_list(header["symbols"]),
        front_end_kind=header["settings"]["front_end_kind"],
        speakers=tuple(header["speakers"]),
        languages=tuple(header["languages"]),
        **columns,
        cold=_columns(map_bytes(index_path), COLD_COLUMNS | ADDED_COLUMNS, offsets, clips),
        strings=map_bytes(folder / header["strings_file"]),
        data_folder=Path(header["data_folder"]),
        license=header["license"],
        attribution=header["attribution"],
    )


HeaderFault = Literal["missing", "damaged", "stale"]


class HeaderError(CacheError):
    """A header that cannot be used: there is none, it is not what was written, or it belongs to other settings."""

    def __init__(self, folder: Path, fault: HeaderFault, detail: str):
        messages = {
            "missing": f"There is no prepared cache in {folder} ({HEADER_NAME} is missing). Run `myxtts prepare`.",
            "damaged": str(damaged(folder, f"{HEADER_NAME} {detail}")),
            "stale": f"The cache in {folder} was prepared with other settings: {detail}. Run `myxtts prepare` with the present "
            "settings.",
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


def _columns(
    data: np.ndarray, dtypes: Mapping[str, np.dtype], offsets: Mapping[str, int], clips: int
) -> dict[str, np.ndarray]:
    return {
        name: data[offsets[name] : offsets[name] + clips * dtype.itemsize].view(dtype)
        if name in offsets
        else np.zeros(clips, dtype)
        for name, dtype in dtypes.items()
    }


def _require_size(path: Path, size: int) -> None:
    """The file has at least the bytes that the header promises (a running `prepare` may have appended more)."""
    try:
        received = path.stat().st_size
    except FileNotFoundError:
        raise damaged(path.parent, f"{path.name} is missing") from None
    if received < size:
        raise damaged(path.parent, f"{path.name} has {received} bytes, expected {size}")
