"""What a cache remembers of rejected clips is read back; a damaged file only means that they are tried again."""

import pytest

from myxtts.cache.format import open_cache
from myxtts.cache.rejection_memory import RejectionMemory, RememberedRejection, read_rejection_memory
from tests.cache.cache_builder import build_cache

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
