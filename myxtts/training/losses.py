"""How losses of clips become the number that is minimised, and the numbers that are shown.

Every mean is one sum over one count: over all batches of an accumulated step and over all replicas.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from myxtts.batch import Batch
from myxtts.models.xtts import Losses

DURATION_WEIGHT = 1.0


class Counts(NamedTuple):
    """What the sums are divided by."""

    frames: tf.Tensor
    symbols: tf.Tensor


def counts_of(batch: Batch) -> Counts:
    """Valid frames and blank-expanded symbols, known from the lengths before anything is computed."""
    symbols = tf.where(batch.text_lengths > 0, 2 * batch.text_lengths + 1, 0)
    return Counts(
        frames=tf.cast(tf.reduce_sum(batch.mel_lengths), tf.float32),
        symbols=tf.cast(tf.reduce_sum(symbols), tf.float32),
    )


def loss_terms(losses: Losses, counts: Counts) -> tf.Tensor:
    """The three means (flow, prior, duration) that these clips contribute: float32 (3,)."""
    frames, symbols = tf.maximum(counts.frames, 1.0), tf.maximum(counts.symbols, 1.0)
    return tf.stack(
        [
            tf.reduce_sum(losses.flow) / frames,
            tf.reduce_sum(losses.prior) / frames,
            tf.reduce_sum(losses.duration) / symbols,
        ]
    )


def total_loss(terms: tf.Tensor) -> tf.Tensor:
    """The number that is minimised."""
    return terms[0] + terms[1] + DURATION_WEIGHT * terms[2]
