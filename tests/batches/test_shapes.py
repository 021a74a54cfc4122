"""Shapes: bucket lengths with the least padding, and packed rows with few tokens."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.batches.packing import RowSize, pack_rows
from myxtts.batches.shapes import best_bucket_lengths, multiple_of, packed_row_size
from tests.batches.made_up_table import speech_lengths


@settings(deadline=None)
@given(st.lists(st.integers(1, 15), min_size=1, max_size=13), st.integers(1, 4))
def test_no_other_bucket_lengths_pad_less(frames, buckets):
    frames = np.array(frames)

    def padded(lengths):
        return np.sort(lengths)[np.searchsorted(np.sort(lengths), frames)].sum()

    chosen = best_bucket_lengths(frames, buckets)
    candidates = itertools.chain.from_iterable(
        itertools.combinations(np.unique(frames[frames < frames.max()]), count) for count in range(buckets)
    )
    assert len(chosen) <= buckets
    assert padded(chosen) == min(padded(np.array([*lengths, frames.max()])) for lengths in candidates)


def test_buckets_of_very_long_clips_hold_all_of_them():
    frames = np.random.default_rng(0).integers(1, 9000, 3000)
    lengths = best_bucket_lengths(frames, 6)
    assert lengths[-1] == frames.max()
    assert (np.diff(lengths) > 0).all()


def test_a_packed_row_has_few_tokens_and_holds_the_clips_in_nearly_as_few_rows():
    frames, tokens = speech_lengths(1000)
    size, clips_per_row = packed_row_size(frames, tokens, 800, 4, 1, seed=1)
    unlimited = pack_rows(frames, tokens, RowSize(800, 10_000, 40, 4, 1))
    assert len(pack_rows(frames, tokens, size)) <= 1.02 * len(unlimited)
    assert tokens.max() <= size.tokens < 10_000
    assert size.tokens % 8 == 0
    assert 1 <= clips_per_row <= size.slots


@given(st.integers(1, 64), st.floats(-10, 1e6))
def test_a_multiple_is_the_smallest_that_is_large_enough(factor, number):
    found = multiple_of(factor, number)
    assert found % factor == 0
    assert found >= max(1, number)
    assert found - factor < max(1, number)
