"""How losses of clips become the number that is minimised, and the numbers that are shown.

Every mean is one sum over one count: over all batches of an accumulated step and over all replicas.
"""

from __future__ import annotations

import tensorflow as tf

from myxtts.batch import Batch
from myxtts.models.xtts import Losses

DURATION_WEIGHT = 1.0


NUM_TERMS = 3
"""Flow, prior, duration."""
NUM_COUNTS = 2
"""Valid frames, valid blank-expanded symbols."""


def counts_of(batch: Batch) -> tf.Tensor:
    """What the sums are divided by (`NUM_COUNTS`,): known from the lengths before anything is computed."""
    symbols = tf.where(batch.text_lengths > 0, 2 * batch.text_lengths + 1, 0)
    return tf.cast(tf.stack([tf.reduce_sum(batch.mel_lengths), tf.reduce_sum(symbols)]), tf.float32)


def loss_terms(losses: Losses, counts: tf.Tensor) -> tf.Tensor:
    """What these clips contribute to the three means: float32 (`NUM_TERMS`,)."""
    frames, symbols = tf.unstack(tf.maximum(counts, 1.0))
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
