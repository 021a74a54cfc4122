"""Writing a cache: records appended and journalled one by one, then an index published by one rename.

In: mel frames and tokens of single clips, in any order. Out: a folder that `myxtts.data.cache.open_cache` opens.
A record counts once its journal entry is whole: after `kill -9` or a power cut the next run keeps what is whole and cuts off
the rest. When the disk is full the torn record is cut off, and the published cache is untouched, because nothing that it
names is ever overwritten.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.data.cache import (
    COLD_COLUMNS,
    HEADER_NAME,
    HOT_COLUMNS,
    Cache,
    CacheSettings,
    canonical_json,
    column_offsets,
    fingerprint_of,
)
from myxtts.errors import CacheError

JOURNAL_NAME = "journal.bin"
LOCK_NAME = "lock"
TEMPORARY_SUFFIX = ".tmp"
JOURNAL_MAGIC = b"MyXTTS journal 1"
COPY_BYTES = 1 << 24

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


@contextlib.contextmanager
def cache_lock(folder: Path) -> Iterator[None]:
    """Only one process writes into a cache folder; the kernel lets go of the lock however that process ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise CacheError(
            f"The cache folder cannot be written. Received: {folder} ({error.strerror}). Set data.cache_dir to a folder that can."
        ) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise CacheError(
            f"Another process is preparing or repairing the cache in {folder}. Wait for it, or stop it."
        ) from None
    finally:
        os.close(descriptor)


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

    def close(self) -> None:
        for file in (self._frames, self._tokens, self._journal):
            if file is not None:
                file.close()

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


def write_atomically(path: Path, data: bytes) -> None:
    """Write beside, bring to the disk, rename: a reader sees the old file or the whole new one."""
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def write_error(folder: Path, error: OSError) -> CacheError:
    """What a failed write means to the user."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return CacheError(
            f"The disk is full (or a quota is reached): {folder} cannot grow. What is prepared so far is kept, and the cache "
            "that was there before is intact. Free some space, or set data.cache_dir to another disk, and run `myxtts prepare` "
            "again: it continues where it stopped."
        )
    return CacheError(f"Writing the cache in {folder} failed: {error.strerror or error}. Run `myxtts prepare` again.")


def publish(
    folder: Path,
    settings: Mapping[str, Any],
    columns: Mapping[str, np.ndarray],
    ids: Sequence[str],
    texts: Sequence[str],
    tables: Mapping[str, Any],
) -> None:
    """Write the index of a new generation and rename `cache.json` last; files that nobody names any more are removed.

    `columns` are those of `HOT_COLUMNS` and `COLD_COLUMNS` except id_ends and text_ends. `tables` are the header's other
    fields: symbols, speakers, languages, generation, frames_file, tokens_file, rows, tokens, config.
    """
    generation = tables["generation"]
    id_bytes, text_bytes = ([value.encode("utf-8") for value in values] for values in (ids, texts))
    strings = b"".join(id_bytes) + b"".join(text_bytes)
    ends = np.cumsum([len(value) for value in id_bytes + text_bytes], dtype="<i8")
    columns = {**columns, "id_ends": ends[: len(ids)], "text_ends": ends[len(ids) :]}
    offsets, index_bytes = column_offsets(len(ids))
    index = np.zeros(index_bytes, np.uint8)
    for name, dtype in (HOT_COLUMNS | COLD_COLUMNS).items():
        data = np.ascontiguousarray(columns[name], dtype).view(np.uint8) if len(ids) else np.zeros(0, np.uint8)
        index[offsets[name] : offsets[name] + data.size] = data
    header = {
        "fingerprint": fingerprint_of(settings),
        "settings": dict(settings),
        "mel": dict(settings["mel"]),
        "clips": len(ids),
        "index_file": f"index-{generation}.bin",
        "strings_file": f"strings-{generation}.bin",
        "strings_bytes": len(strings),
        "hot_checksum": zlib.crc32(index[: offsets["id_ends"]]),
        "index_checksum": zlib.crc32(index),
        "strings_checksum": zlib.crc32(strings),
        **tables,
    }
    try:
        write_atomically(folder / header["index_file"], index.tobytes())
        write_atomically(folder / header["strings_file"], strings)
        text = json.dumps(header | {"checksum": zlib.crc32(canonical_json(header))}, indent=1, ensure_ascii=False)
        write_atomically(folder / HEADER_NAME, text.encode("utf-8"))
    except OSError as error:
        raise write_error(folder, error) from None
    for path in unnamed_files(folder, header):
        path.unlink()


def unnamed_files(folder: Path, header: Mapping[str, Any] | None) -> list[Path]:
    """Files of a cache folder that its header does not name: left over from interrupted runs."""
    named = {header[name] for name in ("frames_file", "tokens_file", "index_file", "strings_file")} if header else set()
    patterns = ("frames-*.f32", "tokens-*.i32", "index-*.bin", "strings-*.bin", JOURNAL_NAME, f"*{TEMPORARY_SUFFIX}")
    return sorted(path for pattern in patterns for path in folder.glob(pattern) if path.name not in named)
