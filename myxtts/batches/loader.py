"""The loader: a batch is a gather. Everything in it is a TensorFlow op; Python only counts out which clips come next.

In: an opened cache and the runs of a plan's batches (`myxtts.batches.gather`). Out: a `tf.data.Dataset` of `Batch`es of one
static
shape. The table of all frames is one tensor, in memory or mapped from the cache's file; filling a batch is one gather of frames
and one of tokens, where padding is row 0. `TFNativeDataLoader` reads single recordings in a graph.
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
from myxtts.batches.gather import BatchRuns, ClipTable
from myxtts.config.config import DataConfig
from myxtts.errors import CacheError
from myxtts.runtime.machine import usable_cores

# MERGED: A file as a tensor without reading it: raw numbers on disk in, a tensor over mapped pages out.
#
# The pages are read-only and belong to the system's page cache: what is in use stays in memory, what is not is given up when
# memory
# is short. (TensorFlow's own ImmutableConst maps a file, too, but its first use evaluates it as a constant, which reads
# and copies the whole file.)


def mapped_table(path: Path, dtype: type, shape: tuple[int, ...]) -> tf.Tensor:
    """The beginning of a file as a tensor of this shape; what follows belongs to a `prepare` that runs or was interrupted.

    The file stays mapped as long as the tensor, or anything made with it, is alive.
    """
    expected_bytes = np.dtype(dtype).itemsize * math.prod(shape)
    received_bytes = _file_bytes(path)
    if received_bytes < expected_bytes:
        raise CacheError(
            f"{path} is damaged: it has {received_bytes} bytes, expected {expected_bytes}. Run `myxtts verify --fix`."
        )
    array = np.asarray(_MappedPages(path, dtype, shape, expected_bytes))
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
    """Gives an array over a read-only mapping, and keeps the mapping open as long as the array is alive."""

    def __init__(self, path: Path, dtype: type, shape: tuple[int, ...], num_bytes: int):
        with open(path, "rb") as file:
            self._pages = mmap.mmap(file.fileno(), num_bytes, access=mmap.ACCESS_READ)
        address = np.frombuffer(self._pages, np.uint8).ctypes.data
        # NumPy lends only arrays that it takes for writable. Nobody writes; whoever did would fault, not change the cache.
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "shape": shape,
            "typestr": np.dtype(dtype).str,
            "data": (address, False),
        }


BYTES_PER_MB = 1_000_000
FillFrames = Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]
"""From the frame runs and the reference runs of a batch (`BatchRuns`) to its mel and its references."""


@dataclass(frozen=True)
class Tables:
    """All frames and all tokens of a cache as two tensors; row 0 of each is padding."""

    frames: tf.Tensor
    """float32 (rows, n_mels)"""
    tokens: tf.Tensor
    """int32 (tokens,)"""
    is_in_memory: bool
    """False: mapped from the files; the system keeps in memory what is in use and gives it up when memory is short."""


def empty_tables(n_mels: int) -> Tables:
    """Tables of the padding row alone: a dataset over them has the same graph, and can be looked at without the corpus in it."""
    return Tables(tf.zeros((1, n_mels)), tf.zeros((1,), tf.int32), is_in_memory=True)


def open_tables(cache: ClipTable, cache_memory_mb: int) -> Tables:
    """The tables of a cache: read into memory up to the given size, mapped beyond it."""
    total_bytes = 4 * (cache.num_rows * cache.mel.n_mels + cache.num_tokens)
    is_in_memory = total_bytes <= cache_memory_mb * BYTES_PER_MB
    with tf.device("/CPU:0"):
        frames = mapped_table(cache.frames_path, np.float32, (cache.num_rows, cache.mel.n_mels))
        tokens = mapped_table(cache.tokens_path, np.int32, (cache.num_tokens,))
        if is_in_memory:
            # A copy: a mapped page may be given up, and read from the disk again in the middle of a step.
            frames, tokens = tf.raw_ops.DeepCopy(x=frames), tf.raw_ops.DeepCopy(x=tokens)
    return Tables(frames, tokens, is_in_memory)


@dataclass(frozen=True)
class LoaderOptions:
    """How batches are made ready, resolved from a `DataConfig`."""

    threads: int
    has_private_threads: bool
    device: str | None
    """The accelerator that batches are copied to; None: they stay on the host."""
    buffer_batches: int
    """Batches kept ready on the device (or the host); tf.data.AUTOTUNE lets tf.data decide."""

    @classmethod
    def from_config(cls, config: DataConfig, device: str | None = None) -> LoaderOptions:
        """`device`: where the batches are used; None is the first GPU, if there is one."""
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
    """Batches on the host, in the order of `runs`; their element_spec is the shape's signature if `is_static`.

    `fill_frames`: where mel and references come from, if not from the table of frames.
    """
    num_tokens = shape.tokens if is_static else -1
    fill_frames = _gathering(tables, shape, is_static) if fill_frames is None else fill_frames

    def filled(frame_runs, token_runs, reference_runs, *slots) -> Batch:
        mel, references = fill_frames(frame_runs, reference_runs)
        tokens = tf.gather(tables.tokens, table_rows(token_runs, (shape.rows, num_tokens)))
        return Batch(tokens, mel, *slots, references)

    dataset = tf.data.Dataset.from_tensor_slices(tuple(runs))
    dataset = dataset.map(filled, num_parallel_calls=options.threads, deterministic=True)
    return dataset.with_options(dataset_options(options))


def dataset_options(options: LoaderOptions) -> tf.data.Options:
    """Threads of the dataset's own, and no rewriting."""
    settings = tf.data.Options()
    # tf.data's rewrites gain nothing here, and write the captured tables into a graph: slow from 100 MB, fatal from 2 GB on.
    settings.experimental_optimization.apply_default_optimizations = False
    # Nothing is left to tune, and its thread now and then sleeps through its own end: dropping an iterator that had run for
    # 30 s took up to 13 s, at the change of a segment, with the device waiting.
    settings.autotune.enabled = False
    if options.has_private_threads:
        settings.threading.private_threadpool_size = options.threads
    return settings


