"""Clips in the rows of a batch: where they are, as tensors (membership, masks, positions), and the random numbers of each.

A row holds one clip or several; the layers that use a `RowLayout` treat both alike.

Random numbers are a pure function of (seed, step, clip, position): the plan, the packing and the number of replicas change
where a clip is in a batch, never its noise. In every step, random rows are drawn into a table; a position reads row `clip *
CLIP_STRIDE + position`. Noise has one table per use (`name`). Dropout has one table for all uses, each of which starts at
another row, because drawing is what takes time. There is no hidden state.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
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


TABLE_ROWS = 2048
"""Rows of a table. Clips of a step share rows, at different offsets: of 32 clips of 119 frames, 84 % of the frames have the same
noise as a frame of another clip (1 - (1 - 119 / 2048)^31). Chosen for speed; the effect on training is not measured."""
CLIP_STRIDE = 677
"""Odd, so that every row is the first one of some clip, and large, so that consecutive clips start far apart."""


class ClipRandomness:
    """The random numbers of one step for the clips of one batch.

    Args:
        seed: integer scalar.
        step: integer scalar.
        clips: int32 (rows, slots), id of each clip.
        drops: False: nothing is dropped or hidden (validation); noise is drawn as usual.
    """

    def __init__(self, seed: tf.Tensor | int, step: tf.Tensor | int, clips: Any, drops: bool = True):
        self.drops = drops
        self._key = tf.stack([tf.cast(seed, tf.int32), tf.cast(step, tf.int32)])
        self._clips = clips
        self._rows_of: dict[RowLayout, tf.Tensor] = {}
        self._keep_tables: dict[tuple[int, float, tf.DType], tf.Tensor] = {}

    def _table_key(self, name: str) -> Any:
        return tf.random.fold_in(self._key, zlib.crc32(name.encode()) & 0x7FFFFFFF, alg="philox")

    def _rows(self, layout: RowLayout, first_row: int = 0) -> tf.Tensor:
        if layout not in self._rows_of:
            self._rows_of[layout] = layout.spread_integers(self._clips * CLIP_STRIDE) + layout.positions
        return tf.math.floormod(self._rows_of[layout] + first_row, TABLE_ROWS)

    def _keep_table(self, channels: int, rate: float, dtype: tf.DType) -> tf.Tensor:
        """(TABLE_ROWS, channels): 0 for a fraction `rate`, otherwise the factor that keeps the mean."""
        kind = (channels, rate, dtype)
        if kind not in self._keep_tables:
            uniform = tf.random.stateless_uniform((TABLE_ROWS, channels), self._table_key("dropout"), alg="philox")
            self._keep_tables[kind] = tf.where(uniform >= rate, tf.constant(1 / (1 - rate), dtype), tf.zeros((), dtype))
        return self._keep_tables[kind]

    def normal(self, name: str, layout: RowLayout, channels: int) -> tf.Tensor:
        """Standard normal noise (rows, size, channels) for every position of every clip."""
        table = tf.random.stateless_normal((TABLE_ROWS, channels), self._table_key(name), alg="philox")
        return tf.gather(table, self._rows(layout))

    def uniform_per_clip(self, name: str) -> tf.Tensor:
        """Uniform numbers in [0, 1) for every slot: (rows, slots)."""
        table = tf.random.stateless_uniform((TABLE_ROWS,), self._table_key(name), alg="philox")
        return tf.gather(table, tf.math.floormod(self._clips * CLIP_STRIDE, TABLE_ROWS))

    def hides(self, name: str, fraction: float) -> tf.Tensor:
        """bool (rows, slots): true for a random fraction of the clips."""
        if not self.drops:
            return tf.zeros_like(self._clips, tf.bool)
        return self.uniform_per_clip(name) < fraction

    def dropout(self, name: str, layout: RowLayout, values: Any, rate: float) -> tf.Tensor:
        """`values` (rows, size, channels) with a fraction `rate` set to 0 and the rest scaled up."""
        if rate == 0 or not self.drops:
            return values
        keep = self._keep_table(values.shape[-1], rate, values.dtype)
        return values * tf.gather(keep, self._rows(layout, _first_row(name)))

    def dropout_per_clip(self, name: str, values: Sequence[Any], rate: float) -> Sequence[Any]:
        """Each of `values` (rows, slots, channels) with the same fraction `rate` set to 0 and the rest scaled up."""
        if rate == 0 or not self.drops:
            return values
        keep = self._keep_table(values[0].shape[-1], rate, values[0].dtype)
        kept = tf.gather(keep, tf.math.floormod(self._clips * CLIP_STRIDE + _first_row(name), TABLE_ROWS))
        return [one * kept for one in values]


def _first_row(name: str) -> int:
    """First row of a use of the dropout table."""
    return zlib.crc32(name.encode()) % TABLE_ROWS


class NoRandomness:
    """For synthesis: dropout returns its values unchanged. It has no noise."""

    def dropout(self, name: str, layout: RowLayout, values: Any, rate: float) -> tf.Tensor:
        """`values` as they are."""
        del name, layout, rate
        return values

    def dropout_per_clip(self, name: str, values: Sequence[Any], rate: float) -> Sequence[Any]:
        """`values` as they are."""
        del name, rate
        return values
