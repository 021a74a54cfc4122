"""The Python loader (`use_tf_native_loading: false`): every clip decoded by Python whenever it is needed, through numpy_function.

In: a prepared cache, for its lengths and tokens, and the recordings themselves. Out: the same batches as from the cache, slowly:
the interpreter decodes one clip at a time and nothing is kept. It is the baseline of the benchmarks, and it says so (`NOTICE`).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf

from myxtts.audio.files import load_clip
from myxtts.audio.mel import mel_numpy
from myxtts.batch import BatchShape
from myxtts.config.config import DataConfig
from myxtts.data.cache import Cache
from myxtts.data.source import read_source
from myxtts.data.tf_native_loader import FillFrames
from myxtts.errors import CacheError

NOTICE = (
    "Python loading (data.use_tf_native_loading: false): clips are decoded one at a time through tf.numpy_function. "
    "This is slow; leave the flag out to read the prepared cache."
)


class Recordings:
    """The table of frames without the table: rows are computed from the recording that they belong to."""

    def __init__(self, cache: Cache, config: DataConfig):
        paths = {one.id: one.path for one in read_source(config).utterances}
        missing = [clip_id for clip_id in cache.ids if clip_id not in paths]
        if missing:
            raise CacheError(
                f"{len(missing)} clips of the cache are not in the corpus any more, such as {missing[0]}. "
                "Run `myxtts prepare` again."
            )
        self._paths: list[Path] = [paths[clip_id] for clip_id in cache.ids]
        self._cache, self._config = cache, config
        self._by_start = np.argsort(cache.frame_starts, kind="stable")
        self._starts = cache.frame_starts[self._by_start]

    def rows(self, start: int, limit: int) -> np.ndarray:
        """The rows [start, limit) of one clip, (rows, n_mels)."""
        clip = int(self._by_start[np.searchsorted(self._starts, start, side="right") - 1])
        spec = self._cache.mel
        mel = mel_numpy(load_clip(self._paths[clip], self._config, spec.sample_rate), spec)
        if len(mel) != self._cache.frame_counts[clip]:
            raise CacheError(
                f"{self._paths[clip]} has {len(mel)} frames, its cache entry {self._cache.frame_counts[clip]}: it was changed. "
                "Run `myxtts prepare` again."
            )
        first = start - int(self._cache.frame_starts[clip])
        return mel[first : first + limit - start]

    def fill_frames(self, shape: BatchShape, is_static: bool) -> FillFrames:
        """Fills batches of a shape, for `batch_dataset`."""

        def filled(frame_runs: np.ndarray, reference_runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            padding = np.zeros((1, shape.n_mels), np.float32)
            parts = [
                self.rows(int(start), int(limit)) if start > 0 else np.repeat(padding, limit - start, axis=0)
                for start, limit in frame_runs.T
            ]
            references = np.zeros((shape.rows, shape.slots, shape.reference_frames, shape.n_mels), np.float32)
            for place in zip(*np.nonzero(reference_runs[0]), strict=True):
                start, length = int(reference_runs[0][place]), int(reference_runs[1][place])
                piece = self.rows(start, start + length)
                references[place] = piece[np.arange(shape.reference_frames) % length]
            return np.concatenate(parts).reshape(shape.rows, -1, shape.n_mels), references

        def fill_frames(frame_runs: tf.Tensor, reference_runs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            mel, references = tf.numpy_function(filled, [frame_runs, reference_runs], (tf.float32, tf.float32))
            frames = shape.frames if is_static else None
            return (
                tf.ensure_shape(mel, (shape.rows, frames, shape.n_mels)),
                tf.ensure_shape(references, (shape.rows, shape.slots, shape.reference_frames, shape.n_mels)),
            )

        return fill_frames
