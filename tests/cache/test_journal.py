"""Records written one by one: what survives a torn write, a full disk, a power cut."""

import numpy as np
import pytest

from myxtts.cache.clip_table import open_cache
from myxtts.cache.journal import ENTRY_BYTES, open_records
from myxtts.cache.writer import JOURNAL_NAME
from myxtts.errors import CacheError
from tests.cache.cache_builder import append_clip, build_cache, settings
from tests.cache.full_disk import largest_file

SYMBOLS = ["<pad>", "<blank>", "a"]


def write_clips(folder, numbers, base=None):
    with open_records(folder, settings(), base) as writer:
        writer.start(SYMBOLS)
        for number in numbers:
            append_clip(writer, number)
    return writer


def recover(folder, base=None):
    with open_records(folder, settings(), base) as writer:
        return writer


def test_journaled_records_are_taken_over(tmp_path):
    written = write_clips(tmp_path, range(4))
    found = recover(tmp_path)
    assert len(found.recovered) == 4
    assert found.symbols == SYMBOLS
    assert (found.num_rows, found.num_tokens) == (written.num_rows, written.num_tokens)


@pytest.mark.parametrize("lost_bytes", [1, ENTRY_BYTES // 2, ENTRY_BYTES - 1])
def test_a_torn_journal_entry_costs_that_record_only(tmp_path, lost_bytes):
    write_clips(tmp_path, range(4))
    journal = tmp_path / JOURNAL_NAME
    journal.write_bytes(journal.read_bytes()[:-lost_bytes])
    assert len(recover(tmp_path).recovered) == 3


@pytest.mark.parametrize("name", ["frames-1.f32", "tokens-1.i32"])
def test_data_lost_in_a_power_cut_costs_the_records_that_lie_there(tmp_path, name):
    write_clips(tmp_path, range(4))
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-3])
    assert len(recover(tmp_path).recovered) == 3


def test_a_torn_tail_of_the_data_is_cut_off(tmp_path):
    written = write_clips(tmp_path, range(2))
    with (tmp_path / "frames-1.f32").open("ab") as file:
        file.write(b"torn")
    assert recover(tmp_path).num_rows == written.num_rows
    assert (tmp_path / "frames-1.f32").stat().st_size == written.num_rows * 80 * 4


def test_the_journal_of_other_settings_is_not_taken_over(tmp_path):
    write_clips(tmp_path, range(2))
    with open_records(tmp_path, settings(loudness_db=None), None) as writer:
        assert len(writer.recovered) == 0


def test_a_journal_that_continued_an_older_generation_is_not_taken_over(tmp_path):
    build_cache(tmp_path, clips=2)
    write_clips(tmp_path, [5, 6], base=open_cache(tmp_path))
    assert len(recover(tmp_path, base=open_cache(tmp_path)).recovered) == 2
    assert len(recover(tmp_path, base=None).recovered) == 0


def test_records_appended_to_a_published_cache_leave_it_as_it_was(tmp_path):
    written = build_cache(tmp_path, clips=3)
    before = open_cache(tmp_path)
    write_clips(tmp_path, [7, 8], base=before)
    after = open_cache(tmp_path)
    assert after.content_id == before.content_id
    for clip, (frames, _) in enumerate(written):
        np.testing.assert_array_equal(after.clip_frames(clip), frames)


def test_a_full_disk_cuts_the_torn_record_and_keeps_the_others(tmp_path):
    with open_records(tmp_path, settings(), None) as writer:
        writer.start(SYMBOLS)
        append_clip(writer, 0)
        append_clip(writer, 1)
        rows = writer.num_rows
        with largest_file(rows * 320 + 500), pytest.raises(CacheError, match="disk is full"):
            append_clip(writer, 2)
    assert (tmp_path / "frames-1.f32").stat().st_size == rows * 320
    assert len(recover(tmp_path).recovered) == 2


def test_only_the_tokens_are_written_when_only_the_text_changed(tmp_path):
    with open_records(tmp_path, settings(), None) as writer:
        writer.start(SYMBOLS)
        first = append_clip(writer, 0)
        rows = writer.num_rows
        kept = {
            name: first[name]
            for name in ("key", "source_bytes", "source_mtime_ns", "source_hash", "frame_start", "frame_count")
        }
        second = writer.append(kept | {"text_hash": 99}, None, np.array([2, 2, 2]))
    assert writer.num_rows == rows
    assert second["frame_start"] == first["frame_start"]
    assert second["token_start"] > first["token_start"]
    assert second["checksum"] != first["checksum"]
    assert len(recover(tmp_path).recovered) == 2
