"""The Python loader (`use_tf_native_loading: false`): clips are decoded by Python whenever they are needed, by numpy_function.

It gives the same batches as the cache, slowly: the interpreter decodes one clip at a time and nothing is kept. It is the baseline
of the benchmarks; the trainer prints `NOTICE`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from myxtts.audio.clips import load_clip
from myxtts.audio.mel import mel_numpy
from myxtts.batch import BatchShape
from myxtts.batches.loader import FillFrames
from myxtts.cache.clip_table import ClipTable
from myxtts.config.config import DataConfig
from myxtts.corpus.corpus import read_corpus
from myxtts.errors import CacheError

NOTICE = (
    "Python loading (data.use_tf_native_loading: false): clips are decoded one at a time through tf.numpy_function. "
    "This is slow; leave the flag out to read the prepared cache."
)


@dataclass(frozen=True, eq=False)
class PythonFrames:
    """Replaces the table of frames: its rows are computed from the recordings."""

    table: ClipTable
    config: DataConfig
    paths: list[Path]
    """The recording of each clip."""
    clips_by_start: np.ndarray
    """Indices of the clips in the order of their rows in the table of frames."""

    def rows(self, start: int, limit: int) -> np.ndarray:
        """The rows [start, limit) of one clip, (rows, n_mels)."""
        starts = self.table.frame_starts
        found = np.searchsorted(starts, start, side="right", sorter=self.clips_by_start) - 1
        clip = int(self.clips_by_start[found])
        spec = self.table.mel
        mel = mel_numpy(load_clip(self.paths[clip], self.config, spec.sample_rate), spec)
        if len(mel) != self.table.frame_counts[clip]:
            raise CacheError(
                f"{self.paths[clip]} has {len(mel)} frames, its cache entry {self.table.frame_counts[clip]}: it was changed. "
                "Run `myxtts prepare` again."
            )
        first = start - int(starts[clip])
        return mel[first : first + limit - start]

    def fill_frames(self, shape: BatchShape, is_static: bool) -> FillFrames:
        """Fills batches of a shape, for `myxtts.batches.loader.batch_dataset`."""

        def filled(frame_runs: np.ndarray, reference_runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            padding = np.zeros((1, shape.n_mels), np.float32)
            parts = [
                self.rows(int(start), int(limit)) if start > 0 else np.repeat(padding, limit - start, axis=0)
                for start, limit in frame_runs.T
            ]
            references = np.zeros((shape.rows, shape.slots, shape.reference_frames, shape.n_mels), np.float32)
            for slot in zip(*np.nonzero(reference_runs[0]), strict=True):
                start, length = int(reference_runs[0][slot]), int(reference_runs[1][slot])
                piece = self.rows(start, start + length)
                references[slot] = piece[np.arange(shape.reference_frames) % length]
            return np.concatenate(parts).reshape(shape.rows, -1, shape.n_mels), references

        def fill_frames(frame_runs: tf.Tensor, reference_runs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            mel, references = tf.numpy_function(filled, [frame_runs, reference_runs], (tf.float32, tf.float32))
            frames = shape.frames if is_static else None
            return (
                tf.ensure_shape(mel, (shape.rows, frames, shape.n_mels)),
                tf.ensure_shape(references, (shape.rows, shape.slots, shape.reference_frames, shape.n_mels)),
            )

        return fill_frames


def find_recordings(table: ClipTable, config: DataConfig) -> PythonFrames:
    """The recordings of a prepared table's clips. Raises `CacheError` if one is no longer in the corpus."""
    paths = {one.id: one.path for one in read_corpus(config).utterances}
    missing = [clip_id for clip_id in table.ids if clip_id not in paths]
    if missing:
        raise CacheError(
            f"{len(missing)} clips of the cache are not in the corpus any more, such as {missing[0]}. "
            "Run `myxtts prepare` again."
        )
    clips_by_start = np.argsort(table.frame_starts, kind="stable")
    return PythonFrames(table, config, [paths[clip_id] for clip_id in table.ids], clips_by_start)
