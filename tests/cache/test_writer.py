"""Writing a cache folder: publishing whole generations, and the lock."""

import json
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from myxtts.cache.clip_table import cache_records, open_cache
from myxtts.cache.format import HEADER_NAME
from myxtts.cache.writer import LOCK_NAME, cache_lock, compact, publish, unnamed_files
from myxtts.errors import CacheError
from tests.cache.cache_builder import build_cache
from tests.cache.full_disk import largest_file


def publish_again(cache, **changes):
    """A new generation with the same clips and other header fields."""
    fields = (
        "symbols",
        "speakers",
        "languages",
        "frames_file",
        "tokens_file",
        "rows",
        "tokens",
        "samples_file",
        "pitch_file",
        "samples",
        "pitches",
        "data_folder",
        "config",
    )
    tables = {name: cache.header[name] for name in fields} | {"generation": cache.header["generation"] + 1} | changes
    columns = {name: column for name, column in cache.columns().items() if not name.endswith("_ends")}
    publish(cache.folder, cache.header["settings"], columns, list(cache.ids), list(cache.texts), tables)


def test_a_new_generation_replaces_the_files_of_the_old_one(tmp_path):
    build_cache(tmp_path, clips=3)
    old = open_cache(tmp_path)
    publish_again(old, license="CC0")
    new = open_cache(tmp_path)
    assert (new.license, new.content_id) == ("CC0", old.content_id)
    assert not (tmp_path / old.header["index_file"]).exists()
    assert list(old.ids) == list(new.ids), "an opened cache stays readable"
    assert [path.name for path in unnamed_files(tmp_path, new.header)] == []


def test_a_full_disk_while_publishing_leaves_the_old_cache(tmp_path):
    build_cache(tmp_path, clips=2)
    before = open_cache(tmp_path)
    with largest_file(100), pytest.raises(CacheError, match="disk is full"):
        publish_again(before)
    assert open_cache(tmp_path).header == before.header
    assert not list(tmp_path.glob(".*.partial"))


def test_files_that_the_header_names_are_not_left_over(tmp_path):
    """A later version may add tables of its own."""
    build_cache(tmp_path, clips=1)
    publish_again(open_cache(tmp_path), other_file="frames-7.f32")
    (tmp_path / "frames-7.f32").write_bytes(b"")
    (tmp_path / "frames-8.f32").write_bytes(b"")
    assert [path.name for path in unnamed_files(tmp_path, open_cache(tmp_path).header)] == ["frames-8.f32"]


def test_compacting_keeps_the_chosen_records_and_nothing_else(tmp_path):
    written = build_cache(tmp_path, clips=5)
    cache = open_cache(tmp_path)
    records, data = compact(tmp_path, cache_records(cache)[[4, 1]], cache.header, cache.mel.n_mels, 2)
    frames = np.fromfile(tmp_path / data["frames_file"], "<f4").reshape(data["rows"], -1)
    tokens = np.fromfile(tmp_path / data["tokens_file"], "<i4")
    assert len(frames) == 1 + len(written[4][0]) + len(written[1][0])
    assert not frames[0].any()
    for record, clip in zip(records, (4, 1), strict=True):
        rows = slice(record["frame_start"], record["frame_start"] + record["frame_count"])
        np.testing.assert_array_equal(frames[rows], written[clip][0])
        part = slice(record["token_start"], record["token_start"] + record["token_count"])
        np.testing.assert_array_equal(tokens[part], written[clip][1])
    assert json.loads((tmp_path / HEADER_NAME).read_bytes())["generation"] == 1


HOLDS_THE_LOCK = """
import sys, time
from pathlib import Path
from myxtts.cache.writer import cache_lock
with cache_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_waiting_writer_names_the_process_it_waits_for_and_a_killed_one_does_not_block(tmp_path, monkeypatch):
    monkeypatch.setattr("myxtts.runtime.locks.POLL_SECONDS", 0.1)
    with subprocess.Popen([sys.executable, "-c", HOLDS_THE_LOCK, str(tmp_path)], stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout.readline() == b"held\n"
            lines = []

            def announce(line):
                lines.append(line)
                holder.kill()

            with cache_lock(tmp_path, announce):
                pass
        finally:
            holder.kill()
    assert len(lines) == 1
    assert f"Waiting for process {holder.pid} on " in lines[0]
    assert str(tmp_path) in lines[0]


def test_a_lock_file_of_a_dead_process_does_not_block(tmp_path):
    (tmp_path / LOCK_NAME).write_text("")
    (tmp_path / f"{LOCK_NAME}.json").write_text('{"process_id": 999999, "host": "elsewhere", "unix_seconds": 0}')
    with cache_lock(tmp_path, lambda line: pytest.fail(line)):
        pass


def test_a_folder_that_cannot_be_made_names_the_flag_that_helps(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CacheError, match="--cache-dir FOLDER"), cache_lock(tmp_path / "file" / "x"):
        pass


def test_a_second_writer_waits_for_one_that_is_soon_done(tmp_path):
    order = []

    def write():
        with cache_lock(tmp_path):
            order.append("second")

    second = threading.Thread(target=write)
    with cache_lock(tmp_path):
        second.start()
        time.sleep(0.2)
        order.append("first")
    second.join()
    assert order == ["first", "second"]


def test_the_lock_is_free_again_afterwards(tmp_path):
    with cache_lock(tmp_path):
        pass
    with cache_lock(tmp_path):
        pass
