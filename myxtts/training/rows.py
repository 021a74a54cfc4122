"""A `Batch` from the four tensors that the promised step methods take."""

from __future__ import annotations

import tensorflow as tf

from myxtts.batch import Batch
from myxtts.errors import TrainingError


def batch_of_rows(text, mel, text_lengths, mel_lengths) -> Batch:
    """A batch of one clip a row from the four promised tensors; one language, no reference."""
    rows, n_mels = mel.shape[0], mel.shape[2]
    zeros = tf.zeros((rows, 1), tf.int32)
    return Batch(
        tokens=tf.cast(text, tf.int32),
        mel=tf.cast(mel, tf.float32),
        text_lengths=tf.cast(text_lengths, tf.int32)[:, tf.newaxis],
        mel_lengths=tf.cast(mel_lengths, tf.int32)[:, tf.newaxis],
        token_starts=zeros,
        frame_starts=zeros,
        clips=tf.range(rows)[:, tf.newaxis],
        speakers=zeros,
        languages=zeros,
        references=tf.zeros((rows, 1, 0, n_mels)),
    )


def split_rows(batch: Batch, parts: int) -> list[Batch]:
    """The batch in parts of equally many rows."""
    rows = batch.tokens.shape[0]
    if rows % parts:
        raise TrainingError(
            f"A batch of {rows} rows cannot be split into gradient_accumulation_steps={parts} equal parts. "
            f"Try {rows + parts - rows % parts} rows."
        )
    return [Batch(*fields) for fields in zip(*(tf.split(field, parts) for field in batch), strict=True)]
