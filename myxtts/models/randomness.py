"""Random numbers that are a pure function of (seed, step, clip, position).

The plan, the packing and the number of replicas change where a clip lies, never the noise that it gets. Random rows are drawn
into a table in every step; a position reads row `hash(clip) + position`. Noise has a table for each use (`name`); dropout has
one for all, of which each use begins at another row: drawing is what costs. Nothing here has hidden state.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import tensorflow as tf

from myxtts.models.layout import RowLayout

TABLE_ROWS = 2048
"""More than the frames of a usual clip; two clips of a step may share rows at different offsets, which harms nothing."""
CLIP_STRIDE = 677
"""Odd, so that consecutive clips start at rows far apart and all rows are used."""


class ClipRandomness:
    """The random numbers of one step for the clips of one batch."""

    def __init__(self, seed: tf.Tensor | int, step: tf.Tensor | int, clips: tf.Tensor, drops: bool = True):
        """`seed` and `step` are integer scalars, `clips` int32 (rows, slots); without `drops` nothing is dropped or hidden."""
        self.drops = drops
        self._key = tf.stack([tf.cast(seed, tf.int32), tf.cast(step, tf.int32)])
        self._clips = clips
        self._rows_of: dict[RowLayout, tf.Tensor] = {}
        self._keep_tables: dict[tuple[int, float, tf.DType], tf.Tensor] = {}

    def _table_key(self, name: str) -> tf.Tensor:
        return tf.random.fold_in(self._key, zlib.crc32(name.encode()) & 0x7FFFFFFF, alg="philox")

    def _rows(self, layout: RowLayout, first_row: int = 0) -> tf.Tensor:
        if layout not in self._rows_of:
            self._rows_of[layout] = layout.spread_integers(self._clips * CLIP_STRIDE) + layout.positions
        return tf.math.floormod(self._rows_of[layout] + first_row, TABLE_ROWS)

    def _keep_table(self, channels: int, rate: float, dtype: tf.DType) -> tf.Tensor:
        """0 for a share of `rate`, else what keeps the mean."""
        kind = (channels, rate, dtype)
        if kind not in self._keep_tables:
            uniform = tf.random.stateless_uniform((TABLE_ROWS, channels), self._table_key("dropout"), alg="philox")
            self._keep_tables[kind] = tf.where(uniform >= rate, tf.constant(1 / (1 - rate), dtype), tf.zeros((), dtype))
        return self._keep_tables[kind]

    def normal(self, name: str, layout: RowLayout, channels: int) -> tf.Tensor:
        """Normal noise (rows, size, channels) for every position of every clip."""
        table = tf.random.stateless_normal((TABLE_ROWS, channels), self._table_key(name), alg="philox")
        return tf.gather(table, self._rows(layout))

    def uniform_per_clip(self, name: str) -> tf.Tensor:
        """Uniform numbers in [0, 1) for every slot: (rows, slots)."""
        table = tf.random.stateless_uniform((TABLE_ROWS,), self._table_key(name), alg="philox")
        return tf.gather(table, tf.math.floormod(self._clips * CLIP_STRIDE, TABLE_ROWS))

    def hides(self, name: str, share: float) -> tf.Tensor:
        """bool (rows, slots): true for a random share of the clips."""
        if not self.drops:
            return tf.zeros_like(self._clips, tf.bool)
        return self.uniform_per_clip(name) < share

    def dropout(self, name: str, layout: RowLayout, values: tf.Tensor, rate: float) -> tf.Tensor:
        """`values` (rows, size, channels) with a share of `rate` set to 0 and the rest scaled up."""
        if rate == 0 or not self.drops:
            return values
        keep = self._keep_table(values.shape[-1], rate, values.dtype)
        return values * tf.gather(keep, self._rows(layout, _first_row(name)))

    def dropout_per_clip(self, name: str, values: Sequence[tf.Tensor], rate: float) -> Sequence[tf.Tensor]:
        """Each of `values` (rows, slots, channels) with the same share of `rate` set to 0 and the rest scaled up."""
        if rate == 0 or not self.drops:
            return values
        keep = self._keep_table(values[0].shape[-1], rate, values[0].dtype)
        kept = tf.gather(keep, tf.math.floormod(self._clips * CLIP_STRIDE + _first_row(name), TABLE_ROWS))
        return [one * kept for one in values]


def _first_row(name: str) -> int:
    """Where a use of the table of dropout begins."""
    return zlib.crc32(name.encode()) % TABLE_ROWS


class NoRandomness:
    """Stands in where nothing is random: dropout passes everything. Asking it for noise is a defect."""

    def dropout(self, name: str, layout: RowLayout, values: tf.Tensor, rate: float) -> tf.Tensor:
        """`values` as they are."""
        del name, layout, rate
        return values

    def dropout_per_clip(self, name: str, values: Sequence[tf.Tensor], rate: float) -> Sequence[tf.Tensor]:
        """`values` as they are."""
        del name, rate
        return values
