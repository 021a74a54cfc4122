"""What the tests of the cache share."""

import shutil

import pytest

from myxtts.cache.prepare import prepare_cache
from tests.cache.cache_builder import CLIPS
from tests.corpus.tiny_corpus import make_corpus, tiny_config


@pytest.fixture(scope="session")
def prepared_once(tmp_path_factory):
    """A corpus of `CLIPS` tones, prepared; not to be changed."""
    folder = tmp_path_factory.mktemp("corpus")
    make_corpus(folder, CLIPS)
    prepare_cache(tiny_config(), folder)
    return folder


@pytest.fixture
def corpus(prepared_once, tmp_path):
    """A prepared corpus that a test may change."""
    shutil.copytree(prepared_once, tmp_path / "corpus")
    return tmp_path / "corpus"
