"""The journal of a running `prepare`: clips are appended one by one, so that a finished clip is never prepared twice.

`open_records` opens a `RecordWriter`, which appends frames and tokens of clips to their files, in any order, and a `RECORD` of
each to the journal. A record counts once its journal entry is whole: after `kill -9` or a power cut the next run keeps what is
whole and cuts off the rest. When the disk is full, the torn record is cut off.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.cache.clip_table import Cache
from myxtts.cache.format import (
    ELEMENTS,
    HEADER_NAME,
    RECORD,
    CacheSettings,
    Sound,
    canonical_json,
    read_header,
    record_checksum,
)
from myxtts.cache.writer import JOURNAL_NAME, write_error
from myxtts.errors import CacheError
from myxtts.runtime.safe_files import write_atomically

JOURNAL_MAGIC = b"MyXTTS journal 2"

ENTRY_BYTES = RECORD.itemsize + 4
"""A journal entry is a record and its CRC-32."""


class AppendedFile:
    """An opened file that only grows, and is cut back to what is known to be whole."""

    def __init__(self, descriptor: int, whole_bytes: int):
        self._descriptor, self.whole_bytes = descriptor, whole_bytes
        self._written_bytes = whole_bytes

    @classmethod
    def open(cls, path: Path, whole_bytes: int) -> AppendedFile:
        """Open or make the file and cut off what follows its first `whole_bytes`; raises `CacheError` if it is shorter."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        if os.fstat(descriptor).st_size < whole_bytes:
            os.close(descriptor)
            raise CacheError(
                f"{path} is shorter than the {whole_bytes} bytes that belong to it. Run `myxtts verify --fix`."
            )
        file = cls(descriptor, whole_bytes)
        file.cut()
        return file

    def write(self, data: Any) -> None:
        """Append; the bytes count only after `keep`."""
        view = memoryview(data).cast("B")
        self._written_bytes += len(view)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def keep(self) -> None:
        """Everything written so far is whole."""
        self.whole_bytes = self._written_bytes

    def cut(self) -> None:
        """Drop what was not kept."""
        os.ftruncate(self._descriptor, self.whole_bytes)
        os.lseek(self._descriptor, self.whole_bytes, os.SEEK_SET)
        self._written_bytes = self.whole_bytes

    def sync(self) -> None:
        """Wait until everything is on the disk."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


@dataclasses.dataclass(frozen=True)
class DataFiles:
    """The files that a run appends to, and what they belong to: a journal counts only for the same ones."""

    folder: Path
    n_mels: int
    fingerprint: str
    base_generation: int
    """Generation of the published cache that is continued; 0: there is none."""
    frames_file: str
    tokens_file: str
    samples_file: str
    pitch_file: str

    @classmethod
    def of(cls, folder: Path, settings: CacheSettings, base: Cache | None) -> DataFiles:
        """Those of the published cache `base`, or new ones."""
        if base is None:
            names = ("frames-1.f32", "tokens-1.i32", "samples-1.i16", "pitch-1.f32")
            return cls(folder, settings.mel.n_mels, settings.fingerprint, 0, *names)
        header = base.header
        generation = header["generation"]
        names = (
            header["frames_file"],
            header["tokens_file"],
            header["samples_file"] or f"samples-{generation + 1}.i16",
            header["pitch_file"] or f"pitch-{generation + 1}.f32",
        )
        return cls(folder, settings.mel.n_mels, settings.fingerprint, generation, *names)

    def paths(self) -> dict[str, tuple[Path, int]]:
        """Path and bytes of one element of each file, by the header's name for the number of its elements."""
        return {
            "rows": (self.folder / self.frames_file, self.n_mels * 4),
            "tokens": (self.folder / self.tokens_file, 4),
            "samples": (self.folder / self.samples_file, 2),
            "pitches": (self.folder / self.pitch_file, 4),
        }

    def identity(self) -> dict[str, Any]:
        """As the head of a journal names them."""
        names = ("fingerprint", "base_generation", "frames_file", "tokens_file", "samples_file", "pitch_file")
        return {name: getattr(self, name) for name in names}

    def frames_of(self, record: np.ndarray) -> np.ndarray:
        """Frames of a record, (frames, n_mels); raises ValueError or OSError if the file ends before."""
        shape, offset = (int(record["frame_count"]), self.n_mels), int(record["frame_start"]) * self.n_mels * 4
        data = np.fromfile(self.folder / self.frames_file, "<f4", count=shape[0] * shape[1], offset=offset)
        return data.reshape(shape)

    def tokens_of(self, record: np.ndarray) -> np.ndarray:
        """Tokens of a record, (symbols,); fewer if the file ends before."""
        count, offset = int(record["token_count"]), int(record["token_start"]) * 4
        return np.fromfile(self.folder / self.tokens_file, "<i4", count=count, offset=offset)

    def sound_of(self, record: np.ndarray) -> Sound:
        """Sound of a record; shorter if a file ends before."""
        samples_offset, pitch_offset = int(record["sample_start"]) * 2, int(record["pitch_start"]) * 4
        samples = np.fromfile(
            self.folder / self.samples_file, "<i2", int(record["sample_count"]), offset=samples_offset
        )
        pitch = np.fromfile(self.folder / self.pitch_file, "<f4", int(record["frame_count"]), offset=pitch_offset)
        return Sound(samples, pitch)

    def recover(self) -> tuple[np.ndarray, list[str]]:
        """Whole records of an interrupted run that appended to the same files, and its symbols."""
        head, records = read_journal(self.folder / JOURNAL_NAME)
        if head is None or any(head.get(name) != value for name, value in self.identity().items()):
            return np.zeros(0, RECORD), []
        return records[[self._is_whole(record) for record in records]], head["symbols"]

    def _is_whole(self, record: np.ndarray) -> bool:
        try:
            if record["sample_start"] and self.sound_of(record).checksum() != record["sound_checksum"]:
                return False
            return record_checksum(self.frames_of(record), self.tokens_of(record)) == record["checksum"]
        except (ValueError, OSError):
            return False


