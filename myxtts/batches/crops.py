"""Crops of clips with their samples, for training a vocoder: fixed length, drawn by arithmetic, gathered from the mapped cache.

The crops of a step are a function of (seed, step) alone, so a run resumes exactly without any state. A crop of F frames holds the
samples that its frames are made of: from half a window before the center of the first frame to half a window after that of the
last one, so that its mel frames are those of the cache. No TensorFlow here.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from myxtts.audio.mel import MelSpec
from myxtts.cache.clip_table import Cache
from myxtts.errors import CorpusError

PREFETCHED = 4
"""Batches that are ready before they are needed. One takes about a millisecond to gather."""


class CropBatch(NamedTuple):
    """Crops as arrays or tensors; a batch without clips (all -1) changes nothing."""

    samples: Any
    """int16 (crops, samples)."""
    bandwidths: Any
    """float32 (crops,): Hz; half the sample rate where the whole band is there."""
    pitch: Any
    """float32 (crops, frames): Hz, 0 where a frame is unvoiced."""
    gains: Any
    """float32 (crops,): the samples are multiplied by it."""
    clips: Any
    """int32 (crops,): indices of the clips."""
    deviations: Any
    """float16 (crops, frames, n_mels): what a voice's decoder makes of the log-mel, minus the log-mel; 0 for most crops."""


@dataclass(frozen=True, eq=False)
class CropTable:
    """Where crops can begin. Every possible first frame of every clip is equally likely, so long clips are drawn more often."""

    cache: Cache
    clips: np.ndarray
    """Indices of the clips that are long enough."""
    first_frames: int
    """The first frame of a clip whose window lies wholly inside the clip."""
    ends: np.ndarray
    """int64 (clips,): running sum of the number of possible beginnings."""
    crop_frames: int
    gains_db: tuple[float, float] = (0.0, 0.0)
    deviations: np.ndarray | None = None
    """float16, a row for every row of the cache's frames; None: crops are given their own mels."""
    deviating_fraction: float = 0.0
    """Fraction of the crops whose mel is a decoder's."""

    @property
    def crop_samples(self) -> int:
        """Samples of one crop."""
        mel = self.cache.mel
        return (self.crop_frames - 1) * mel.hop_length + mel.n_fft

    def drawn(self, seed: int, step: int, count: int) -> CropBatch:
        """The crops of a step."""
        generator = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 0, step]))
        beginnings = generator.integers(0, int(self.ends[-1]), count)
        gains = 10 ** (generator.uniform(*self.gains_db, count) / 20)
        return self._gathered(beginnings, gains, generator.random(count) < self.deviating_fraction)

    def spread(self, batch: int, batches: int, count: int) -> CropBatch:
        """Batch number `batch` of `batches` whose crops lie evenly over all clips, as recorded: for validation."""
        numbers = batch * count + np.arange(count)
        beginnings = (numbers * int(self.ends[-1])) // (batches * count)
        return self._gathered(beginnings, np.ones(count), np.zeros(count, bool))

    def _gathered(self, beginnings: np.ndarray, gains: np.ndarray, is_decoded: np.ndarray) -> CropBatch:
        cache, mel = self.cache, self.cache.mel
        rows = np.searchsorted(self.ends, beginnings, side="right")
        starts = self.ends[rows] - np.diff(self.ends, prepend=0)[rows]
        frames = self.first_frames + beginnings - starts
        clips = self.clips[rows]
        samples = cache.sample_starts[clips] + frames * mel.hop_length - mel.n_fft // 2
        pitch = cache.pitch_starts[clips] + frames
        deviations = self._no_deviations(len(clips))
        if self.deviations is not None:
            rows_of_crops = (cache.frame_starts[clips] + frames)[is_decoded, None] + np.arange(self.crop_frames)
            deviations[is_decoded] = self.deviations[rows_of_crops]
        return CropBatch(
            samples=cache.samples[samples[:, None] + np.arange(self.crop_samples)],
            bandwidths=np.asarray(whole_band(cache.bandwidths[clips], mel), np.float32),
            pitch=cache.pitches[pitch[:, None] + np.arange(self.crop_frames)],
            gains=gains.astype(np.float32),
            clips=clips.astype(np.int32),
            deviations=deviations,
        )

    def _no_deviations(self, count: int) -> np.ndarray:
        return np.zeros((count, self.crop_frames, self.cache.mel.n_mels), np.float16)

    def empty(self, count: int) -> CropBatch:
        """A batch without clips: noise, so that nothing is divided by zero."""
        noise = np.random.default_rng(0).integers(-1000, 1000, (count, self.crop_samples)).astype(np.int16)
        band = np.full(count, self.cache.mel.sample_rate / 2, np.float32)
        pitch = np.zeros((count, self.crop_frames), np.float32)
        clips = np.full(count, -1, np.int32)
        return CropBatch(noise, band, pitch, np.ones(count, np.float32), clips, self._no_deviations(count))


WHOLE_FROM = 0.92
"""A bandwidth above this fraction of the highest frequency counts as the whole band: resampling has a slope there. Chosen; not
measured."""


def whole_band(bandwidths: np.ndarray, mel: MelSpec) -> np.ndarray:
    """Bandwidths (Hz) with those near half the sample rate raised to it."""
    half = mel.sample_rate / 2
    return np.where(bandwidths > WHOLE_FROM * half, half, bandwidths)


def crop_table(
    cache: Cache, clips: np.ndarray, crop_frames: int, gains_db: tuple[float, float] = (0.0, 0.0)
) -> CropTable:
    """The crops of the given clips of a cache that was prepared with its sound; raises a `CorpusError` if none is long enough.

    Args:
        gains_db: limits of the random gain in dB.
    """
    mel = cache.mel
    half = mel.n_fft // 2
    first = -(-half // mel.hop_length)
    last = (cache.sample_counts[clips].astype(np.int64) - half) // mel.hop_length - crop_frames + 1
    counts = np.maximum(last - first + 1, 0)
    kept = counts > 0
    if not kept.any():
        seconds = (crop_frames + 2 * first) * mel.hop_length / mel.sample_rate
        raise CorpusError(
            f"None of the {len(clips)} clips is long enough for a crop of {crop_frames} frames, which needs {seconds:.2f} s. "
            "Lower vocoder.crop_frames, or use longer recordings."
        )
    return CropTable(cache, clips[kept], first, np.cumsum(counts[kept]), crop_frames, gains_db)


class CropFeed:
    """The batches of a run in order, gathered by a thread before they are needed; `with` stops it."""

    def __init__(self, table: CropTable, seed: int, first_step: int, count: int):
        """`count` crops per batch, beginning with those of step `first_step`."""
        self.table, self._seed, self._next, self._count = table, seed, first_step, count
        self._ready: queue.Queue[CropBatch | Exception] = queue.Queue(PREFETCHED)
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._work, name="crops", daemon=True)

    def __enter__(self) -> CropFeed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed.set()
        while self._thread.is_alive():
            self._drop_one()
            self._thread.join(0.05)

    def __iter__(self) -> Iterator[CropBatch]:
        return self

    def __next__(self) -> CropBatch:
        found = self._ready.get()
        if isinstance(found, Exception):
            raise found
        return found

    def _work(self) -> None:
        while not self._is_closed.is_set():
            try:
                self._ready.put(self.table.drawn(self._seed, self._next, self._count))
            except Exception as error:  # a failing disk; raised where the batch is asked for
                self._ready.put(error)
                return
            self._next += 1

    def _drop_one(self) -> None:
        try:
            self._ready.get_nowait()
        except queue.Empty:
            return
