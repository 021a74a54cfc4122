"""Damage is reported without a change, repaired with fix, and not found a second time."""

import importlib.util
import json
import threading

import numpy as np
import pytest

from myxtts.cache.clip_table import open_cache
from myxtts.cache.format import HEADER_NAME
from myxtts.cache.prepare import prepare_cache
from myxtts.cache.verify import (
    DATA_WITHOUT_INDEX,
    FLIPPED,
    HEADER_DAMAGED,
    INDEX_DAMAGED,
    INDEX_WITHOUT_DATA,
    LEFT_OVER,
    STALE,
    TRUNCATED,
    find_problems,
    verify_and_fix_cache,
)
from myxtts.errors import CacheError
from myxtts.runtime.safe_files import temporary_path
from tests.cache.cache_builder import CLIPS, edit_header
from tests.corpus.tiny_corpus import make_corpus, tiny_config


@pytest.fixture
def cache_folder(corpus):
    return next(corpus.glob(".myxtts/cache/*/"))


def named(folder, field):
    return folder / json.loads((folder / HEADER_NAME).read_text(encoding="utf-8"))[field]


def cut(path, lost_bytes):
    path.write_bytes(path.read_bytes()[:-lost_bytes])


def extend(path, added_bytes):
    path.write_bytes(path.read_bytes() + bytes(added_bytes))


def flip(path, position, bit=64):
    data = bytearray(path.read_bytes())
    data[position] ^= bit
    path.write_bytes(data)


