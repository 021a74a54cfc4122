"""Caches written without preparing anything: made-up frames and tokens."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import numpy as np

from myxtts.audio.mel import MelSpec
from myxtts.cache.clip_table import open_cache
from myxtts.cache.format import (
    ADDED_COLUMNS,
    COLUMN_TYPES,
    HEADER_NAME,
    RECORD,
    CacheSettings,
    canonical_json,
    clip_key,
    column_offsets,
    record_columns,
)
from myxtts.cache.journal import RecordWriter, open_records
from myxtts.cache.writer import publish
from myxtts.text.tokenizer import SymbolTable

CLIPS = 6
"""In the corpus of the fixture `corpus`."""


def settings(**changes) -> CacheSettings:
    usual = {
        "mel": MelSpec(16000),
        "trim_silence_db": 45.0,
        "trim_noise_db": 10.0,
        "loudness_db": -23.0,
        "min_seconds": 0.3,
        "max_seconds": 30.0,
        "front_end_kind": "graphemes",
        "front_end_fingerprint": "x",
    }
    return CacheSettings(**(usual | changes))


def made_up_clip(number: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(number)
    frames = generator.normal(size=(5 + number % 7, 80)).astype(np.float32)
    return frames, generator.integers(2, 10, size=2 + number % 3).astype(np.int32)


def append_clip(writer: RecordWriter, number: int) -> np.ndarray:
    record = {
        "key": clip_key(f"clip{number}"),
        "source_bytes": 100 + number,
        "source_mtime_ns": 1,
        "source_hash": bytes(16),
        "text_hash": number,
    }
    return writer.append(record, *made_up_clip(number))


def build_cache(folder: Path, clips: int, ids=None, texts=None, repeat: int = 1) -> list[tuple[np.ndarray, np.ndarray]]:
    """Publish `clips` made-up clips, each `repeat` times; returns their frames and tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    with open_records(folder, settings(), None) as writer:
        writer.start(SymbolTable().to_list())
        records = np.array([append_clip(writer, number) for number in range(clips)], RECORD)
    records = np.resize(records, clips * repeat)
    count = len(records)
    publish(
        folder,
        settings().to_dict(),
        {
            **record_columns(records),
            "speaker_numbers": np.zeros(count),
            "language_numbers": np.zeros(count),
            "is_validation": np.arange(count) % 5 == 0,
        },
        ids or [f"clip{number}" for number in range(count)],
        texts or ["a text"] * count,
        {
            "symbols": SymbolTable().to_list(),
            "speakers": ["speaker"],
            "languages": ["en"],
            "generation": 1,
            "frames_file": writer.files.frames_file,
            "tokens_file": writer.files.tokens_file,
            "samples_file": writer.files.samples_file,
            "pitch_file": writer.files.pitch_file,
            **writer.sizes(),
            "data_folder": str(folder),
            "config": {},
        },
    )
    return [made_up_clip(number) for number in range(clips)]


def edit_header(folder: Path, change) -> None:
    """Call `change` with the header and write it with a valid checksum, as another version or a mistaken user would."""
    header = json.loads((folder / HEADER_NAME).read_bytes())
    del header["checksum"]
    change(header)
    header["checksum"] = zlib.crc32(canonical_json(header))
    (folder / HEADER_NAME).write_text(json.dumps(header), encoding="utf-8")


def make_older(folder: Path) -> None:
    """Turn a cache into one of 0.1.0: without the columns and files that were added since."""
    cache = open_cache(folder)
    index_path = folder / cache.header["index_file"]
    end = column_offsets(COLUMN_TYPES, cache.num_clips)[0][next(iter(ADDED_COLUMNS))]
    index = index_path.read_bytes()[:end]
    index_path.write_bytes(index)
    added = ("columns", "license", "attribution", "samples_file", "pitch_file", "samples", "pitches")

    def change(header):
        for name in ("samples_file", "pitch_file"):
            (folder / header[name]).unlink()
        for name in added:
            header.pop(name, None)
        header["index_checksum"] = zlib.crc32(index)

    edit_header(folder, change)
