"""Lengths, durations, noise and joins: plain numbers."""

import numpy as np
import pytest

from myxtts.errors import VoiceError
from myxtts.synthesis.shapes import (
    FADE_SECONDS,
    FRAME_SHAPES,
    batches_of,
    cut_symbols,
    frames_of_symbols,
    join_piece,
    noise_of,
    round_up,
)


def test_lengths_are_rounded_up_to_the_next_shape_and_to_multiples_beyond_the_largest():
    assert round_up(1, (4, 8)) == 4
    assert round_up(8, (4, 8)) == 8
    assert round_up(17, (4, 8)) == 24


def test_any_length_up_to_a_minute_uses_a_handful_of_shapes():
    shapes = {round_up(length, FRAME_SHAPES) for length in range(1, 3751)}
    assert len(shapes) <= len(FRAME_SHAPES) + 3


def test_batches_hold_every_index_once_with_similar_lengths_together():
    groups = batches_of([5, 50, 6, 49, 7], rows=2)
    assert sorted(index for group in groups for index in group) == [0, 1, 2, 3, 4]
    assert groups[0] == [1, 3]


def test_durations_add_up_at_every_speed():
    log_durations = np.log(np.full(40, 3.3))
    for speed in (0.5, 1.0, 1.7):
        frames = frames_of_symbols(log_durations, 40, 1 / speed, 62.5)
        assert abs(frames.sum() - 40 * 3.3 / speed) <= 0.5


def test_no_symbol_vanishes_at_normal_speed_and_padding_has_no_frames():
    frames = frames_of_symbols(np.full(30, -2.0), 21, 1.0, 62.5)
    assert (frames[:21] == 1).all()
    assert (frames[21:] == 0).all()


def test_a_mad_duration_is_held_at_the_longest_symbol():
    assert frames_of_symbols(np.array([90.0, 0.0, 0.0]), 3, 1.0, 100.0).max() == 150


def test_a_duration_that_is_not_a_number_is_told():
    with pytest.raises(VoiceError, match="not finite"):
        frames_of_symbols(np.array([np.nan]), 1, 1.0, 62.5)


def test_longer_noise_begins_with_shorter_noise_and_seeds_differ():
    longest, short = noise_of(1, 0, 1200, 80), noise_of(1, 0, 37, 80)
    np.testing.assert_array_equal(longest[:37], short)
    assert np.abs(noise_of(2, 0, 37, 80) - short).max() > 1
    assert np.abs(noise_of(1, 1, 37, 80) - short).max() > 1


def test_a_joined_piece_starts_and_ends_at_zero_and_is_followed_by_its_pause():
    joined = join_piece(np.full(8000, 2.0, np.float32), 8000, pause_seconds=0.5)
    assert len(joined) == 12000
    assert abs(joined[0]) < 1e-2
    assert abs(joined[7999]) < 1e-2
    assert joined.max() == pytest.approx(0.99)
    assert (joined[8000:] == 0).all()


def test_sound_that_is_not_finite_is_told():
    with pytest.raises(VoiceError, match="not finite"):
        join_piece(np.full(100, np.nan, np.float32), 8000, 0.0)


def test_a_piece_shorter_than_two_fades_is_joined():
    assert len(join_piece(np.ones(5, np.float32), 8000, 0.0)) == 5 < FADE_SECONDS * 8000


def test_a_run_of_symbols_is_cut_after_the_last_boundary_that_fits():
    ids = [5, 5, 5, 2, 5, 5, 5, 5, 2, 5, 5]
    assert cut_symbols(ids, frozenset({2}), 10) == [[5, 5, 5, 2, 5, 5, 5, 5, 2], [5, 5]]
    assert cut_symbols([5] * 25, frozenset({2}), 10) == [[5] * 10, [5] * 10, [5] * 5]
    assert cut_symbols([5] * 10, frozenset({2}), 10) == [[5] * 10]
