"""The language that a corpus was prepared in is used again, and another one is announced."""

import pytest

from myxtts.cache.prepare import prepare_cache
from myxtts.cache.prepared_language import language_notices, with_prepared_language
from myxtts.corpus.corpus import read_corpus
from tests.corpus.tiny_corpus import make_corpus, tiny_config


@pytest.fixture
def german(tmp_path):
    make_corpus(tmp_path, 2)
    prepare_cache(tiny_config(language="de"), tmp_path)
    return tmp_path


def test_a_corpus_keeps_the_language_that_it_was_prepared_in(german):
    lines = []
    assert with_prepared_language(tiny_config(), german, lines.append).language == "de"
    assert lines == [
        "Language: de, because this corpus was prepared with it. Change it with --language (data.language)."
    ]
    assert prepare_cache(tiny_config(), german).report.outcome.kept == 2


def test_a_named_language_wins(german):
    assert with_prepared_language(tiny_config(language="nl"), german, pytest.fail).language == "nl"


def test_a_damaged_cache_says_nothing_about_the_language(german):
    (header,) = german.glob(".myxtts/cache/*/cache.json")
    header.write_text("{")
    assert with_prepared_language(tiny_config(), german, pytest.fail).language is None


def test_texts_in_another_language_than_before_are_announced(german):
    lines = []
    prepare_cache(tiny_config(language="nl"), german, announce=lines.append)
    (warning,) = [line for line in lines if line.startswith("Warning")]
    assert "texts in de; now they are read as nl" in warning
    utterances = read_corpus(tiny_config(language="nl"), german).utterances
    assert language_notices(["nl"], utterances) == ()
    assert language_notices(["nl", "de"], utterances) == ()
