"""What has to be prepared follows from size, time and text alone; rejections are remembered."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from myxtts.cache.changes import ClipStates, RejectionMemory, RememberedRejection, find_changes, read_rejection_memory
from myxtts.cache.clip_table import open_cache
from myxtts.cache.format import RECORD, clip_key
from tests.cache.cache_builder import build_cache

few = st.integers(0, 2)
state = st.tuples(few, few, few)
"""Size, time and text of a clip: equal often enough."""


@given(st.lists(st.tuples(state, st.none() | state, st.none() | state), max_size=6))
def test_every_clip_is_unchanged_rejected_or_prepared_for_a_reason(clips):
    """Each clip as it is now, as its record says, and as it was rejected."""
    ids = [f"clip{number}" for number in range(len(clips))]
    now = np.array([each for each, _, _ in clips], np.int64).reshape(-1, 3)
    states = ClipStates(ids, [clip_key(each) for each in ids], now[:, 0], now[:, 1], now[:, 2].astype(np.uint64))
    known = np.zeros(sum(record is not None for _, record, _ in clips), RECORD)
    known["bandwidth"] = 8000
    rows = iter(range(len(known)))
    for clip_id, (_, record, _) in zip(ids, clips, strict=True):
        if record is not None:
            row = next(rows)
            known["key"][row] = np.frombuffer(clip_key(clip_id), "V16")[0]
            known["source_bytes"][row], known["source_mtime_ns"][row], known["text_hash"][row] = record
    remembered = {
        clip_id: RememberedRejection("silent", "", *rejected)
        for clip_id, (_, _, rejected) in zip(ids, clips, strict=True)
        if rejected is not None
    }
    changes = find_changes(states, known, remembered)
    for clip, (current, record, rejected) in enumerate(clips):
        has_record = record is not None
        assert changes.has_same_audio[clip] == (has_record and record[:2] == current[:2])
        assert changes.may_have_same_audio[clip] == (has_record and record[0] == current[0] and record[1] != current[1])
        assert changes.has_same_text[clip] == (has_record and record[2] == current[2])
        assert changes.is_ready[clip] == (record == current)
        assert changes.is_rejected[clip] == (not has_record and rejected == current)


def test_of_several_records_of_one_clip_the_last_counts():
    known = np.zeros(2, RECORD)
    known["key"] = np.frombuffer(clip_key("a"), "V16")[0]
    known["frame_start"] = [1, 50]
    states = ClipStates(["a"], [clip_key("a")], np.zeros(1), np.zeros(1), np.zeros(1, np.uint64))
    assert find_changes(states, known, {}).records["frame_start"].tolist() == [50]


def test_a_record_without_its_quality_or_the_sound_that_is_asked_for_is_not_ready():
    known = np.zeros(3, RECORD)
    for row, name in enumerate("abc"):
        known["key"][row] = np.frombuffer(clip_key(name), "V16")[0]
    known["bandwidth"], known["sample_start"] = [0, 8000, 8000], [0, 0, 1]
    states = ClipStates(
        list("abc"), [clip_key(name) for name in "abc"], np.zeros(3), np.zeros(3), np.zeros(3, np.uint64)
    )
    assert find_changes(states, known, {}).is_ready.tolist() == [False, True, True]
    assert find_changes(states, known, {}, with_sound=True).is_ready.tolist() == [False, False, True]


MEMORY = RejectionMemory(
    {"سلام": RememberedRejection("silent", "no sound", 10, 20, 2**63)}, {"a": {"☃": 2}, "b": {"☃": 1, "♥": 5}}
)


@pytest.fixture
def cache(tmp_path):
    build_cache(tmp_path, clips=1)
    return open_cache(tmp_path)


def test_it_is_read_back_as_written(cache):
    (cache.folder / cache.header["notes_file"]).write_bytes(MEMORY.to_bytes())
    assert read_rejection_memory(cache) == MEMORY


def test_unknown_symbols_are_counted_over_all_clips():
    assert list(MEMORY.unknown_symbols().items()) == [("♥", 5), ("☃", 3)]


@pytest.mark.parametrize("content", [None, b"", b"[]", b"{}", b'{"decoder": 1}', b"\xff", MEMORY.to_bytes()[:-9]])
def test_a_damaged_one_is_empty(cache, content):
    path = cache.folder / cache.header["notes_file"]
    path.unlink() if content is None else path.write_bytes(content)
    assert read_rejection_memory(cache) == RejectionMemory()
