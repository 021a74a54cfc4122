"""Packing and shapes: every clip is in one row, rows are nearly full and in random order; shapes with little padding."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.batch import NO_CLIP
from myxtts.batches.order import shuffled
from myxtts.batches.packing import RowSize, best_bucket_lengths, multiple_of, pack_rows, packed_row_size
from tests.batches.made_up_table import speech_lengths


@st.composite
def row_and_clips(draw):
    """A row size, and the frames and tokens of clips that fit into an empty row."""
    size = RowSize(
        frames=draw(st.integers(1, 200)),
        tokens=draw(st.integers(1, 60)),
        slots=draw(st.integers(1, 9)),
        gap_frames=draw(st.integers(0, 6)),
        gap_tokens=draw(st.integers(0, 4)),
    )
    lengths = st.tuples(st.integers(1, size.frames), st.integers(1, size.tokens))
    clips = np.array(draw(st.lists(lengths, min_size=1, max_size=120)))
    return size, clips[:, 0], clips[:, 1]


@settings(deadline=None)
@given(row_and_clips())
def test_every_clip_is_placed_once_and_no_row_exceeds_its_size(drawn):
    size, frames, tokens = drawn
    rows = pack_rows(frames, tokens, size)
    assert sorted(rows[rows != NO_CLIP]) == list(range(len(frames)))
    placed_before: set[int] = set()
    for row in rows:
        placed = row[row != NO_CLIP]
        assert 1 <= len(placed) <= size.slots
        assert (row[len(placed) :] == NO_CLIP).all()  # empty slots come last
        assert placed[0] == min(set(range(len(frames))) - placed_before)  # a row begins with the next clip of the order
        assert frames[placed].sum() + size.gap_frames * (len(placed) - 1) <= size.frames
        assert tokens[placed].sum() + size.gap_tokens * (len(placed) - 1) <= size.tokens
        placed_before |= set(placed.tolist())


def test_rows_of_prompts_are_filled_closely():
    frames, tokens = speech_lengths(600)
    rows = pack_rows(frames, tokens, RowSize(800, 480, 24, 4, 2))
    gaps = 4 * ((rows != NO_CLIP).sum() - len(rows))
    assert (frames.sum() + gaps) / (800 * len(rows)) > 0.975


def test_more_clips_than_the_window_are_all_placed():
    frames, tokens = speech_lengths(5000)
    rows = pack_rows(frames, tokens, RowSize(800, 480, 24, 4, 2))
    assert sorted(rows[rows != NO_CLIP]) == list(range(5000))


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
    size, clips_per_row = packed_row_size(frames, tokens, shuffled(len(frames), 1, 0), 800, 4, 1)
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
