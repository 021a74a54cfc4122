"""An opened cache holds what was written, cannot be changed, and reads no more than it needs."""

import subprocess
import sys

import numpy as np
import pytest

from myxtts.cache.clip_table import open_cache
from myxtts.errors import CacheError
from tests.cache.cache_builder import build_cache, settings


def test_a_written_record_is_read_back(tmp_path):
    written = build_cache(tmp_path, clips=5)
    cache = open_cache(tmp_path, settings().fingerprint)
    assert cache.num_clips == 5
    for clip, (frames, tokens) in enumerate(written):
        np.testing.assert_array_equal(cache.clip_frames(clip), frames)
        np.testing.assert_array_equal(cache.clip_tokens(clip), tokens)


def test_a_cache_that_was_not_prepared_here_has_no_report(tmp_path):
    build_cache(tmp_path, clips=1)
    with pytest.raises(CacheError, match="prepare_cache"):
        _ = open_cache(tmp_path).report


def test_row_and_token_zero_are_padding(tmp_path):
    build_cache(tmp_path, clips=2)
    cache = open_cache(tmp_path)
    assert not np.fromfile(cache.frames_path, "<f4", count=cache.mel.n_mels).any()
    assert np.fromfile(cache.tokens_path, "<i4", count=1)[0] == 0
    assert cache.frame_starts.min() == 1
    assert cache.token_starts.min() == 1


def test_columns_have_the_promised_types(tmp_path):
    build_cache(tmp_path, clips=3)
    cache = open_cache(tmp_path)
    types = {name: column.dtype for name, column in cache.columns().items()}
    assert types["frame_starts"] == types["token_starts"] == np.int64
    assert types["frame_counts"] == types["token_counts"] == np.int32
    assert types["speaker_numbers"] == types["language_numbers"] == np.int32
    assert types["is_validation"] == np.bool_
    assert types["checksums"] == np.uint32


def test_an_opened_cache_cannot_be_changed(tmp_path):
    build_cache(tmp_path, clips=2)
    cache = open_cache(tmp_path)
    with pytest.raises(ValueError, match="read-only"):
        cache.frame_counts[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        cache.frames[0] = 1


def test_ids_and_texts_of_any_script_are_read_back(tmp_path):
    ids, texts = ["a", "ñandú/1", "سلام"], ["", "¿qué?", "سلام دنیا"]
    build_cache(tmp_path, clips=3, ids=ids, texts=texts)
    cache = open_cache(tmp_path)
    assert list(cache.ids) == ids
    assert cache.texts[:] == texts
    assert cache.ids[-1] == "سلام"
    with pytest.raises(IndexError):
        cache.ids[3]


def test_the_content_id_changes_with_the_clips_and_the_fingerprint_does_not(tmp_path):
    build_cache(tmp_path / "a", clips=2)
    build_cache(tmp_path / "b", clips=3)
    first, second = open_cache(tmp_path / "a"), open_cache(tmp_path / "b")
    assert first.fingerprint == second.fingerprint
    assert first.content_id != second.content_id


def test_an_empty_text_column_of_no_clips_opens(tmp_path):
    build_cache(tmp_path, clips=0)
    assert open_cache(tmp_path).num_clips == 0
    assert list(open_cache(tmp_path).ids) == []


def test_opening_creates_no_object_per_clip(tmp_path):
    """A hundred thousand clips over one record: a Python object for each would cost several megabytes."""
    import tracemalloc

    build_cache(tmp_path, clips=1, repeat=100_000)
    tracemalloc.start()
    cache = open_cache(tmp_path)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    columns_bytes = sum(column.nbytes for name, column in cache.columns().items() if name not in cache.cold)
    assert cache.num_clips == 100_000
    assert peak_bytes < columns_bytes + 1_000_000


def test_the_cache_needs_no_tensorflow():
    code = "import sys, myxtts.cache.clip_table; sys.exit('tensorflow' in sys.modules or 'matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
