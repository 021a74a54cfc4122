"""Files that are missing, damaged, older or made with other settings are refused, or read with what they lack."""

import zlib

import numpy as np
import pytest

from myxtts.audio.mel import MelSpec
from myxtts.cache.clip_table import open_cache
from myxtts.cache.format import COLUMN_TYPES, FIRST_COLD_COLUMN, HEADER_NAME, HOT_COLUMNS, column_offsets
from myxtts.errors import CacheError
from tests.cache.cache_builder import build_cache, edit_header, make_older, settings


def test_no_cache_is_an_error_that_says_what_to_run(tmp_path):
    with pytest.raises(CacheError, match="myxtts prepare"):
        open_cache(tmp_path)


def test_other_settings_are_refused_with_what_differs(tmp_path):
    build_cache(tmp_path, clips=1)
    other = settings(mel=MelSpec(22050, f_max=8000.0))
    with pytest.raises(CacheError, match=r"mel\.sample_rate: 16000 in the cache, 22050 now"):
        open_cache(tmp_path, expected_settings=other.to_dict())


@pytest.mark.parametrize(
    "change",
    [
        {"trim_silence_db": None},
        {"trim_noise_db": None},
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
