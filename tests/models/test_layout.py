"""Where clips are in rows: masks, positions and sums against plain NumPy; and random numbers of (seed, step, clip, position)."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.models.layout import ClipRandomness, NoRandomness, RowLayout, expand_with_blanks

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


def normal_of(clip, start, size=40, length=12, step=3, seed=1, name="flow"):
    """The noise of one clip that begins at `start` of a row."""
    layout = RowLayout(tf.constant([[start]]), tf.constant([[length]]), size)
    noise = ClipRandomness(seed, step, tf.constant([[clip]])).normal(name, layout, 5)
    return noise.numpy()[0, start : start + length]


def test_noise_depends_on_clip_step_seed_and_use_but_not_on_the_position_in_the_row():
    noise = normal_of(7, 0)
    assert np.array_equal(normal_of(7, 23), noise)
    assert np.array_equal(normal_of(7, 2, size=64), noise)
    others = [normal_of(8, 0), normal_of(7, 0, step=4), normal_of(7, 0, seed=2), normal_of(7, 0, name="other")]
    assert all(not np.allclose(other, noise) for other in others)


def test_noise_is_standard_normal():
    noise = normal_of(0, 0, size=2000, length=2000)
    assert abs(noise.mean()) < 0.05
    assert noise.std() == pytest.approx(1, abs=0.05)


def test_dropout_keeps_the_mean_and_drops_the_given_fraction():
    layout = RowLayout(tf.zeros((1, 1), tf.int32), tf.constant([[1500]]), 1500)
    randomness = ClipRandomness(1, 2, tf.constant([[5]]))
    found = randomness.dropout("one", layout, tf.ones((1, 1500, 8)), 0.3).numpy()
    assert (found == 0).mean() == pytest.approx(0.3, abs=0.02)
    assert found.mean() == pytest.approx(1, abs=0.05)
    assert not np.array_equal(randomness.dropout("another", layout, tf.ones((1, 1500, 8)), 0.3), found)


def test_channels_dropped_for_a_clip_are_the_same_in_all_values():
    clips = tf.reshape(tf.range(200), (10, 20))
    randomness = ClipRandomness(1, 2, clips)
    first, second = randomness.dropout_per_clip("block", (tf.ones((10, 20, 6)), 3 * tf.ones((10, 20, 6))), 0.25)
    np.testing.assert_allclose(3 * first.numpy(), second, rtol=1e-6)
    assert (first.numpy() == 0).mean() == pytest.approx(0.25, abs=0.05)


def test_a_fraction_of_the_clips_is_hidden():
    clips = tf.reshape(tf.range(2000), (100, 20))
    assert ClipRandomness(1, 2, clips).hides("speaker", 0.1).numpy().mean() == pytest.approx(0.1, abs=0.03)


def test_without_drops_nothing_is_dropped_or_hidden_but_noise_stays():
    layout = RowLayout(tf.zeros((1, 1), tf.int32), tf.constant([[30]]), 30)
    validation = ClipRandomness(1, 2, tf.constant([[5]]), drops=False)
    values = tf.ones((1, 30, 4))
    assert validation.dropout("one", layout, values, 0.5) is values
    assert not validation.hides("speaker", 1.0).numpy().any()
    expected = ClipRandomness(1, 2, tf.constant([[5]])).normal("flow", layout, 4)
    assert np.array_equal(validation.normal("flow", layout, 4), expected)


def test_no_randomness_changes_nothing():
    values = tf.ones((1, 3, 2))
    assert NoRandomness().dropout("one", None, values, 0.9) is values
    assert NoRandomness().dropout_per_clip("one", (values,), 0.9)[0] is values