@contextlib.contextmanager
def open_records(folder: Path, settings: CacheSettings, base: Cache | None) -> Iterator[RecordWriter]:
    """Open the data files of a cache folder to append to them.

    Args:
        base: the published cache that is continued, if there is one.

    Journaled records of an interrupted run with the same settings and base are taken over (`RecordWriter.recovered`); those whose
    bytes are not whole are cut off.
    """
    files = DataFiles.of(folder, settings, base)
    recovered, symbols = files.recover()
    whole = {name: base.header[name] if base else 0 for name in ELEMENTS}
    if len(recovered):
        for name, (start, count) in ELEMENTS.items():
            ends = np.where(recovered[start] > 0, recovered[start] + recovered[count], 0)
            whole[name] = max(whole[name], int(ends.max()))
    with contextlib.ExitStack() as stack:
        if base is None and not len(recovered):
            stack.callback(_remove_without_journal, files)
        opened = {}
        for name, (path, element_bytes) in files.paths().items():
            opened[name] = AppendedFile.open(path, whole[name] * element_bytes)
            stack.callback(opened[name].close)
        writer = RecordWriter(files, opened, recovered, symbols)
        stack.callback(writer.close_journal)
        writer.write_zeros()
        yield writer


def _remove_without_journal(files: DataFiles) -> None:
    """Remove the new data files of a run that failed before its first clip."""
    header_path, journal_path = files.folder / HEADER_NAME, files.folder / JOURNAL_NAME
    if not header_path.exists() and not journal_path.exists():
        for path, _ in files.paths().values():
            path.unlink(missing_ok=True)