def snapshot(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def remove_index(folder):
    for field in ("index_file", "strings_file"):
        named(folder, field).unlink()
    (folder / HEADER_NAME).unlink()


DAMAGES = {
    "frames cut": (lambda folder: cut(named(folder, "frames_file"), 1000), TRUNCATED),
    "tokens cut": (lambda folder: cut(named(folder, "tokens_file"), 5), TRUNCATED),
    "frames cut to nothing": (lambda folder: named(folder, "frames_file").write_bytes(b""), TRUNCATED),
    "bit of a frame": (lambda folder: flip(named(folder, "frames_file"), 20_000), FLIPPED),
    "bit of a token": (lambda folder: flip(named(folder, "tokens_file"), -3), FLIPPED),
    "bit of the zero row": (lambda folder: flip(named(folder, "frames_file"), 7), FLIPPED),
    "bit of a column": (lambda folder: flip(named(folder, "index_file"), 1), INDEX_DAMAGED),
    "bit of a hash": (lambda folder: flip(named(folder, "index_file"), -60), INDEX_DAMAGED),
    "bit of an id": (lambda folder: flip(named(folder, "strings_file"), 2, 1), INDEX_DAMAGED),
    "index cut": (lambda folder: cut(named(folder, "index_file"), 9), INDEX_DAMAGED),
    "strings missing": (lambda folder: named(folder, "strings_file").unlink(), INDEX_DAMAGED),
    "header cut": (lambda folder: cut(folder / HEADER_NAME, 20), HEADER_DAMAGED),
    "frames missing": (lambda folder: named(folder, "frames_file").unlink(), INDEX_WITHOUT_DATA),
    "tokens missing": (lambda folder: named(folder, "tokens_file").unlink(), INDEX_WITHOUT_DATA),
    "index removed": (remove_index, DATA_WITHOUT_INDEX),
    "data appended": (lambda folder: extend(named(folder, "frames_file"), 640), DATA_WITHOUT_INDEX),
    "temporary file": (lambda folder: temporary_path(folder / HEADER_NAME).write_bytes(b"{"), LEFT_OVER),
    "temporary file of 0.1.0": (lambda folder: (folder / "cache.json.tmp").write_bytes(b"{"), LEFT_OVER),
    "old generation": (lambda folder: (folder / "frames-99.f32").write_bytes(bytes(64)), LEFT_OVER),
    "settings edited": (
        lambda folder: edit_header(folder, lambda header: header["settings"].update(loudness_db=-5.0)),
        STALE,
    ),
    "older format": (lambda folder: edit_header(folder, lambda header: header["settings"].update(format=0)), STALE),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_reported_unchanged_then_repaired_then_gone(corpus, cache_folder, name):
    cause, kind = DAMAGES[name]
    intact = open_cache(cache_folder)
    frames_before = [np.array(intact.clip_frames(clip)) for clip in range(CLIPS)]
    cause(cache_folder)
    damaged_files = snapshot(cache_folder)

    report = verify_and_fix_cache(cache_folder, config=tiny_config(), data_folder=corpus)
    assert kind in {problem.kind for problem in report.problems}
    assert not report.is_repaired
    assert snapshot(cache_folder) == damaged_files

    assert verify_and_fix_cache(cache_folder, fix=True, config=tiny_config(), data_folder=corpus).is_repaired
    assert verify_and_fix_cache(cache_folder, config=tiny_config(), data_folder=corpus).is_clean
    repaired = open_cache(cache_folder)
    assert repaired.num_clips == CLIPS
    for clip, frames in enumerate(frames_before):
        np.testing.assert_array_equal(repaired.clip_frames(clip), frames)


def test_an_intact_cache_is_clean_and_not_touched(cache_folder):
    before = snapshot(cache_folder)
    report = verify_and_fix_cache(cache_folder, fix=True)
    assert report.is_clean
    assert report.checked_clips == CLIPS
    assert snapshot(cache_folder) == before


def test_one_flipped_bit_costs_one_clip(cache_folder, corpus):
    cache = open_cache(cache_folder)
    clip = 2
    flip(cache.frames_path, int(cache.frame_starts[clip]) * 320 + 11)
    report = verify_and_fix_cache(cache_folder, fix=True, config=tiny_config(), data_folder=corpus)
    assert report.damaged_ids == (cache.ids[clip],)
    assert report.prepared.outcome.added == 1
    assert report.prepared.outcome.kept == CLIPS - 1


def test_the_header_names_what_a_cache_is_repaired_from(cache_folder):
    edit_header(cache_folder, lambda header: header.update(data_folder=str(cache_folder.parents[2])))
    cache = open_cache(cache_folder)
    flip(cache.frames_path, 5000)
    assert verify_and_fix_cache(cache_folder, fix=True).is_repaired


def test_without_a_header_and_without_a_corpus_it_says_what_is_missing(cache_folder):
    (cache_folder / HEADER_NAME).write_bytes(b"")
    with pytest.raises(CacheError, match="verify DATA --fix"):
        verify_and_fix_cache(cache_folder, fix=True)


def test_a_folder_without_any_cache_is_an_error(tmp_path):
    with pytest.raises(CacheError, match="myxtts prepare"):
        verify_and_fix_cache(tmp_path)


def interrupt_prepare(corpus, at_clip):
    """`prepare` that ends in the middle; one more torn record is left behind by it."""

    def stop(stage, done, total):
        if stage == "preparing clips" and done == at_clip:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare_cache(tiny_config(), corpus, progress=stop)


def test_what_an_interrupted_prepare_left_is_no_damage(corpus, cache_folder):
    make_corpus(corpus, CLIPS + 4)
    interrupt_prepare(corpus, at_clip=CLIPS + 2)  # the first ones are only compared
    extend(named(cache_folder, "frames_file"), 7)
    report = verify_and_fix_cache(cache_folder, fix=True, config=tiny_config(), data_folder=corpus)
    assert (report.is_clean, report.checked_clips, report.unfinished_clips) == (True, CLIPS, 2)
    assert prepare_cache(tiny_config(), corpus).report.outcome.recovered == 2


def test_a_first_prepare_that_was_interrupted_is_called_unfinished(tmp_path):
    make_corpus(tmp_path, 4)
    interrupt_prepare(tmp_path, at_clip=2)
    with pytest.raises(CacheError, match="interrupted after 2 clips"):
        verify_and_fix_cache(next(tmp_path.glob(".myxtts/cache/*/")))


def test_checking_waits_for_a_running_prepare(corpus, cache_folder):
    make_corpus(corpus, CLIPS + 2)
    found, threads = [], []

    def check_now(stage, done, total):
        if stage == "preparing clips" and done == 1:
            check = threading.Thread(target=lambda: found.append(verify_and_fix_cache(cache_folder)))
            threads.append(check)
            check.start()
            check.join(timeout=0.5)
            assert not found

    prepare_cache(tiny_config(), corpus, progress=check_now)
    threads[0].join()
    assert found[0].is_clean
    assert found[0].checked_clips == CLIPS + 2


def test_a_damaged_cache_is_not_prepared_over(cache_folder, corpus):
    cut(named(cache_folder, "frames_file"), 1000)
    with pytest.raises(CacheError, match="verify --fix"):
        prepare_cache(tiny_config(), corpus)


@pytest.mark.skipif(importlib.util.find_spec("pyworld") is None, reason="pyworld is not installed")
@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (lambda folder: flip(named(folder, "samples_file"), 3000), FLIPPED),
        (lambda folder: flip(named(folder, "pitch_file"), -7), FLIPPED),
        (lambda folder: cut(named(folder, "pitch_file"), 5), TRUNCATED),
        (lambda folder: cut(named(folder, "samples_file"), 5), TRUNCATED),
        (lambda folder: named(folder, "samples_file").unlink(), INDEX_WITHOUT_DATA),
    ],
    ids=["bit of a sample", "bit of a pitch", "pitch cut", "samples cut", "samples missing"],
)
def test_damaged_sound_is_reported_and_repaired(corpus, cache_folder, cause, kind):
    intact = prepare_cache(tiny_config(), corpus, with_sound=True)
    samples = [np.array(intact.clip_samples(clip)) for clip in range(CLIPS)]
    cause(cache_folder)
    assert kind in {problem.kind for problem in verify_and_fix_cache(cache_folder).problems}
    assert verify_and_fix_cache(cache_folder, fix=True).is_repaired
    cache = prepare_cache(tiny_config(), corpus, with_sound=True)
    assert find_problems(cache_folder)[0] == []
    for clip in range(CLIPS):
        np.testing.assert_array_equal(cache.clip_samples(clip), samples[clip])
