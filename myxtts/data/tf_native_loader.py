"""The loader: a batch is a gather. Everything in it is a TensorFlow op; Python only counts out which clips come next.

In: an opened cache and the runs of a plan's batches (`myxtts.data.runs`). Out: a `tf.data.Dataset` of `Batch`es of one static
shape. The table of all frames is one tensor, in memory or mapped from the cache's file; filling a batch is one gather of frames
and one of tokens, where padding is row 0. `TFNativeDataLoader` reads single recordings in a graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import tensorflow as tf

from myxtts.audio.mel import MelSpec
from myxtts.audio.mel_tf import mel_tensorflow
from myxtts.batch import Batch, BatchShape
from myxtts.config.config import DataConfig
from myxtts.data.mapped_table import mapped_table
from myxtts.data.runs import BatchRuns, ClipTable
from myxtts.runtime.device import usable_cores

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


class TFNativeDataLoader:
    """Reads recordings with TensorFlow ops alone, for use inside tf.data: 16-bit WAV at the mel's own sample rate."""

    def __init__(self, mel: MelSpec):
        self.mel = mel

    def load_and_process_audio(
        self, audio_path: tf.Tensor, max_length: int | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """One recording: samples float32 (samples,) and log-mel (frames, n_mels), both of their true length.

        `max_length`: the most frames that are allowed. A longer clip is an error (`InvalidArgumentError`), never cut: its text
        would no longer belong to it.
        """
        audio = self.load_audio(audio_path)
        mel = mel_tensorflow(audio, self.mel)
        if max_length is not None:
            check_length = tf.debugging.assert_less_equal(
                tf.shape(mel)[0], max_length, message=f"The recording has more than {max_length} frames; leave it out."
            )
            with tf.control_dependencies([check_length] if check_length is not None else []):
                mel = tf.identity(mel)
        return audio, mel

    def load_audio(self, audio_path: tf.Tensor) -> tf.Tensor:
        """Samples of one recording, float32 (samples,), the mean of its channels."""
        channels, sample_rate = tf.audio.decode_wav(tf.io.read_file(audio_path))
        check_rate = tf.debugging.assert_equal(
            sample_rate,
            self.mel.sample_rate,
            message=f"The recording is not at {self.mel.sample_rate} Hz; use preprocessing_mode: precompute.",
        )
        with tf.control_dependencies([check_rate] if check_rate is not None else []):
            return tf.reduce_mean(channels, axis=1)


def _accelerator(device: str | None) -> str | None:
    """The device to copy to, or None where the batches are used on the host."""
    if device is None:
        return "/GPU:0" if tf.config.list_logical_devices("GPU") else None
    return None if tf.DeviceSpec.from_string(device).device_type in (None, "CPU") else device
