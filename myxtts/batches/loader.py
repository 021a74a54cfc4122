"""The loader: fills batches by gathering frames and tokens from the tables of a cache.

The table of all frames is one tensor, in memory or mapped from the cache's file. Filling a batch is one gather of frames and one
of tokens, where padding is row 0. All of it is TensorFlow ops inside a `tf.data.Dataset` of batches of one static shape; Python
only computes which clips come next (`myxtts.batches.gather`).
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.batch import Batch, BatchShape
from myxtts.batches.gather import BatchRuns
from myxtts.cache.clip_table import PreparedTable
from myxtts.config.config import DataConfig
from myxtts.errors import CacheError
from myxtts.runtime.machine import usable_cores

BYTES_PER_MB = 1_000_000
FillFrames = Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]
"""Turns the frame runs and the reference runs of a batch (`BatchRuns`) into its mel and its references."""


@dataclass(frozen=True)
class Tables:
    """All frames and all tokens of a cache as two tensors; row 0 of each is padding."""

    frames: tf.Tensor
    """float32 (rows, n_mels)"""
    tokens: tf.Tensor
    """int32 (tokens,)"""
    pitches: tf.Tensor
    """float32 (rows,): Hz of each row of the frames, 0 where it is unvoiced; (1,) where it is not loaded."""


def empty_tables(n_mels: int) -> Tables:
    """Tables of the padding row alone: a dataset over them has the same graph, without the corpus in it."""
    return Tables(tf.zeros((1, n_mels)), tf.zeros((1,), tf.int32), tf.zeros((1,)))


def fits_in_memory(table: PreparedTable, cache_memory_mb: int) -> bool:
    """Whether frames and tokens take no more than the given size."""
    return 4 * (table.num_rows * table.mel.n_mels + table.num_tokens) <= cache_memory_mb * BYTES_PER_MB


def open_tables(table: PreparedTable, cache_memory_mb: int, has_pitch: bool = False) -> Tables:
    """The tables of a cache: read into memory up to the given size, mapped beyond it; the pitch is always in memory.

    Of a mapped table, the system keeps pages in memory while they are in use and there is room.
    """
    with tf.device("/CPU:0"):
        frames = mapped_table(table.frames_path, np.float32, (table.num_rows, table.mel.n_mels))
        tokens = mapped_table(table.tokens_path, np.int32, (table.num_tokens,))
        if fits_in_memory(table, cache_memory_mb):
            # A copy: the system may drop a mapped page, and read it from the disk again in the middle of a step.
            frames, tokens = tf.raw_ops.DeepCopy(x=frames), tf.raw_ops.DeepCopy(x=tokens)
        pitches = tf.constant(table.pitches_of_frames()) if has_pitch else tf.zeros((1,))
    return Tables(frames, tokens, pitches)


@dataclass(frozen=True)
class LoaderOptions:
    """Threads and prefetching of the loader, resolved from a `DataConfig`."""

    threads: int
    has_private_threads: bool
    device: str | None
    """The accelerator that batches are copied to; None: they stay on the host."""
    buffer_batches: int
    """Batches prefetched on the device (or the host); tf.data.AUTOTUNE lets tf.data decide."""

    @classmethod
    def from_config(cls, config: DataConfig, device: str | None = None) -> LoaderOptions:
        """The options for batches that are used on `device`; None: on the first GPU, if there is one."""
        threads = usable_cores() if config.num_workers == "auto" else config.num_workers
        if not config.prefetch_to_gpu:
            size = tf.data.AUTOTUNE if config.prefetch_buffer_size == "auto" else config.prefetch_buffer_size
            return cls(threads, config.optimize_cpu_gpu_overlap, None, size)
        size = 1
        if config.enhanced_gpu_prefetch:
            size = 2 if config.prefetch_buffer_size == "auto" else config.prefetch_buffer_size
        return cls(threads, config.optimize_cpu_gpu_overlap, _accelerator(device), size)


def batch_dataset(
    tables: Tables,
    shape: BatchShape,
    runs: BatchRuns,
    options: LoaderOptions,
    *,
    is_static: bool = True,
    fill_frames: FillFrames | None = None,
) -> tf.data.Dataset:
    """Batches on the host, in the order of `runs`.

    Args:
        tables: frames and tokens of the corpus.
        shape: of the batches.
        runs: what they hold.
        options: threads.
        is_static: the element_spec is the shape's signature. False: each batch is as wide as its longest clip.
        fill_frames: source of mel and references, if not the table of frames.
    """
    num_tokens = shape.tokens if is_static else -1
    fill_frames = _gathering(tables, shape, is_static) if fill_frames is None else fill_frames

    def filled(frame_runs, token_runs, reference_runs, *slots) -> Batch:
        mel, references = fill_frames(frame_runs, reference_runs)
        tokens = tf.gather(tables.tokens, table_rows(token_runs, (shape.rows, num_tokens)))
        pitch = tf.zeros((shape.rows, 0))
        if shape.has_pitch:
            num_frames = shape.frames if is_static else -1
            pitch = tf.gather(tables.pitches, table_rows(frame_runs, (shape.rows, num_frames)))
        return Batch._make((tokens, mel, *slots, references, pitch))

    dataset = tf.data.Dataset.from_tensor_slices(tuple(runs))
    dataset = dataset.map(filled, num_parallel_calls=options.threads, deterministic=True)
    return dataset.with_options(dataset_options(options))


def dataset_options(options: LoaderOptions) -> tf.data.Options:
    """Private threads, no graph rewriting, no autotuning."""
    settings: Any = tf.data.Options()
    # tf.data's rewrites gain nothing here, and write the captured tables into a graph: slow from 100 MB, fatal from 2 GB on.
    settings.experimental_optimization.apply_default_optimizations = False
    # Nothing is left to tune, and the tuning thread sometimes ends late: dropping an iterator that had run for 30 s took up to
    # 13 s, at the change of a segment, while the device waited.
    settings.autotune.enabled = False
    if options.has_private_threads:
        settings.threading.private_threadpool_size = options.threads
    return settings


def table_rows(runs: Any, shape: tuple[int, int]) -> tf.Tensor:
    """The table row of each position of a batch, (rows, positions); gaps, which are negative indices, become row 0."""
    ranges = tf.raw_ops.RaggedRange(starts=runs[0], limits=runs[1], deltas=tf.ones((), runs.dtype))
    return tf.reshape(tf.maximum(ranges.rt_dense_values, 0), shape)


def _gathering(tables: Tables, shape: BatchShape, is_static: bool) -> FillFrames:
    """Mel and references by one gather each."""

    def fill_frames(frame_runs: Any, reference_runs: Any) -> tuple[tf.Tensor, tf.Tensor]:
        mel = tf.gather(tables.frames, table_rows(frame_runs, (shape.rows, shape.frames if is_static else -1)))
        if not shape.reference_frames:
            return mel, tf.zeros((shape.rows, shape.slots, 0, shape.n_mels))
        starts, lengths = reference_runs[0][..., None], reference_runs[1][..., None]
        steps = tf.range(shape.reference_frames, dtype=starts.dtype)
        return mel, tf.gather(tables.frames, starts + steps % lengths)

    return fill_frames


def prefetched(dataset: tf.data.Dataset, options: LoaderOptions) -> tf.data.Dataset:
    """The same batches, prefetched to where they are used. This must be the last transformation."""
    if options.device is None:
        return dataset.prefetch(options.buffer_batches)
    return dataset.apply(tf.data.experimental.prefetch_to_device(options.device, options.buffer_batches))


class HostBatches:
    """Iterates over a dataset of `Batch`es on the host.

    `iter(dataset)` gives the same, but takes 140 µs per batch instead of 40, because it inspects the structure of every batch.
    Callers must count batches: the end raises OutOfRangeError, not StopIteration.
    """

    def __init__(self, dataset: tf.data.Dataset):
        self._dataset = dataset  # keeps the captured tables alive as long as the iterator
        specs = tf.nest.flatten(dataset.element_spec)
        self._output = {
            "output_types": [one.dtype for one in specs],
            "output_shapes": [tuple(one.shape) for one in specs],
        }
        with tf.device("/CPU:0"):
            self._iterator = tf.raw_ops.AnonymousIteratorV3(**self._output)
            tf.raw_ops.MakeIterator(dataset=tf.data.experimental.to_variant(dataset), iterator=self._iterator)

    def __iter__(self) -> HostBatches:
        return self

    def __next__(self) -> Batch:
        return Batch(*tf.raw_ops.IteratorGetNext(iterator=self._iterator, **self._output))


def part_of_shape(shape: BatchShape, parts: int) -> BatchShape:
    """The shape of one replica's rows."""
    return replace(shape, rows=shape.rows // parts)


def _accelerator(device: str | None) -> str | None:
    """The device to copy to, or None if the batches are used on the host."""
    if device is None:
        return "/GPU:0" if tf.config.list_logical_devices("GPU") else None
    return None if tf.DeviceSpec.from_string(device).device_type in (None, "CPU") else device


def mapped_table(path: Path, dtype: type, shape: tuple[int, ...]) -> tf.Tensor:
    """The beginning of a file as a tensor of this shape over mapped pages, without reading it.

    Bytes beyond the shape belong to a `prepare` that is running or was interrupted. The pages are read-only and belong to the
    system's page cache. The file stays mapped as long as the tensor, or anything made with it, is alive. (TensorFlow's own
    ImmutableConst also maps a file, but evaluates it as a constant at its first use, which reads and copies the whole file.)
    """
    expected_bytes = np.dtype(dtype).itemsize * math.prod(shape)
    received_bytes = _file_bytes(path)
    if received_bytes < expected_bytes:
        raise CacheError(
            f"{path} is damaged: it has {received_bytes} bytes, expected {expected_bytes}. Run `myxtts verify --fix`."
        )
    with open(path, "rb") as file:
        pages = mmap.mmap(file.fileno(), expected_bytes, access=mmap.ACCESS_READ)
    array = np.asarray(_MappedPages(pages, dtype, shape))
    return tf.experimental.dlpack.from_dlpack(array.__dlpack__())


def _file_bytes(path: Path) -> int:
    """The size of one of the cache's files."""
    try:
        return path.stat().st_size
    except OSError as error:
        raise CacheError(
            f"The cache's file {path} cannot be read ({error.strerror}). Run `myxtts prepare` again."
        ) from None


class _MappedPages:
    """Array interface of a read-only mapping, which stays open as long as the array is alive."""

    def __init__(self, pages: mmap.mmap, dtype: type, shape: tuple[int, ...]):
        self._pages = pages
        address = np.frombuffer(pages, np.uint8).ctypes.data
        # NumPy exports only arrays that are marked as writable. Nothing writes; a write would fault, not change the cache.
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "shape": shape,
            "typestr": np.dtype(dtype).str,
            "data": (address, False),
        }
