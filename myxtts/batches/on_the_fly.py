"""Decoding while training (`preprocessing_mode: runtime`): recordings in, static batches out, by TensorFlow ops alone.

In: a `RecordingTable` and the rows of a plan of one clip a row (`fixed` or `dynamic`). Out: a `tf.data.Dataset` of `Batch`es.
Silence is cut and loudness levelled as `myxtts.audio.files` does it for the cache, so that a clip is the same either way.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf

from myxtts.audio.clips import BLOCK_SECONDS, HIGHEST_PEAK, MARGIN_SECONDS, SPOKEN_DB, load_clip
from myxtts.audio.mel import MelSpec, analysis_window, mel_filterbank, mel_numpy
from myxtts.batch import NO_CLIP, Batch, BatchShape
from myxtts.batches.gather import BatchRuns, ReferenceChooser
from myxtts.batches.loader import FillFrames, LoaderOptions, dataset_options, table_rows
from myxtts.batches.order import mixed
from myxtts.batches.recordings import RecordingTable
from myxtts.cache.corpus_state import read_source
from myxtts.cache.format import Cache
from myxtts.config.config import DataConfig
from myxtts.errors import CacheError, PlanError

# MERGED: The mel of `myxtts.audio.mel` in TensorFlow ops: in a graph, in tf.data, for samples of any (also unknown) length.
#
# In: float32 (..., samples). Out: float32 (..., frames, n_mels), with frames = 1 + samples // hop_length.


def mel_tensorflow(samples: tf.Tensor, spec: MelSpec) -> tf.Tensor:
    """Log-mel of one clip (samples,) or of several of the same length (..., samples); equals `mel_numpy`."""
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
    """Positions mirrored at both ends as often as needed: `tf.pad` refuses clips that are shorter than the padding."""
    last = num_samples - 1
    within_period = tf.math.floormod(positions, tf.maximum(2 * last, 1))
    return last - tf.abs(last - within_period)


def runtime_dataset(
    table: RecordingTable,
    shape: BatchShape,
    runs: BatchRuns,
    passes: np.ndarray,
    options: LoaderOptions,
    *,
    seed: int,
    references: ReferenceChooser | None = None,
    is_static: bool = True,
) -> tf.data.Dataset:
    """Batches of clips that are decoded now. `runs`: of rows of one clip; `passes`: (batches, rows)."""
    if shape.slots != 1:
        raise PlanError("Clips that are decoded while training cannot be packed. Use data.plan: fixed or dynamic.")
    clips, passes = runs.clips.reshape(-1), passes.reshape(-1)
    is_clip = clips != NO_CLIP
    known = np.where(is_clip, clips, 0).astype(np.int32)
    chosen = known if references is None else references.choose(known, passes).astype(np.int32)
    drawn = (mixed(seed, passes, known, 4) >> np.uint64(1)).astype(np.int64)
    paths, all_tokens = tf.constant(table.paths), tf.constant(table.tokens)
    native = TFNativeDataLoader(table.mel)

    def read(clip: tf.Tensor) -> tf.Tensor:
        samples = native.load_audio(tf.gather(paths, clip))
        return mel_tensorflow(cut_and_levelled(samples, table.mel.sample_rate, table.config), table.mel)

    def load(clip: tf.Tensor, reference_clip: tf.Tensor, number: tf.Tensor, exists: tf.Tensor):
        mel = tf.cond(exists, lambda: read(clip), lambda: tf.zeros((0, shape.n_mels)))
        reference = tf.zeros((shape.reference_frames, shape.n_mels))
        if shape.reference_frames:
            nothing = reference
            reference = tf.cond(
                exists, lambda: _piece(read(reference_clip), number, shape.reference_frames), lambda: nothing
            )
        return mel, tf.shape(mel)[0], reference

    def joined(decoded, token_runs, text_lengths, *slots) -> Batch:
        mel, mel_lengths, reference = decoded
        token_starts, frame_starts, clips, speakers, languages = slots
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
            references=reference[:, None],
        )

    decoded = tf.data.Dataset.from_tensor_slices((known, chosen, drawn, is_clip))
    decoded = decoded.map(load, num_parallel_calls=options.threads, deterministic=True)
    sizes = ((shape.frames if is_static else None, shape.n_mels), (), (shape.reference_frames, shape.n_mels))
    decoded = decoded.padded_batch(shape.rows, sizes, drop_remainder=True)
    slots = (runs.token_runs, runs.text_lengths, runs.token_starts, runs.frame_starts)
    slots = tf.data.Dataset.from_tensor_slices((*slots, runs.clips, runs.speakers, runs.languages))
    dataset = tf.data.Dataset.zip((decoded, slots)).map(lambda mel, slots: joined(mel, *slots))
    return dataset.with_options(dataset_options(options))


def cut_and_levelled(samples: tf.Tensor, sample_rate: int, config: DataConfig) -> tf.Tensor:
    """Samples (samples,) with silence cut and loudness levelled as configured; equals `load_clip`."""
    if config.trim_silence_db is not None:
        block, energies = _block_energies(samples, sample_rate)
        loud = tf.where(energies > tf.reduce_max(energies) * 10 ** (-config.trim_silence_db / 10))[:, 0]
        margin = int(MARGIN_SECONDS * sample_rate)
        first = tf.maximum(0, tf.cast(loud[0], tf.int32) * block - margin)
        samples = samples[first : (tf.cast(loud[-1], tf.int32) + 1) * block + margin]
    if config.loudness_db is not None:
        _, energies = _block_energies(samples, sample_rate)
        spoken = tf.boolean_mask(energies, energies >= tf.reduce_max(energies) * 10 ** (-SPOKEN_DB / 10))
        wanted = 10 ** (config.loudness_db / 20) / tf.sqrt(tf.reduce_mean(spoken))
        samples *= tf.minimum(wanted, HIGHEST_PEAK / tf.reduce_max(tf.abs(samples)))
    return samples


def _piece(mel: tf.Tensor, number: tf.Tensor, reference_frames: int) -> tf.Tensor:
    """A piece of a clip, at a place that the number decides; a short clip is repeated."""
    count = tf.shape(mel)[0]
    spare = tf.cast(tf.maximum(count - reference_frames, 0) + 1, tf.int64)
    steps = tf.range(reference_frames) % tf.minimum(count, reference_frames)
    return tf.gather(mel, tf.cast(number % spare, tf.int32) + steps)


def _block_energies(samples: tf.Tensor, sample_rate: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Samples of a block, and the mean square of each block; the last one may be short."""
    count = tf.shape(samples)[0]
    block = tf.clip_by_value(round(BLOCK_SECONDS * sample_rate), 1, tf.maximum(count, 1))
    blocks = -(-count // block)
    padded = tf.reshape(tf.pad(samples, [[0, blocks * block - count]]), (blocks, block))
    lengths = tf.minimum(block, count - tf.range(blocks) * block)
    return block, tf.reduce_sum(tf.square(padded), axis=1) / tf.cast(lengths, tf.float32)


# MERGED: The Python loader (`use_tf_native_loading: false`): every clip decoded by Python whenever it is needed, through
# numpy_function.
#
# In: a prepared cache, for its lengths and tokens, and the recordings themselves. Out: the same batches as from the cache,
# slowly:
# the interpreter decodes one clip at a time and nothing is kept. It is the baseline of the benchmarks, and it says so (`NOTICE`).

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