class RecordWriter:
    """Appends clips to the opened data files, and a record of each to the journal; made by `open_records`."""

    def __init__(
        self,
        files: DataFiles,
        opened: Mapping[str, AppendedFile],
        recovered: np.ndarray,
        symbols: list[str],
    ):
        self.files, self.recovered, self.symbols = files, recovered, symbols
        self._opened = opened
        self._element_bytes = {name: size for name, (_, size) in files.paths().items()}
        self._journal: AppendedFile | None = None

    def sizes(self) -> dict[str, int]:
        """Elements of each data file, by the header's name for that number (`ELEMENTS`)."""
        return {name: file.whole_bytes // self._element_bytes[name] for name, file in self._opened.items()}

    @property
    def num_rows(self) -> int:
        return self.sizes()["rows"]

    @property
    def num_tokens(self) -> int:
        return self.sizes()["tokens"]

    def start(self, symbols: Sequence[str]) -> None:
        """Begin the journal, with the symbols that the tokens are ids of; recovered records stay in it."""
        entries = b"".join(_entry(record) for record in self.recovered)
        data = _journal_head(self.files.identity() | {"symbols": list(symbols)}) + entries
        path = self.files.folder / JOURNAL_NAME
        with self._explained():
            write_atomically(path, data)
        self._journal = AppendedFile.open(path, len(data))

    def append(
        self,
        record: Mapping[str, Any],
        frames: np.ndarray | None,
        tokens: np.ndarray | None,
        sound: Sound | None = None,
    ) -> np.ndarray:
        """Write one clip and return its whole `RECORD`.

        `record` has key, source_bytes, source_mtime_ns, source_hash and text_hash. Where `frames`, `tokens` or `sound` is None,
        it also has the fields that point at what is already written (`ELEMENTS`), which is used again.
        """
        if self._journal is None:
            raise RuntimeError("RecordWriter.start must be called before append.")
        entry, sizes = np.zeros((), RECORD), self.sizes()
        for field, value in record.items():
            entry[field] = np.frombuffer(value, "V16")[0] if isinstance(value, bytes) else value
        new: dict[str, np.ndarray] = {}
        if frames is not None:
            new["rows"] = np.ascontiguousarray(frames, "<f4")
        if tokens is not None:
            new["tokens"] = np.ascontiguousarray(tokens, "<i4")
        if sound is not None:
            new |= {
                "samples": np.ascontiguousarray(sound.samples, "<i2"),
                "pitches": np.ascontiguousarray(sound.pitch, "<f4"),
            }
            entry["sound_checksum"] = sound.checksum()
        for name, data in new.items():
            start, count = ELEMENTS[name]
            entry[start], entry[count] = sizes[name], len(data)
        entry["checksum"] = record_checksum(
            new["rows"] if frames is not None else self.files.frames_of(entry),
            new["tokens"] if tokens is not None else self.files.tokens_of(entry),
        )
        with self._explained():
            for name, data in new.items():
                self._opened[name].write(data)
            self._journal.write(_entry(entry))
            self._keep()
        return entry

    def sync(self) -> None:
        """Wait until everything appended so far is on the disk."""
        with self._explained():
            for file in self._opened.values():
                file.sync()

    def discard(self) -> None:
        """Remove the journal and files that the published cache does not name: nothing of them is needed."""
        (self.files.folder / JOURNAL_NAME).unlink(missing_ok=True)
        header = read_header(self.files.folder)
        for path, _ in self.files.paths().values():
            if path.name not in header.values():
                path.unlink(missing_ok=True)

    def write_zeros(self) -> None:
        """Write element 0 of the files that are empty: padding points at it, and a start of 0 means that there is nothing."""
        with self._explained():
            for name, file in self._opened.items():
                if file.whole_bytes == 0:
                    file.write(bytes(self._element_bytes[name]))
            self._keep()

    def close_journal(self) -> None:
        if self._journal is not None:
            self._journal.close()

    def _opened_files(self) -> list[AppendedFile]:
        return [*self._opened.values(), *([self._journal] if self._journal is not None else [])]

    def _keep(self) -> None:
        for file in self._opened_files():
            file.keep()

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Undo a failed write, and raise a `CacheError` that says what to do."""
        try:
            yield
        except OSError as error:
            for file in self._opened_files():
                file.cut()
            raise write_error(self.files.folder, error) from None


def read_journal(path: Path) -> tuple[dict[str, Any] | None, np.ndarray]:
    """What an interrupted run left: its head (None: nothing usable) and its entries up to the first torn one."""
    nothing = np.zeros(0, RECORD)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None, nothing
    head_end = data.find(b"\n", len(JOURNAL_MAGIC))
    if not data.startswith(JOURNAL_MAGIC) or head_end < 0:
        return None, nothing
    checksum, _, text = data[len(JOURNAL_MAGIC) : head_end].strip().partition(b" ")
    if checksum != b"%08x" % zlib.crc32(text):
        return None, nothing
    body = data[head_end + 1 :]
    whole = []
    for start in range(0, len(body) - ENTRY_BYTES + 1, ENTRY_BYTES):
        record, checksum = body[start : start + RECORD.itemsize], body[start + RECORD.itemsize : start + ENTRY_BYTES]
        if int.from_bytes(checksum, "little") != zlib.crc32(record):
            break
        whole.append(record)
    return json.loads(text), np.frombuffer(b"".join(whole), RECORD)


def _journal_head(identity: Mapping[str, Any]) -> bytes:
    text = canonical_json(identity)
    return JOURNAL_MAGIC + b" %08x %s\n" % (zlib.crc32(text), text)


def _entry(record: np.ndarray) -> bytes:
    data = record.tobytes()
    return data + zlib.crc32(data).to_bytes(4, "little")
