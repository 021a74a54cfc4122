"""Long pieces in parts: cuts of frames, noise and joins."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from myxtts.errors import VoiceError
from myxtts.synthesis.engine import FADE_SECONDS, cut_frames, join_parts, noise_of


def test_longer_noise_begins_with_shorter_noise_and_seeds_differ():
    longest, short = noise_of(1, 0, 1200, 80), noise_of(1, 0, 37, 80)
    np.testing.assert_array_equal(longest[:37], short)
    assert np.abs(noise_of(2, 0, 37, 80) - short).max() > 1
    assert np.abs(noise_of(1, 1, 37, 80) - short).max() > 1


def test_a_joined_piece_starts_and_ends_at_zero_and_is_followed_by_its_pause():
    joined = join_parts([np.full(8000, 2.0, np.float32)], 8000, pause_seconds=0.5)
    assert len(joined) == 12000
    assert abs(joined[0]) < 1e-2
    assert abs(joined[7999]) < 1e-2
    assert joined.max() == pytest.approx(0.99)
    assert (joined[8000:] == 0).all()


def test_samples_that_are_not_finite_raise():
    with pytest.raises(VoiceError, match="not finite"):
        join_parts([np.full(100, np.nan, np.float32)], 8000, 0.0)


def test_a_piece_shorter_than_two_fades_is_joined():
    assert len(join_parts([np.ones(5, np.float32)], 8000, 0.0)) == 5 < FADE_SECONDS * 8000


def test_every_part_of_a_piece_is_faded_and_all_keep_their_relative_loudness():
    joined = join_parts([np.ones(1000, np.float32), np.full(1000, 2.0, np.float32)], 8000, 0.0)
    assert np.abs(joined[[0, 999, 1000, 1999]]).max() < 1e-2
    assert joined[500] == pytest.approx(joined[1500] / 2)


def test_frames_are_cut_after_the_last_boundary_that_fits_or_where_the_part_is_full():
    durations = np.array([2, 3, 2, 3, 2])
    after_second = np.array([False, True, False, False, False])
    assert [part.tolist() for part in cut_frames(durations, after_second, 7)] == [[2, 3, 0, 0, 0], [0, 0, 2, 3, 2]]
    nowhere = np.zeros(5, bool)
    assert [part.tolist() for part in cut_frames(durations, nowhere, 6)] == [[2, 3, 1, 0, 0], [0, 0, 1, 3, 2]]
    assert [part.tolist() for part in cut_frames(durations, after_second, 12)] == [durations.tolist()]


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=1, max_size=60), st.integers(2, 40))
def test_cut_frames_lose_nothing_and_fit(symbols, longest):
    durations, boundaries = np.array([each for each, _ in symbols]), np.array([each for _, each in symbols])
    parts = cut_frames(durations, boundaries, longest)
    assert np.sum(parts, axis=0).tolist() == durations.tolist()
    assert all(part.sum() <= longest for part in parts)
