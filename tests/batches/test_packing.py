"""Packing: every clip is in one row, nothing exceeds a row, rows are nearly full and stay in random order."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.batch import NO_CLIP
from myxtts.batches.packing import RowSize, pack_rows
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
