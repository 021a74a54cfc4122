"""Where caches are: next to the recordings, in the user's folder, or in the configured one."""

import pytest

from myxtts.cache.location import cache_root, can_be_written, is_bundled, root_next_to, user_cache_folder
from myxtts.config.config import DataConfig
from myxtts.corpus.recipes import bundled_corpus
from myxtts.errors import CacheError


def test_a_cache_is_next_to_recordings_that_can_be_written(tmp_path):
    assert cache_root(tmp_path, DataConfig()) == tmp_path.resolve() / ".myxtts" / "cache" == root_next_to(tmp_path)


def test_the_bundled_corpus_and_folders_that_cannot_be_written_have_theirs_below_the_user_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    assert is_bundled(bundled_corpus())
    assert cache_root(bundled_corpus(), DataConfig()).parent == user_cache_folder() == tmp_path / "user" / "myxtts"
    monkeypatch.setattr("myxtts.cache.location.can_be_written", lambda folder: False)
    assert cache_root(tmp_path, DataConfig()).parent == user_cache_folder()


def test_corpora_of_one_name_do_not_share_a_configured_folder(tmp_path):
    config = DataConfig(cache_dir=str(tmp_path / "caches"))
    one, other = (cache_root(tmp_path / parent / "corpus", config) for parent in "ab")
    assert one != other
    assert one.parent == other.parent == tmp_path / "caches"


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000, "/tmp/" + "y" * 300])
def test_a_configured_folder_that_cannot_exist_is_an_error_with_the_flag(tmp_path, name):
    with pytest.raises(CacheError, match="--cache-dir FOLDER"):
        cache_root(tmp_path, DataConfig(cache_dir=name))


def test_a_folder_below_one_that_can_be_written_can_be_made(tmp_path):
    assert can_be_written(tmp_path / "not" / "yet")
