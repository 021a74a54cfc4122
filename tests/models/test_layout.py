"""Where clips are in rows: masks, positions and sums against plain NumPy."""

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.models.layout import RowLayout, expand_with_blanks

BLANK = 1


@st.composite
def rows_of_clips(draw):
    """Starts and lengths (rows, 3) of clips with gaps of at least one position, and the size of a row."""
    rows = draw(st.lists(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 3)), max_size=3), min_size=1, max_size=3))
    starts, lengths = np.zeros((len(rows), 3), np.int32), np.zeros((len(rows), 3), np.int32)
    for row, clips in enumerate(rows):
        position = 0
        for slot, (length, gap) in enumerate(clips):
            starts[row, slot], lengths[row, slot] = position, length
            position += length + gap
    return starts, lengths, 26


@settings(deadline=None, max_examples=40)
@given(rows_of_clips())
def test_a_layout_is_that_of_its_clips(drawn):
    starts, lengths, size = drawn
    slots, positions = np.full((len(starts), size), -1), np.zeros((len(starts), size), int)
    for row, slot in zip(*np.nonzero(lengths), strict=True):
        inside = slice(starts[row, slot], starts[row, slot] + lengths[row, slot])
        slots[row, inside], positions[row, inside] = slot, np.arange(lengths[row, slot])
    layout = RowLayout(tf.constant(starts), tf.constant(lengths), size)
    assert np.array_equal(layout.slots, slots)
    assert np.array_equal(layout.positions, positions)
    assert np.array_equal(layout.mask.numpy()[..., 0], slots >= 0)
    same = (slots[:, :, None] == slots[:, None, :]) & (slots >= 0)[:, :, None]
    assert np.array_equal(layout.same_clip(layout), same)
    vectors = np.random.default_rng(0).normal(size=(*starts.shape, 4)).astype(np.float32)
    expected = np.where((slots >= 0)[..., None], vectors[np.arange(len(starts))[:, None], slots], 0)
    np.testing.assert_allclose(layout.spread(tf.constant(vectors)), expected, atol=1e-6)
    np.testing.assert_allclose(layout.per_clip_sum(tf.ones((len(starts), size))), lengths)
    assert np.array_equal(layout.spread_integers(tf.constant(lengths)).numpy() > 0, slots >= 0)


@settings(deadline=None, max_examples=40)
@given(rows_of_clips())
def test_blanks_surround_every_symbol_of_a_clip(drawn):
    starts, lengths, size = drawn
    tokens = np.zeros((len(starts), size), np.int32)
    expected = np.zeros((len(starts), 2 * size + 1), np.int32)
    for row, slot in zip(*np.nonzero(lengths), strict=True):
        start, length = starts[row, slot], lengths[row, slot]
        symbols = np.arange(2, 2 + length)
        tokens[row, start : start + length] = symbols
        inside = expected[row, 2 * start : 2 * start + 2 * length + 1]
        inside[:] = BLANK
        inside[1::2] = symbols
    found, layout = expand_with_blanks(tf.constant(tokens), tf.constant(starts), tf.constant(lengths), BLANK)
    assert np.array_equal(found, expected)
    assert layout.size == 2 * size + 1
    assert np.array_equal(layout.mask.numpy()[..., 0], expected > 0)