def table_rows(runs: tf.Tensor, shape: tuple[int, int]) -> tf.Tensor:
    """The table row of each place of a batch, (rows, places); gaps, written as negative numbers, become row 0."""
    ranges = tf.raw_ops.RaggedRange(starts=runs[0], limits=runs[1], deltas=tf.ones((), runs.dtype))
    return tf.reshape(tf.maximum(ranges.rt_dense_values, 0), shape)


def _gathering(tables: Tables, shape: BatchShape, is_static: bool) -> FillFrames:
    """Mel and references by one gather each."""

    def fill_frames(frame_runs: tf.Tensor, reference_runs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        mel = tf.gather(tables.frames, table_rows(frame_runs, (shape.rows, shape.frames if is_static else -1)))
        if not shape.reference_frames:
            return mel, tf.zeros((shape.rows, shape.slots, 0, shape.n_mels))
        starts, lengths = reference_runs[0][..., None], reference_runs[1][..., None]
        steps = tf.range(shape.reference_frames, dtype=starts.dtype)
        return mel, tf.gather(tables.frames, starts + steps % lengths)

    return fill_frames


def made_ready(dataset: tf.data.Dataset, options: LoaderOptions) -> tf.data.Dataset:
    """The same batches, kept ready where they are used. This must be the last transformation."""
    if options.device is None:
        return dataset.prefetch(options.buffer_batches)
    return dataset.apply(tf.data.experimental.prefetch_to_device(options.device, options.buffer_batches))


class HostBatches:
    """Iterates a dataset of `Batch`es on the host.

    `iter(dataset)` does the same, but takes 140 µs a batch instead of 40, because it looks
    through the structure of every batch. Whoever reads counts: at the end comes an OutOfRangeError, not a StopIteration.
    """

    def __init__(self, dataset: tf.data.Dataset):
        self._dataset = dataset  # what it captures must live as long as the iterator
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
    """The device to copy to, or None where the batches are used on the host."""
    if device is None:
        return "/GPU:0" if tf.config.list_logical_devices("GPU") else None
    return None if tf.DeviceSpec.from_string(device).device_type in (None, "CPU") else device
