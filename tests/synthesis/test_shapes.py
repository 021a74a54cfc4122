"""Lengths, durations, noise and joins: plain numbers."""

import numpy as np
import pytest

from myxtts.errors import VoiceError
from myxtts.synthesis.engine import (
    FADE_SECONDS,
    FRAME_SHAPES,
    batches_of,
    cut_frames,
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
    joined = join_piece([np.full(8000, 2.0, np.float32)], 8000, pause_seconds=0.5)
    assert len(joined) == 12000
    assert abs(joined[0]) < 1e-2
    assert abs(joined[7999]) < 1e-2
    assert joined.max() == pytest.approx(0.99)
    assert (joined[8000:] == 0).all()


def test_sound_that_is_not_finite_is_told():
    with pytest.raises(VoiceError, match="not finite"):
        join_piece([np.full(100, np.nan, np.float32)], 8000, 0.0)


def test_a_piece_shorter_than_two_fades_is_joined():
    assert len(join_piece([np.ones(5, np.float32)], 8000, 0.0)) == 5 < FADE_SECONDS * 8000


def test_a_run_of_symbols_is_cut_after_the_last_boundary_that_fits():
    ids = [5, 5, 5, 2, 5, 5, 5, 5, 2, 5, 5]
    assert cut_symbols(ids, frozenset({2}), 10) == [[5, 5, 5, 2, 5, 5, 5, 5, 2], [5, 5]]
    assert cut_symbols([5] * 25, frozenset({2}), 10) == [[5] * 10, [5] * 10, [5] * 5]
    assert cut_symbols([5] * 10, frozenset({2}), 10) == [[5] * 10]


def test_frames_are_cut_after_the_last_boundary_that_fits_or_where_the_run_is_full():
    durations = np.array([2, 3, 2, 3, 2], np.int32)
    after_second = np.array([False, True, False, False, False])
    assert [run.tolist() for run in cut_frames(durations, after_second, 7)] == [[2, 3, 0, 0, 0], [0, 0, 2, 3, 2]]
    nowhere = np.zeros(5, bool)
    assert [run.tolist() for run in cut_frames(durations, nowhere, 6)] == [[2, 3, 1, 0, 0], [0, 0, 1, 3, 2]]
    assert [run.tolist() for run in cut_frames(durations, after_second, 12)] == [durations.tolist()]


def test_a_symbol_longer_than_a_run_is_cut_inside():
    runs = cut_frames(np.array([1, 20, 1], np.int32), np.ones(3, bool), 8)
    assert [int(run.sum()) for run in runs] == [8, 8, 6]
    assert np.sum(runs, axis=0).tolist() == [1, 20, 1]


def test_every_part_of_a_piece_is_faded_and_all_are_as_loud_as_one():
    joined = join_piece([np.ones(1000, np.float32), np.full(1000, 2.0, np.float32)], 8000, 0.0)
    assert np.abs(joined[[0, 999, 1000, 1999]]).max() < 1e-2
    assert joined[500] == pytest.approx(joined[1500] / 2)
