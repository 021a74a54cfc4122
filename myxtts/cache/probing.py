"""Lengths and sample rates of the recordings, probed once and kept in `rates.npy` next to the caches of a corpus."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from myxtts.audio.mel import voice_rate
from myxtts.cache.writer import cache_lock, ignore_line, write_array_atomically, write_error
from myxtts.corpus.corpus import Corpus
from myxtts.errors import CorpusError
from myxtts.runtime.workers import Progress, WorkerPool

RATES_NAME = "rates.npy"
RATE = np.dtype([("key", "<u8"), ("samples", "<i8"), ("rate", "<i4")])
"""A probed file: hash of its path, size and time; samples per channel; Hz (0: not readable; never kept)."""
PATHS_PER_REQUEST = 64


def common_voice_rate(rates: np.ndarray) -> int:
    """Hz of the voice that most of the recordings would make (`sample_rate: auto`)."""
    return most_frequent_rate(np.array([voice_rate(rate) for rate in rates.tolist()]))


def most_frequent_rate(rates: np.ndarray) -> int:
    """Hz; of equally frequent rates the lower one, because up-sampling adds nothing."""
    readable = rates[rates > 0]
    if not len(readable):
        raise CorpusError("None of the recordings can be read as audio. Expected: WAV, FLAC, Ogg, Opus or MP3 files.")
    values, counts = np.unique(readable, return_counts=True)
    return int(values[np.argmax(counts)])


def probe_rates(
    corpus: Corpus,
    kept_path: Path,
    pool: WorkerPool,
    progress: Progress,
    announce: Callable[[str], None] = ignore_line,
) -> np.ndarray:
    """`RATE` of every utterance; only files that are new or changed, or could not be read before, are opened."""
    keys = _file_keys(corpus)
    found, is_known, num_kept = _known_rates(keys, kept_path)
    if is_known.all() and num_kept == len(np.unique(keys)):
        return found
    with cache_lock(kept_path.parent, announce):
        found, is_known, num_kept = _known_rates(keys, kept_path)  # another process may have probed them meanwhile
        new = np.flatnonzero(~is_known)
        paths = [str(corpus.utterances[clip].path) for clip in new]
        for job, head, _ in pool.run("probe", paths, PATHS_PER_REQUEST, "probing recordings", progress):
            if "rejected" not in head:
                found["samples"][new[job]], found["rate"][new[job]] = head["samples"], head["rate"]
        readable = found[found["rate"] > 0]  # a file that cannot be read today may be readable tomorrow
        kept = readable[np.unique(readable["key"], return_index=True)[1]]
        if len(kept) != num_kept or (found["rate"][new] > 0).any():
            try:
                write_array_atomically(kept_path, kept)
            except OSError as error:
                raise write_error(kept_path.parent, error) from None
    return found


def known_rates(corpus: Corpus, kept_path: Path) -> np.ndarray:
    """`RATE` of every utterance as far as it was probed before; the rate of the others is 0. No recording is opened."""
    return _known_rates(_file_keys(corpus), kept_path)[0]


def _known_rates(keys: np.ndarray, kept_path: Path) -> tuple[np.ndarray, np.ndarray, int]:
    """`RATE` of each key as far as it was probed before, which of them were, and how many are kept in the file."""
    found = np.zeros(len(keys), RATE)
    found["key"] = keys
    kept = _read_kept(kept_path)
    if not len(kept):
        return found, np.zeros(len(keys), bool), 0
    rows = np.searchsorted(kept["key"], keys).clip(max=len(kept) - 1)
    is_known = (kept["key"][rows] == keys) & (kept["rate"][rows] > 0)
    found[is_known] = kept[rows[is_known]]
    return found, is_known, len(kept)


def _file_keys(corpus: Corpus) -> np.ndarray:
    """By the path below the corpus, so that a corpus can be moved together with its cache."""
    beginning = f"{corpus.folder}{os.sep}"

    def key(path: Path, size: int, mtime_ns: int) -> bytes:
        name = f"{str(path).removeprefix(beginning)}\0{size}\0{mtime_ns}"
        return hashlib.blake2b(os.fsencode(name), digest_size=8).digest()

    paths = [utterance.path for utterance in corpus.utterances]
    return np.frombuffer(b"".join(map(key, paths, corpus.sizes.tolist(), corpus.mtimes_ns.tolist())), "<u8")


def _read_kept(path: Path) -> np.ndarray:
    """What was probed before; a damaged file only costs the probing."""
    try:
        kept = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return np.zeros(0, RATE)
    return kept if kept.dtype == RATE and kept.ndim == 1 else np.zeros(0, RATE)
