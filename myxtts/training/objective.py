"""From the losses of clips to the number that is minimized. Every mean is one sum over one count.

The count is that of all batches of an accumulated step and of all replicas, so that neither changes what is minimized.
"""

from __future__ import annotations

import tensorflow as tf

from myxtts.batch import Batch
from myxtts.models.xtts import Losses

DURATION_WEIGHT = 1.0
"""As in Matcha-TTS, whose loss is the plain sum of its terms."""
NUM_TERMS = 4
"""Flow, prior, duration, speaker."""
NUM_COUNTS = 3
"""Valid frames, valid blank-expanded symbols, clips."""


def counts_of(batch: Batch) -> tf.Tensor:
    """The counts that sums are divided by, float32 (`NUM_COUNTS`,): known from the lengths before anything is computed."""
    symbols = tf.where(batch.text_lengths > 0, 2 * batch.text_lengths + 1, 0)
    clips = tf.math.count_nonzero(batch.mel_lengths, dtype=tf.int32)
    return tf.cast(tf.stack([tf.reduce_sum(batch.mel_lengths), tf.reduce_sum(symbols), clips]), tf.float32)


def loss_terms(losses: Losses, counts: tf.Tensor) -> tf.Tensor:
    """The part of these clips in the means, float32 (`NUM_TERMS`,)."""
    frames, symbols, clips = tf.unstack(tf.maximum(counts, 1.0))
    return tf.stack(
        [
            tf.reduce_sum(losses.flow) / frames,
            tf.reduce_sum(losses.prior) / frames,
            tf.reduce_sum(losses.duration) / symbols,
            tf.reduce_sum(losses.speaker) / clips,
        ]
    )


def total_loss(terms):
    """The number that is minimized, from the means: a tensor or an array (`NUM_TERMS`,)."""
    return terms[0] + terms[1] + DURATION_WEIGHT * terms[2] + terms[3]
