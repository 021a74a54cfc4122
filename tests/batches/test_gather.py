"""Gathering: references of other clips of the speaker, and runs that cover every row exactly."""

from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.audio.mel import MelSpec, bands_below
from myxtts.batch import NO_CLIP, BatchShape
from myxtts.batches.gather import ReferenceChooser, batch_runs, clip_quality


def chooser(speakers, candidates=None, frame_counts=None):
    speakers = np.array(speakers, np.int32)
    counts = np.full(len(speakers), 50, np.int32) if frame_counts is None else np.array(frame_counts, np.int32)
    starts = 1 + np.cumsum(counts, dtype=np.int64) - counts
    table = SimpleNamespace(speaker_numbers=speakers, frame_starts=starts, frame_counts=counts)
    return ReferenceChooser(table, np.arange(len(speakers)) if candidates is None else candidates, 5)


def test_a_reference_is_another_clip_of_the_same_speaker():
    speakers = np.array([0, 1, 0, 1, 2, 0, 2, 1])
    clips = np.tile(np.arange(8), 50)
    references = chooser(speakers).choose(clips, np.repeat(np.arange(50), 8))
    assert (speakers[references] == speakers[clips]).all()
    assert (references != clips).all()
    for clip in range(8):  # and over the epochs, every other one
        assert len(set(references[clips == clip].tolist())) == (speakers == speakers[clip]).sum() - 1


def test_the_only_clip_of_a_speaker_is_its_own_reference():
    assert chooser([0, 1, 0]).choose(np.array([1]), np.array([0])).tolist() == [1]


def test_references_come_from_the_candidates():
    references = chooser([0, 0, 0, 0], candidates=np.array([1, 3])).choose(np.tile(np.arange(4), 20), np.arange(80))
    assert set(references.tolist()) == {1, 3}


def test_references_follow_from_epoch_and_clip():
    clips, epochs = np.arange(40) % 8, np.arange(40) // 8
    whole = chooser(np.zeros(8)).choose(clips, epochs)
    assert np.array_equal(chooser(np.zeros(8)).choose(clips[13:], epochs[13:]), whole[13:])


def test_a_piece_is_inside_its_reference():
    counts = [200, 30, 128, 129]
    starts = 1 + np.cumsum(counts) - counts
    clips, epochs = np.tile(np.arange(4), 100), np.repeat(np.arange(100), 4)
    choosing = chooser(np.zeros(4), frame_counts=counts)
    references = choosing.choose(clips, epochs)
    first_rows, lengths = choosing.pieces(clips, epochs, 128)
    assert (lengths == np.minimum(np.array(counts)[references], 128)).all()
    assert (first_rows >= starts[references]).all()
    assert (first_rows + lengths <= (starts + counts)[references]).all()


@st.composite
def clips_in_rows(draw):
    """A table of clips with rows of 1 to 3 of them, and the size of a row."""
    counts = np.array(draw(st.lists(st.integers(1, 9), min_size=1, max_size=6)))
    clip = st.integers(0, len(counts) - 1)
    rows = draw(st.lists(st.lists(clip, max_size=3), min_size=1, max_size=4))
    gap = draw(st.integers(0, 3))
    starts = 1 + np.cumsum(counts) - counts
    padded = np.array([[*row, *[NO_CLIP] * (3 - len(row))] for row in rows])[None]
    return counts, starts, padded, gap


@settings(deadline=None)
@given(clips_in_rows())
def test_the_runs_of_a_row_are_its_clips_gaps_and_padding(drawn):
    counts, starts, rows, gap = drawn
    numbers = np.zeros(len(counts), np.int32)
    table = SimpleNamespace(
        frame_counts=counts, frame_starts=starts, token_counts=counts, token_starts=starts,
        speaker_numbers=numbers, language_numbers=numbers,
    )  # fmt: skip
    width = 40
    runs = batch_runs(
        table,
        BatchShape(rows.shape[1], width, width, 3),
        rows,
        np.zeros(rows.shape[:2]),
        gap_frames=gap,
        gap_tokens=gap,
    )
    for found in (runs.frame_runs[0], runs.token_runs[0]):
        indices = np.concatenate([np.arange(start, limit) for start, limit in found.T]).clip(0).reshape(-1, width)
        for row, clips in zip(indices, rows[0], strict=True):
            expected = []
            for clip in clips[clips != NO_CLIP]:
                expected += [0] * gap * bool(expected) + list(range(starts[clip], starts[clip] + counts[clip]))
            assert row.tolist() == expected + [0] * (width - len(expected))


def test_indices_beyond_32_bits_stay_whole():
    many = 2**31
    numbers = np.zeros(1, np.int32)
    table = SimpleNamespace(
        frame_counts=np.array([4]), frame_starts=np.array([many]), token_counts=np.array([2]), token_starts=np.array([1]),
        speaker_numbers=numbers, language_numbers=numbers,
    )  # fmt: skip
    runs = batch_runs(
        table, BatchShape(1, 3, 5), np.zeros((1, 1, 1), int), np.zeros((1, 1)), gap_frames=1, gap_tokens=1
    )
    assert runs.frame_runs[0, 0, 0] == many
    assert (runs.frame_runs.dtype, runs.token_runs.dtype) == (np.int64, np.int32)


def measured(bandwidths, snrs=None, speakers=None):
    count = len(bandwidths)
    snrs = np.full(count, 60.0) if snrs is None else snrs
    return SimpleNamespace(
        bandwidths=np.array(bandwidths, np.float32),
        snrs=np.array(snrs),
        frame_counts=np.full(count, 100),
        speaker_numbers=np.arange(count) if speakers is None else np.array(speakers),
        is_validation=np.zeros(count, bool),
        mel=MelSpec(16000),
    )


def test_narrow_recordings_lack_bands_that_others_contain():
    bands = clip_quality(measured([8000, 8000, 4000, 0]), bandwidth_aware=True).bands
    assert bands.tolist()[:2] == [80, 80]
    assert bands[2] == bands_below(np.array([4000.0]), MelSpec(16000))[0] < 70
    assert bands[3] == 80  # not measured


def test_bands_that_no_recording_contains_are_learned_as_empty():
    assert clip_quality(measured([4000] * 5), bandwidth_aware=True).bands.tolist() == [80] * 5
    one_of_a_hundred = clip_quality(measured([4000] * 99 + [8000]), bandwidth_aware=True).bands
    assert one_of_a_hundred.tolist() == [80] * 100


def test_without_bandwidth_awareness_all_bands_count():
    assert clip_quality(measured([8000, 4000]), bandwidth_aware=False).bands.tolist() == [80, 80]


def test_noise_is_0_for_clean_and_unmeasured_recordings():
    noise = clip_quality(measured([8000, 8000, 0], [50.0, 15.0, 0.0]), bandwidth_aware=True).noise
    assert noise.tolist() == [0.0, 1.0, 0.0]


def test_the_noise_of_a_clip_is_that_of_its_speakers_clearest_clips():
    noise = clip_quality(measured([8000] * 4, [10.0, 40.0, 40.0, 15.0], [0, 0, 0, 1]), bandwidth_aware=True).noise
    assert noise.tolist() == [0.0, 0.0, 0.0, 1.0]


def test_a_voice_trained_on_the_upper_bands_is_never_trained_to_leave_them_empty():
    assert clip_quality(measured([4000] * 5), bandwidth_aware="always").bands.max() < 80
