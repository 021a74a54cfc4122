"""The opened cache and the files beneath it."""

import subprocess
import sys
import zlib

import numpy as np
import pytest

from myxtts.audio.mel import MelSpec
from myxtts.cache.format import (
    COLUMN_TYPES,
    FIRST_COLD_COLUMN,
    HEADER_NAME,
    HOT_COLUMNS,
    CacheSettings,
    column_offsets,
    open_cache,
)
from myxtts.errors import CacheError
from tests.cache.cache_builder import build_cache, edit_header, make_older, settings


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


def test_no_cache_is_an_error_that_says_what_to_run(tmp_path):
    with pytest.raises(CacheError, match="myxtts prepare"):
        open_cache(tmp_path)


def test_other_settings_are_refused_with_what_differs(tmp_path):
    build_cache(tmp_path, clips=1)
    other = CacheSettings(MelSpec(22050, f_max=8000.0), 45.0, -23.0, 0.3, 30.0, "graphemes", "x")
    with pytest.raises(CacheError, match=r"mel\.sample_rate: 16000 in the cache, 22050 now"):
        open_cache(tmp_path, expected_settings=other.to_dict())


@pytest.mark.parametrize(
    "change",
    [
        {"trim_silence_db": None},
        {"loudness_db": -20.0},
        {"min_seconds": 0.4},
        {"max_seconds": 20.0},
        {"front_end_kind": "phonemes"},
        {"front_end_fingerprint": "y"},
        {"mel": MelSpec(16000, n_mels=64)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_setting_changes_the_fingerprint(change):
    assert settings(**change).fingerprint != settings().fingerprint


@pytest.mark.parametrize("field", ["frames_file", "tokens_file", "index_file", "strings_file"])
def test_a_file_that_lost_bytes_is_refused(tmp_path, field):
    build_cache(tmp_path, clips=4)
    path = tmp_path / open_cache(tmp_path).header[field]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CacheError, match="verify --fix"):
        open_cache(tmp_path)


@pytest.mark.parametrize("field", ["frames_file", "tokens_file", "index_file", "strings_file"])
def test_a_missing_file_is_named(tmp_path, field):
    build_cache(tmp_path, clips=1)
    path = tmp_path / open_cache(tmp_path).header[field]
    path.unlink()
    with pytest.raises(CacheError, match=f"{path.name} is missing"):
        open_cache(tmp_path)


def test_a_flipped_bit_in_the_columns_is_noticed_on_opening(tmp_path):
    build_cache(tmp_path, clips=4)
    path = tmp_path / open_cache(tmp_path).header["index_file"]
    data = bytearray(path.read_bytes())
    data[3] ^= 16
    path.write_bytes(data)
    with pytest.raises(CacheError, match="checksum"):
        open_cache(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"clips": 3}', b"\xff\xfe"])
def test_a_header_that_is_not_ours_is_refused(tmp_path, content):
    build_cache(tmp_path, clips=1)
    (tmp_path / HEADER_NAME).write_bytes(content)
    with pytest.raises(CacheError, match="damaged"):
        open_cache(tmp_path)


def test_an_edited_header_is_refused(tmp_path):
    build_cache(tmp_path, clips=1)
    header = tmp_path / HEADER_NAME
    header.write_text(header.read_text().replace('"n_mels": 80', '"n_mels": 40'))
    with pytest.raises(CacheError, match="checksum"):
        open_cache(tmp_path)


def test_a_cache_of_0_1_0_opens_with_the_fields_that_it_lacks(tmp_path):
    written = build_cache(tmp_path, clips=3)
    make_older(tmp_path)
    cache = open_cache(tmp_path)
    assert (cache.license, cache.attribution) == ("", "")
    np.testing.assert_array_equal(cache.clip_frames(2), written[2][0])
    assert list(cache.ids) == ["clip0", "clip1", "clip2"]


def test_columns_that_this_version_does_not_know_are_skipped(tmp_path):
    """A later version may add columns, here one byte per clip before the cold columns and one at the end."""
    build_cache(tmp_path, clips=70)
    before = open_cache(tmp_path)
    ids, expected = list(before.ids), {name: column.copy() for name, column in before.columns().items()}
    index_path = tmp_path / before.header["index_file"]
    data = index_path.read_bytes()
    hot_bytes = column_offsets(COLUMN_TYPES, 70)[0][FIRST_COLD_COLUMN]
    data = data[:hot_bytes] + bytes(128) + data[hot_bytes:] + bytes(128)
    index_path.write_bytes(data)
    hot = {name: dtype for name, dtype in COLUMN_TYPES.items() if name in HOT_COLUMNS}
    cold = {name: dtype for name, dtype in COLUMN_TYPES.items() if name not in HOT_COLUMNS}
    columns = {**hot, "later": "|u1", **cold, "other": "|u1"}
    checksums = {"hot_checksum": zlib.crc32(data[: hot_bytes + 128]), "index_checksum": zlib.crc32(data)}
    edit_header(tmp_path, lambda header: header.update(columns=columns, **checksums))
    cache = open_cache(tmp_path)
    assert list(cache.ids) == ids
    for name, column in expected.items():
        np.testing.assert_array_equal(cache.columns()[name], column)


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
    code = "import sys, myxtts.cache.format; sys.exit('tensorflow' in sys.modules or 'matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
