"""The parts of a plan: packing, bucket lengths, order, references."""

import itertools

import numpy as np
import pytest
from made_up_table import speech_lengths

from myxtts.batch import NO_CLIP
from myxtts.batches.gather import ReferenceChooser
from myxtts.batches.order import mixed, shuffled
from myxtts.batches.packing import RowSize, pack_rows
from myxtts.batches.plan import best_bucket_lengths


@pytest.mark.parametrize("seed", range(40))
def test_packing_places_every_clip_once_and_exceeds_nothing(seed):
    generator = np.random.default_rng(seed)
    size = RowSize(
        frames=int(generator.integers(20, 200)),
        tokens=int(generator.integers(10, 60)),
        slots=int(generator.integers(1, 9)),
        gap_frames=int(generator.integers(0, 6)),
        gap_tokens=int(generator.integers(0, 4)),
    )
    clips = int(generator.integers(1, 400))
    frames = generator.integers(1, size.frames + 1, clips)
    tokens = generator.integers(1, size.tokens + 1, clips)
    rows = pack_rows(frames, tokens, size)
    assert sorted(rows[rows != NO_CLIP]) == list(range(clips))
    for row in rows:
        placed = row[row != NO_CLIP]
        assert 1 <= len(placed) <= size.slots
        assert frames[placed].sum() + size.gap_frames * (len(placed) - 1) <= size.frames
        assert tokens[placed].sum() + size.gap_tokens * (len(placed) - 1) <= size.tokens


def test_packing_fills_rows_of_prompts_closely():
    frames, tokens = speech_lengths(600)
    rows = pack_rows(frames, tokens, RowSize(800, 480, 24, 4, 2))
    gaps = 4 * ((rows != NO_CLIP).sum() - len(rows))
    assert (frames.sum() + gaps) / (800 * len(rows)) > 0.975


def test_packing_takes_a_clip_as_long_as_the_row():
    rows = pack_rows(np.array([100, 100, 3]), np.array([5, 5, 5]), RowSize(100, 20, 4, 4, 2))
    assert len(rows) == 3


def test_rows_begin_with_the_next_clip_of_the_order():
    frames, tokens = speech_lengths(100)
    rows = pack_rows(frames, tokens, RowSize(800, 480, 24, 4, 2))
    placed: set[int] = set()
    for row in rows:
        assert row[0] == min(set(range(100)) - placed)
        placed |= set(row[row != NO_CLIP].tolist())


@pytest.mark.parametrize("seed", range(30))
def test_no_other_bucket_lengths_waste_less(seed):
    generator = np.random.default_rng(seed)
    frames = generator.integers(1, 16, generator.integers(1, 14))
    buckets = int(generator.integers(1, 5))

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


def test_shuffled_is_an_order_that_belongs_to_its_keys():
    assert sorted(shuffled(100, 1, 2)) == list(range(100))
    assert np.array_equal(shuffled(100, 1, 2), shuffled(100, 1, 2))
    assert not np.array_equal(shuffled(100, 1, 2), shuffled(100, 2, 1))


def test_mixed_numbers_are_those_of_plain_integer_arithmetic():
    def finalised(number):
        number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        number = (number ^ (number >> 27)) * 0x94D049BB133111EB % 2**64
        return number ^ (number >> 31)

    state = 0
    for key in (1234, 7, 5):
        state = (finalised(state ^ key) + 0x9E3779B97F4A7C15) % 2**64
    assert int(mixed(1234, 7, np.arange(10))[5]) == finalised(state)


def test_mixed_numbers_are_evenly_spread():
    counts = np.bincount((mixed(7, np.arange(40_000)) % np.uint64(16)).astype(int), minlength=16)
    assert counts.min() > 2300
    assert counts.max() < 2700


def chooser(speakers, candidates=None, frame_counts=None):
    speakers = np.array(speakers, np.int32)
    counts = np.full(len(speakers), 50, np.int32) if frame_counts is None else np.array(frame_counts, np.int32)
    starts = 1 + np.cumsum(counts, dtype=np.int64) - counts
    return ReferenceChooser(speakers, starts, counts, np.arange(len(speakers)) if candidates is None else candidates, 5)


def test_a_reference_is_another_clip_of_the_same_speaker():
    speakers = np.array([0, 1, 0, 1, 2, 0, 2, 1])
    clips = np.tile(np.arange(8), 50)
    references = chooser(speakers).choose(clips, np.repeat(np.arange(50), 8))
    assert (speakers[references] == speakers[clips]).all()
    assert (references != clips).all()
    for clip in range(8):  # and over the passes, every other one
        assert len(set(references[clips == clip].tolist())) == (speakers == speakers[clip]).sum() - 1


def test_the_only_clip_of_a_speaker_is_its_own_reference():
    assert chooser([0, 1, 0]).choose(np.array([1]), np.array([0])).tolist() == [1]


def test_references_come_from_the_candidates():
    references = chooser([0, 0, 0, 0], candidates=np.array([1, 3])).choose(np.tile(np.arange(4), 20), np.arange(80))
    assert set(references.tolist()) == {1, 3}


def test_references_follow_from_pass_and_clip():
    clips, passes = np.arange(40) % 8, np.arange(40) // 8
    whole = chooser(np.zeros(8)).choose(clips, passes)
    assert np.array_equal(chooser(np.zeros(8)).choose(clips[13:], passes[13:]), whole[13:])


def test_a_piece_lies_inside_its_reference():
    counts = [200, 30, 128, 129]
    starts = 1 + np.cumsum(counts) - counts
    clips, passes = np.tile(np.arange(4), 100), np.repeat(np.arange(100), 4)
    choosing = chooser(np.zeros(4), frame_counts=counts)
    references = choosing.choose(clips, passes)
    first_rows, lengths = choosing.pieces(clips, passes, 128)
    assert (lengths == np.minimum(np.array(counts)[references], 128)).all()
    assert (first_rows >= starts[references]).all()
    assert (first_rows + lengths <= (starts + counts)[references]).all()
