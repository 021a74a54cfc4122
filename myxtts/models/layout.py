"""Where clips are in the rows of a batch, as tensors: membership, masks and positions.

A row holds one clip or several; the layers that use a `RowLayout` treat both alike.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class RowLayout:
    """Membership of positions in clips, for rows of a static size.

    Args:
        starts: int32 (rows, slots), first position of each clip in its row.
        lengths: int32 (rows, slots), positions of each clip, 0 for an empty slot.
        size: positions of a row.
    """

    def __init__(self, starts: Any, lengths: Any, size: int):
        index = tf.range(size)[tf.newaxis, :, tf.newaxis]
        offsets = index - starts[:, tf.newaxis, :]
        is_member = (offsets >= 0) & (offsets < lengths[:, tf.newaxis, :])
        self.size = size
        self.starts = starts
        self.lengths = lengths
        self.membership = tf.cast(is_member, tf.float32)
        """(rows, size, slots): 1 where the position belongs to the slot's clip."""
        self.mask: Any = tf.reduce_sum(self.membership, axis=-1, keepdims=True)
        """(rows, size, 1): 1 on clips, 0 on gaps and padding."""
        slots = tf.range(1, starts.shape[1] + 1)
        self.slots = tf.reduce_sum(tf.where(is_member, slots, 0), axis=-1) - 1
        """int32 (rows, size): which of the row's clips the position belongs to, -1 for none."""
        self.positions = tf.reduce_sum(tf.where(is_member, offsets, 0), axis=-1)
        """int32 (rows, size): index within the clip."""

    def spread(self, values: Any) -> tf.Tensor:
        """(rows, slots, channels) → (rows, size, channels): each clip's vector at each of its positions, 0 elsewhere."""
        if values.shape[1] == 1:  # one clip per row: a product with the mask, no matrix product
            return values * tf.cast(self.mask, values.dtype)
        return tf.matmul(tf.cast(self.membership, values.dtype), values)

    def spread_integers(self, values: Any) -> tf.Tensor:
        """int32 (rows, slots) → (rows, size), 0 outside clips."""
        return tf.reduce_sum(tf.cast(self.membership, tf.int32) * values[:, tf.newaxis, :], axis=-1)

    def per_clip_sum(self, values: tf.Tensor) -> tf.Tensor:
        """float32 (rows, size) → (rows, slots): sums over the positions of each clip."""
        return tf.linalg.matvec(self.membership, values, transpose_a=True)

    def same_clip(self, other: RowLayout) -> tf.Tensor:
        """bool (rows, size, other size): whether both positions belong to the same clip."""
        others = tf.where(other.slots < 0, -2, other.slots)  # two positions outside clips do not share one
        return self.slots[:, :, tf.newaxis] == others[:, tf.newaxis, :]


def expand_with_blanks(tokens: Any, starts: Any, lengths: Any, blank: int) -> tuple[tf.Tensor, RowLayout]:
    """Insert a blank before every symbol and after the last.

    A clip of n symbols at s becomes 2n + 1 symbols at 2s; a gap of g ≥ 1 symbols becomes one of 2g - 1.

    Args:
        tokens: int32 (rows, T).
        starts: int32 (rows, slots), first symbol of each clip.
        lengths: int32 (rows, slots), symbols of each clip.
        blank: the token to insert.

    Returns:
        The tokens int32 (rows, 2T + 1), 0 outside clips, and their layout.
    """
    size = 2 * tokens.shape[1] + 1
    layout = RowLayout(2 * starts, tf.where(lengths > 0, 2 * lengths + 1, 0), size)
    pairs = tf.stack([tf.fill(tf.shape(tokens), blank), tokens], axis=-1)
    flat = tf.reshape(pairs, (-1, size - 1))
    flat = tf.pad(flat, [[0, 0], [0, 1]], constant_values=blank)
    return flat * tf.cast(layout.mask[..., 0], tokens.dtype), layout
