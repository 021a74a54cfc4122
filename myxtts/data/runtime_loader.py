"""Decoding while training (`preprocessing_mode: runtime`): recordings in, static batches out, by TensorFlow ops alone.

In: a `RecordingTable` and the rows of a plan of one clip a row (`fixed` or `dynamic`). Out: a `tf.data.Dataset` of `Batch`es.
Silence is cut and loudness levelled as `myxtts.audio.files` does it for the cache, so that a clip is the same either way.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from myxtts.audio.files import BLOCK_SECONDS, HIGHEST_PEAK, MARGIN_SECONDS, SPOKEN_DB
from myxtts.audio.mel_tf import mel_tensorflow
from myxtts.batch import NO_CLIP, Batch, BatchShape
from myxtts.config.config import DataConfig
from myxtts.data.order import mixed
from myxtts.data.recordings import RecordingTable
from myxtts.data.references import ReferenceChooser
from myxtts.data.runs import BatchRuns
from myxtts.data.tf_native_loader import LoaderOptions, TFNativeDataLoader, dataset_options, table_rows
from myxtts.errors import PlanError


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
