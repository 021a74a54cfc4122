"""The journal of a running `prepare`: records appended one by one, so that nothing whole is ever done twice.

In: mel frames and tokens of single clips, in any order. Out: grown frame and token files, and a `RECORD` for each clip.
A record counts once its journal entry is whole: after `kill -9` or a power cut the next run keeps what is whole and cuts off
the rest. When the disk is full the torn record is cut off.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.cache.format import Cache, CacheSettings, canonical_json
from myxtts.cache.writer import JOURNAL_NAME, write_atomically, write_error
from myxtts.errors import CacheError

JOURNAL_MAGIC = b"MyXTTS journal 1"

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
    ]
)
"""One prepared clip, without what the metadata alone decides (speaker, language, held out)."""
ENTRY_BYTES = RECORD.itemsize + 4
"""A journal entry is a record and its CRC-32."""


def clip_key(clip_id: str) -> bytes:
    """What identifies a clip in the journal: 16 bytes, whatever the length of its id."""
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


def cache_records(cache: Cache) -> np.ndarray:
    """The records of a published cache, in the order of its clips."""
    records = np.zeros(cache.num_clips, RECORD)
    records["key"] = np.frombuffer(b"".join(clip_key(clip_id) for clip_id in cache.ids), "V16")
    for field, column in (
        ("frame_start", cache.frame_starts),
        ("token_start", cache.token_starts),
        ("frame_count", cache.frame_counts),
        ("token_count", cache.token_counts),
        ("checksum", cache.checksums),
        ("source_bytes", cache.cold["source_bytes"]),
        ("source_mtime_ns", cache.cold["source_mtimes_ns"]),
        ("source_hash", cache.cold["source_hashes"]),
        ("text_hash", cache.cold["text_hashes"]),
    ):
        records[field] = column
    return records


class AppendedFile:
    """A file that only grows, and is cut back to what is known to be whole."""

    def __init__(self, path: Path, whole_bytes: int):
        self.path, self.whole_bytes = path, whole_bytes
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        if os.fstat(self._descriptor).st_size < whole_bytes:
            os.close(self._descriptor)
            raise CacheError(
                f"{path} is shorter than the {whole_bytes} bytes that belong to it. Run `myxtts verify --fix`."
            )
        self.cut()

    def write(self, data: Any) -> None:
        """Append; the bytes count only after `keep`."""
        view = memoryview(data).cast("B")
        while view:
            view = view[os.write(self._descriptor, view) :]

    def keep(self) -> None:
        self.whole_bytes = os.lseek(self._descriptor, 0, os.SEEK_CUR)

    def cut(self) -> None:
        """Drop what was not kept."""
        os.ftruncate(self._descriptor, self.whole_bytes)
        os.lseek(self._descriptor, self.whole_bytes, os.SEEK_SET)

    def sync(self) -> None:
        os.fsync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class RecordWriter:
    """Appends records to the frame and token files and notes each in the journal.

    `base` is the published cache that is continued, if there is one. Journalled records of an interrupted run with the same
    settings and base are taken over (`recovered`), those whose bytes are not whole are dropped.
    """

    def __init__(self, folder: Path, settings: CacheSettings, base: Cache | None):
        self.folder, self.n_mels, self.fingerprint = folder, settings.mel.n_mels, settings.fingerprint
        self.base_generation = base.header["generation"] if base else 0
        self.frames_name = base.header["frames_file"] if base else "frames-1.f32"
        self.tokens_name = base.header["tokens_file"] if base else "tokens-1.i32"
        whole_rows, whole_tokens = (base.num_rows, base.num_tokens) if base else (0, 0)
        self.recovered, self.symbols = self._recover(whole_rows, whole_tokens)
        if len(self.recovered):
            whole_rows = max(whole_rows, int((self.recovered["frame_start"] + self.recovered["frame_count"]).max()))
            whole_tokens = max(whole_tokens, int((self.recovered["token_start"] + self.recovered["token_count"]).max()))
        self._frames = AppendedFile(folder / self.frames_name, whole_rows * self.n_mels * 4)
        self._tokens = AppendedFile(folder / self.tokens_name, whole_tokens * 4)
        self._journal: AppendedFile | None = None
        if whole_rows == 0:
            with self._explained():
                self._frames.write(np.zeros((1, self.n_mels), "<f4"))
                self._tokens.write(np.zeros(1, "<i4"))
                self._keep()

    @property
    def num_rows(self) -> int:
        return self._frames.whole_bytes // (self.n_mels * 4)

    @property
    def num_tokens(self) -> int:
        return self._tokens.whole_bytes // 4

    def start(self, symbols: Sequence[str]) -> None:
        """Begin the journal, with the symbols whose numbers the tokens are; recovered records stay in it."""
        entries = b"".join(_entry(record) for record in self.recovered)
        data = _journal_head(self._identity() | {"symbols": list(symbols)}) + entries
        with self._explained():
            write_atomically(self.folder / JOURNAL_NAME, data)
        self._journal = AppendedFile(self.folder / JOURNAL_NAME, len(data))

    def append(self, record: Mapping[str, Any], frames: np.ndarray | None, tokens: np.ndarray) -> np.ndarray:
        """Write one clip and return its whole `RECORD`.

        `record` has key, source_bytes, source_mtime_ns, source_hash and text_hash; and frame_start and frame_count where
        `frames` is None: then only the text changed, and the frames that are there already are used again.
        """
        entry = np.zeros((), RECORD)
        for field, value in record.items():
            entry[field] = np.frombuffer(value, "V16")[0] if isinstance(value, bytes) else value
        if frames is None:
            data, frame_bytes = self._written_frames(entry), b""
        else:
            data = frame_bytes = np.ascontiguousarray(frames, "<f4")
            entry["frame_start"], entry["frame_count"] = self.num_rows, len(frames)
        tokens = np.ascontiguousarray(tokens, "<i4")
        entry["token_start"], entry["token_count"] = self.num_tokens, len(tokens)
        entry["checksum"] = record_checksum(data, tokens)
        with self._explained():
            self._frames.write(frame_bytes)
            self._tokens.write(tokens)
            self._journal.write(_entry(entry))
            self._keep()
        return entry

    def sync(self) -> None:
        """Everything appended so far is on the disk."""
        with self._explained():
            self._frames.sync()
            self._tokens.sync()

    def discard(self) -> None:
        """Nothing of the journal is needed."""
        (self.folder / JOURNAL_NAME).unlink(missing_ok=True)

    def close(self) -> None:
        """Close the files; those that were made for nothing (the run failed before its first clip) are removed."""
        for file in (self._frames, self._tokens, self._journal):
            if file is not None:
                file.close()
        if self._journal is None and self.base_generation == 0 and not len(self.recovered):
            for name in (self.frames_name, self.tokens_name):
                (self.folder / name).unlink(missing_ok=True)

    def _keep(self) -> None:
        for file in (self._frames, self._tokens, self._journal):
            if file is not None:
                file.keep()

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """A failed write is undone, and told as what it is."""
        try:
            yield
        except OSError as error:
            for file in (self._frames, self._tokens, self._journal):
                if file is not None:
                    file.cut()
            raise write_error(self.folder, error) from None

    def _written_frames(self, entry: np.ndarray) -> np.ndarray:
        shape, offset = (int(entry["frame_count"]), self.n_mels), int(entry["frame_start"]) * self.n_mels * 4
        return np.fromfile(self.folder / self.frames_name, "<f4", count=shape[0] * shape[1], offset=offset).reshape(
            shape
        )

    def _identity(self) -> dict[str, Any]:
        return {
            "fingerprint": self.fingerprint,
            "base_generation": self.base_generation,
            "frames_file": self.frames_name,
            "tokens_file": self.tokens_name,
        }

    def _recover(self, whole_rows: int, whole_tokens: int) -> tuple[np.ndarray, list[str]]:
        """Whole records of an interrupted run that continued the same cache, and its symbols."""
        head, records = read_journal(self.folder / JOURNAL_NAME)
        if head is None or any(head[name] != value for name, value in self._identity().items()):
            return np.zeros(0, RECORD), []
        kept = []
        for number, record in enumerate(records):
            tokens = np.fromfile(
                self.folder / self.tokens_name,
                "<i4",
                count=int(record["token_count"]),
                offset=int(record["token_start"]) * 4,
            )
            frames = self._read_whole(record)
            if frames is not None and record_checksum(frames, tokens) == record["checksum"]:
                kept.append(number)
        return records[kept], head["symbols"]

    def _read_whole(self, record: np.ndarray) -> np.ndarray | None:
        try:
            return self._written_frames(record)
        except (ValueError, OSError):
            return None


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
