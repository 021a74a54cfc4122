"""Loading without the cache: recordings to static batches while training, by TensorFlow ops or by Python.

`preprocessing_mode: runtime` decodes by TensorFlow ops alone. Silence is trimmed and loudness leveled as `myxtts.audio.clips`
does for the cache, and the mel is that of `myxtts.audio.mel`: a clip is the same in both modes. Plans have one clip per row
(`fixed` or `dynamic`). `TFNativeDataLoader` reads single recordings.

`use_tf_native_loading: false` decodes by Python through numpy_function. It gives the same batches as the cache, slowly: the
interpreter decodes one clip at a time and nothing is kept. It is the baseline of the benchmarks; the trainer prints `NOTICE`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.audio.clips import (
    BLOCK_SECONDS,
    HIGHEST_PEAK,
    MARGIN_SECONDS,
    NOISE_PERCENTILE,
    NOISY_MARGIN_SECONDS,
    SMOOTHED_BLOCKS,
    SPOKEN_DB,
    SURELY_SPEECH_DB,
    load_clip,
)
from myxtts.audio.mel import MelSpec, analysis_window, mel_filterbank, mel_numpy
from myxtts.batch import NO_CLIP, Batch, BatchShape
from myxtts.batches.gather import BatchRuns, ReferenceChooser
from myxtts.batches.loader import FillFrames, LoaderOptions, dataset_options, table_rows
from myxtts.batches.order import random_bits
from myxtts.cache.clip_table import ClipTable
from myxtts.cache.recordings import RecordingTable
from myxtts.config.config import DataConfig
from myxtts.corpus.corpus import read_corpus
from myxtts.errors import CacheError, PlanError


def decoded_dataset(
    table: RecordingTable,
    shape: BatchShape,
    runs: BatchRuns,
    epochs: np.ndarray,
    options: LoaderOptions,
    *,
    seed: int,
    references: ReferenceChooser | None = None,
    is_static: bool = True,
) -> tf.data.Dataset:
    """Batches of clips that are decoded when they are needed.

    Args:
        table: the recordings.
        shape: of the batches, one slot per row.
        runs: what they hold.
        epochs: (batches, rows), epoch of each row.
        options: threads.
        seed: of the pieces that are references.
        references: chooses the references, if the shape has them.
        is_static: False: each batch is as wide as its longest clip.
    """
    if shape.has_pitch:
        raise PlanError(
            "model.pitch needs prepared clips. Received: data.preprocessing_mode: runtime, which decodes them during training. "
            "Use preprocessing_mode: precompute."
        )
    if shape.slots != 1:
        raise PlanError("Clips that are decoded during training cannot be packed. Use data.plan: fixed or dynamic.")
    clips, epochs = runs.clips.reshape(-1), epochs.reshape(-1)
    is_clip = clips != NO_CLIP
    known = np.where(is_clip, clips, 0).astype(np.int32)
    chosen = known if references is None else references.choose(known, epochs).astype(np.int32)
    drawn = (random_bits(seed, epochs, known, 4) >> np.uint64(1)).astype(np.int64)
    paths, all_tokens = tf.constant(table.paths), tf.constant(table.tokens)
    native = TFNativeDataLoader(table.mel)

    def read(clip: tf.Tensor) -> tf.Tensor:
        samples = native.load_audio(tf.gather(paths, clip))
        return mel_tensorflow(trimmed_and_leveled(samples, table.mel.sample_rate, table.config), table.mel)

    def load(clip: tf.Tensor, reference_clip: tf.Tensor, bits: tf.Tensor, exists: tf.Tensor):
        mel = tf.cond(exists, lambda: read(clip), lambda: tf.zeros((0, shape.n_mels)))
        reference = tf.zeros((shape.reference_frames, shape.n_mels))
        if shape.reference_frames:
            nothing = reference
            reference = tf.cond(
                exists, lambda: _piece(read(reference_clip), bits, shape.reference_frames), lambda: nothing
            )
        return mel, tf.shape(mel)[0], reference

    def joined(decoded, token_runs, text_lengths, *slots) -> Batch:
        mel, mel_lengths, reference = decoded
        token_starts, frame_starts, clips, speakers, languages, bands, noise = slots
        return Batch(
            tokens=tf.gather(all_tokens, table_rows(token_runs, (shape.rows, shape.tokens if is_static else -1))),
            mel=mel,
            text_lengths=text_lengths,
            mel_lengths=mel_lengths[:, None],
            token_starts=token_starts,
            frame_starts=frame_starts,
            clips=clips,
            speakers=speakers,
            languages=languages,
            bands=bands,
            noise=noise,
            references=reference[:, None],
            pitch=tf.zeros((shape.rows, 0)),
        )

    decoded = tf.data.Dataset.from_tensor_slices((known, chosen, drawn, is_clip))
    decoded = decoded.map(load, num_parallel_calls=options.threads, deterministic=True)
    sizes: Any = ((shape.frames if is_static else None, shape.n_mels), (), (shape.reference_frames, shape.n_mels))
    decoded = decoded.padded_batch(shape.rows, sizes, drop_remainder=True)
    slots = (runs.token_runs, runs.text_lengths, runs.token_starts, runs.frame_starts)
    slots = tf.data.Dataset.from_tensor_slices(
        (*slots, runs.clips, runs.speakers, runs.languages, runs.bands, runs.noise)
    )
    dataset = tf.data.Dataset.zip((decoded, slots)).map(lambda mel, slots: joined(mel, *slots))
    return dataset.with_options(dataset_options(options))


class TFNativeDataLoader:
    """Reads recordings with TensorFlow ops alone, for use inside tf.data.

    Args:
        mel: definition of the mel; recordings must be 16-bit WAV at its sample rate.
    """

    def __init__(self, mel: MelSpec):
        self.mel = mel

    def load_and_process_audio(
        self, audio_path: tf.Tensor, max_length: int | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Samples float32 (samples,) and log-mel (frames, n_mels) of one recording, both of their true length.

        Args:
            audio_path: string scalar.
            max_length: most frames allowed. A longer clip raises `InvalidArgumentError`; it is never cut, because its text
                would no longer match.
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
        """Samples of one recording, float32 (samples,): the mean of its channels."""
        channels, sample_rate = tf.audio.decode_wav(tf.io.read_file(audio_path))
        check_rate = tf.debugging.assert_equal(
            sample_rate,
            self.mel.sample_rate,
            message=f"The recording is not at {self.mel.sample_rate} Hz; use preprocessing_mode: precompute.",
        )
        with tf.control_dependencies([check_rate] if check_rate is not None else []):
            return tf.reduce_mean(channels, axis=1)


def mel_tensorflow(samples: Any, spec: MelSpec) -> tf.Tensor:
    """Log-mel (..., frames, n_mels) of samples (..., samples) of any, also unknown, length; equals `audio.mel.mel_numpy`."""
    samples = tf.convert_to_tensor(samples, tf.float32)
    num_samples = tf.shape(samples)[-1] if samples.shape[-1] is None else samples.shape[-1]
    left = spec.n_fft // 2
    positions = tf.range(-left, num_samples + spec.n_fft - left)
    padded = tf.gather(samples, _reflect(positions, num_samples), axis=-1)
    frames = tf.signal.frame(padded, spec.n_fft, spec.hop_length)
    frames = frames[..., : 1 + num_samples // spec.hop_length, :]
    magnitude = tf.abs(tf.signal.rfft(frames * analysis_window(spec)))
    mel = tf.math.log(tf.maximum(tf.matmul(magnitude, mel_filterbank(spec)), spec.log_floor))
    return tf.ensure_shape(mel, [*samples.shape[:-1], mel.shape[-2], spec.n_mels])


def _reflect(positions: tf.Tensor, num_samples: tf.Tensor | int) -> tf.Tensor:
    """Positions reflected at both ends as often as needed: `tf.pad` refuses clips that are shorter than the padding."""
    last = num_samples - 1
    within_period = tf.math.floormod(positions, tf.maximum(2 * last, 1))
    return last - tf.abs(last - within_period)


def trimmed_and_leveled(samples: Any, sample_rate: int, config: DataConfig) -> tf.Tensor:
    """Samples (samples,) with silence trimmed and loudness leveled as configured; equals `myxtts.audio.clips.load_clip`."""
    if config.trim_silence_db is not None:
        block, energies = _block_energies(samples, sample_rate)
        loudest = tf.reduce_max(energies)
        threshold, margin_seconds = loudest * 10 ** (-config.trim_silence_db / 10), MARGIN_SECONDS
        if config.trim_noise_db is not None:
            kernel = tf.ones((SMOOTHED_BLOCKS, 1, 1), energies.dtype) / SMOOTHED_BLOCKS
            smoothed = tf.nn.conv1d(energies[tf.newaxis, :, tf.newaxis], kernel, 1, "SAME")[0, :, 0]
            noise = tf.sort(smoothed)[tf.shape(smoothed)[0] * NOISE_PERCENTILE // 100]
            of_noise = tf.minimum(noise * 10 ** (config.trim_noise_db / 10), loudest * 10 ** (-SURELY_SPEECH_DB / 10))
            has_enough = tf.shape(energies)[0] >= SMOOTHED_BLOCKS
            threshold = tf.where(has_enough, tf.maximum(threshold, of_noise), threshold)
            energies = tf.where(has_enough, smoothed, energies)
            margin_seconds = NOISY_MARGIN_SECONDS
        loud = tf.where(energies > threshold)[:, 0]
        margin = int(margin_seconds * sample_rate)
        first = tf.maximum(0, tf.cast(loud[0], tf.int32) * block - margin)
        samples = samples[first : (tf.cast(loud[-1], tf.int32) + 1) * block + margin]
    if config.loudness_db is not None:
        _, energies = _block_energies(samples, sample_rate)
        spoken = tf.boolean_mask(energies, energies >= tf.reduce_max(energies) * 10 ** (-SPOKEN_DB / 10))
        wanted = 10 ** (config.loudness_db / 20) / tf.sqrt(tf.reduce_mean(spoken))
        samples *= tf.minimum(wanted, HIGHEST_PEAK / tf.reduce_max(tf.abs(samples)))
    return samples


def _piece(mel: Any, bits: Any, reference_frames: int) -> tf.Tensor:
    """A piece of a clip, (reference_frames, n_mels), at an offset from random bits; a short clip is repeated."""
    count = tf.shape(mel)[0]
    spare = tf.cast(tf.maximum(count - reference_frames, 0) + 1, tf.int64)
    steps = tf.range(reference_frames) % tf.minimum(count, reference_frames)
    return tf.gather(mel, tf.cast(bits % spare, tf.int32) + steps)


def _block_energies(samples: Any, sample_rate: int) -> tuple[Any, Any]:
    """Samples per block, and the mean square of each block; the last one may be short."""
    count: Any = tf.shape(samples)[0]
    block: Any = tf.clip_by_value(tf.constant(round(BLOCK_SECONDS * sample_rate)), 1, tf.maximum(count, 1))
    blocks = -(-count // block)
    padded = tf.reshape(tf.pad(samples, [[0, blocks * block - count]]), (blocks, block))
    lengths = tf.minimum(block, count - tf.range(blocks) * block)
    return block, tf.reduce_sum(tf.square(padded), axis=1) / tf.cast(lengths, tf.float32)


NOTICE = (
    "Python loading (data.use_tf_native_loading: false): clips are decoded one at a time through tf.numpy_function. "
    "This is slow; leave the setting out to read the prepared cache."
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
                f"{self.paths[clip]} has {len(mel)} frames; expected {self.table.frame_counts[clip]}: the recording was changed. "
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
