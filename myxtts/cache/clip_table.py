"""What later stages read of a corpus, prepared or not: one value per clip in each column. NumPy only, no TensorFlow.

The index of a clip in the columns is its id in plans and batches. `Cache`, which `open_cache` opens, is a `PreparedTable`;
`myxtts.cache.recordings.RecordingTable` is a `ClipTable` whose frames are decoded while training. Opening reads the columns of
the index and no string, so that a million clips open in a fraction of a second.
"""

from __future__ import annotations

import dataclasses
import itertools
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from myxtts.audio.mel import MelSpec
from myxtts.cache.format import (
    ADDED_COLUMNS,
    COLD_COLUMNS,
    COLUMN_FIELDS,
    FIRST_COLD_COLUMN,
    HOT_COLUMNS,
    RECORD,
    clip_key,
    column_offsets,
    damaged,
    map_bytes,
    read_header,
    sound_files,
)
from myxtts.errors import CacheError
from myxtts.text.tokenizer import FrontEnd, SymbolTable

if TYPE_CHECKING:
    from myxtts.cache.prepare import PrepareReport

BANDWIDTH_EDGES_KHZ = (5, 7, 9, 11)
"""Reported bands: telephone below 5, wideband telephony and 16 kHz files at 7 to 9, 22.05 and 24 kHz files from 11."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ClipTable:
    """The clips of a corpus with their lengths, speakers and texts."""

    folder: Path
    mel: MelSpec
    symbols: SymbolTable
    front_end_kind: str
    speakers: tuple[str, ...]
    languages: tuple[str, ...]
    ids: Sequence[str]
    texts: Sequence[str]
    frame_starts: np.ndarray
    """int64 (clips,): row of the first frame in the table of frames."""
    frame_counts: np.ndarray
    """int32 (clips,)."""
    token_starts: np.ndarray
    """int64 (clips,): index of the first token in the tokens of all clips."""
    token_counts: np.ndarray
    """int32 (clips,): symbols without blanks."""
    speaker_numbers: np.ndarray
    """int32 (clips,): index in `speakers`."""
    language_numbers: np.ndarray
    """int32 (clips,): index in `languages`."""
    is_validation: np.ndarray
    """bool (clips,): held out."""
    license: str = ""
    """Text of the corpus's license file."""
    attribution: str = ""
    """Text of the corpus's attribution file."""
    _front_end: FrontEnd | None = None

    @property
    def front_end(self) -> FrontEnd:
        """Lexicon and phonemizer that read the texts; known where the corpus was read, not where only its cache was opened."""
        if self._front_end is None:
            raise CacheError(
                f"The cache in {self.folder} was opened without `prepare_cache`, so it has no front end. Use `prepare_cache`."
            )
        return self._front_end

    @property
    def num_clips(self) -> int:
        return len(self.frame_counts)

    @property
    def content_id(self) -> str:
        """Changes when a clip is added, changed or removed."""
        raise NotImplementedError

    @property
    def speaker_corpora(self) -> tuple[str, ...]:
        """The corpus of each speaker where several are joined; empty if there is only one."""
        return ()

    @property
    def bandwidths(self) -> np.ndarray:
        """float32 (clips,): the highest frequency (Hz) that each recording contains; 0: not measured."""
        return np.zeros(len(self.frame_counts), np.float32)

    @property
    def snrs(self) -> np.ndarray:
        """float32 (clips,): level of the speech above the pauses (dB); only measured where `bandwidths` is not 0."""
        return np.zeros(len(self.frame_counts), np.float32)

    def clip_frames(self, clip: int) -> np.ndarray:
        """Log-mel of one clip, (frames, n_mels)."""
        raise NotImplementedError


class PreparedTable(ClipTable):
    """A table whose frames and tokens are in files; row 0 of each file is padding."""

    frames_path: Path
    tokens_path: Path
    num_rows: int
    num_tokens: int

    def pitches_of_frames(self) -> np.ndarray:
        """Hz of each row of the frames, float32 (rows,), 0 where unvoiced; raises a `CacheError` if a clip has no pitch."""
        raise NotImplementedError


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


@dataclasses.dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Cache(PreparedTable):
    """An opened cache. Arrays are read-only; ids and texts stay readable after a newer generation removed their file."""

    header: Mapping[str, Any]
    ids: Strings
    texts: Strings
    checksums: np.ndarray
    """uint32: CRC-32 of the frame bytes, continued over the token bytes."""
    cold: Mapping[str, np.ndarray]
    """`COLD_COLUMNS` and `ADDED_COLUMNS`, mapped: for preparing, verifying and naming clips."""
    data_folder: Path
    """The corpus that the clips come from."""
    _report: PrepareReport | None = None

    def __repr__(self) -> str:
        return f"Cache({str(self.folder)!r}, {self.num_clips} clips)"

    @property
    def report(self) -> PrepareReport:
        """What `prepare_cache` found and did; only the cache that it returns has a report."""
        if self._report is None:
            raise CacheError(
                f"The cache in {self.folder} was opened without `prepare_cache`, so it has no report. Use `prepare_cache`."
            )
        return self._report

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the settings."""
        return self.header["fingerprint"]

    @property
    def speaker_corpora(self) -> tuple[str, ...]:
        """The corpus of each speaker in a joint cache; empty if there is only one corpus."""
        return tuple(self.header["speaker_corpora"])

    @property
    def content_id(self) -> str:
        """Fingerprint of the settings and the clips: changes when a clip is added, changed, removed or held out."""
        return f"{self.fingerprint}-{self.header['hot_checksum']:08x}"

    @property
    def speech_seconds(self) -> float:
        """Length of all clips together, without the silence that was trimmed."""
        return float(self.frame_counts.sum(dtype=np.int64)) / self.mel.frames_per_second

    def describe_quality(self) -> str:
        """One line: minutes of speech by the bandwidth of the recordings, and their signal-to-noise ratio."""
        is_known = np.asarray(self.bandwidths) > 0
        if not is_known.any():
            return "bandwidth of the recordings: not measured yet (run `myxtts prepare`)"
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

    def pitches_of_frames(self) -> np.ndarray:
        """Hz of each row of `frames`, float32 (rows,), 0 where unvoiced; raises a `CacheError` if a clip has no pitch."""
        starts, counts = self.pitch_starts, self.frame_counts
        if not starts.all():
            raise CacheError(
                f"{int((starts == 0).sum())} of {len(starts)} clips in {self.folder} were prepared without their pitch, which "
                "model.pitch needs. Run `myxtts train` with model.pitch: true: it prepares the pitch."
            )
        result = np.zeros(self.num_rows, np.float32)
        for frame_start, start, count in zip(self.frame_starts.tolist(), starts.tolist(), counts.tolist(), strict=True):
            result[frame_start : frame_start + count] = self.pitches[start : start + count]
        return result

    def columns(self) -> dict[str, np.ndarray]:
        """Every column by name, as `myxtts.cache.writer.publish` takes them."""
        return {name: vars(self)[name] for name in HOT_COLUMNS} | dict(self.cold)


def open_cache(
    folder: str | Path, expected_fingerprint: str | None = None, expected_settings: Mapping[str, Any] | None = None
) -> Cache:
    """Open the cache in `folder`; raises a `CacheError` that says what is missing, damaged or different."""
    folder = Path(folder)
    header = read_header(folder, expected_settings)
    if expected_fingerprint is not None and header["fingerprint"] != expected_fingerprint:
        raise CacheError(
            f"The cache in {folder} was prepared with different settings. Received fingerprint {header['fingerprint']}, expected "
            f"{expected_fingerprint}. Run `myxtts prepare` with the current settings."
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


def load_cache(folder: Path, header: Mapping[str, Any]) -> Cache:
    """The cache that a checked header describes; the sizes of its data files are not checked."""
    index_path, clips = folder / header["index_file"], header["clips"]
    offsets, _ = column_offsets(header["columns"], clips)
    hot = np.fromfile(index_path, np.uint8, count=offsets[FIRST_COLD_COLUMN])
    hot.flags.writeable = False
    if zlib.crc32(hot.data) != header["hot_checksum"]:
        raise damaged(folder, f"{header['index_file']} does not match its checksum")
    columns: dict[str, Any] = _columns(hot, HOT_COLUMNS, offsets, clips)
    cold = _columns(map_bytes(index_path), COLD_COLUMNS | ADDED_COLUMNS, offsets, clips)
    strings, first_text = map_bytes(folder / header["strings_file"]), int(cold["id_ends"][-1]) if clips else 0
    return Cache(
        folder=folder,
        header=header,
        mel=MelSpec.from_dict(header["mel"]),
        symbols=SymbolTable.from_list(header["symbols"]),
        front_end_kind=header["settings"]["front_end_kind"],
        speakers=tuple(header["speakers"]),
        languages=tuple(header["languages"]),
        ids=Strings(strings, 0, cold["id_ends"]),
        texts=Strings(strings, first_text, cold["text_ends"]),
        **columns,
        cold=cold,
        data_folder=Path(header["data_folder"]),
        license=header["license"],
        attribution=header["attribution"],
    )


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
    """The file has at least the bytes that the header states (a running `prepare` may have appended more)."""
    try:
        received = path.stat().st_size
    except FileNotFoundError:
        raise damaged(path.parent, f"{path.name} is missing") from None
    if received < size:
        raise damaged(path.parent, f"{path.name} has {received} bytes, expected {size}")


def cache_records(cache: Cache) -> np.ndarray:
    """The records of a published cache, in the order of its clips."""
    records = np.zeros(cache.num_clips, RECORD)
    records["key"] = np.frombuffer(b"".join(clip_key(clip_id) for clip_id in cache.ids), "V16")
    columns = cache.columns()
    for column, field in COLUMN_FIELDS.items():
        records[field] = columns[column]
    return records
