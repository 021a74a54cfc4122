"""Where caches are, and what they take from the corpus: the rates of its recordings, the language it was prepared in."""

import contextlib
import shutil

import numpy as np
import pytest

from myxtts.cache import location
from myxtts.cache.location import (
    RATES_NAME,
    cache_root,
    can_be_written,
    common_voice_rate,
    is_bundled,
    known_rates,
    language_notices,
    most_frequent_rate,
    probe_rates,
    root_next_to,
    user_cache_folder,
    with_prepared_language,
)
from myxtts.cache.prepare import prepare_cache
from myxtts.cache.worker import open_workers
from myxtts.config.config import DataConfig
from myxtts.corpus.corpus import bundled_corpus, read_corpus
from myxtts.errors import CacheError, CorpusError
from myxtts.runtime.progress import ignore_progress
from myxtts.runtime.workers import WorkerPool
from myxtts.text.tokenizer import build_front_end
from tests.corpus.tiny_corpus import make_corpus, tiny_config, write_tone


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


@pytest.fixture
def probe(monkeypatch):
    """Probes a folder; returns the rates and the paths that were opened."""
    opened = []
    run = WorkerPool.run

    def watched(pool, kind, items, *rest):
        opened.extend(items)
        return run(pool, kind, items, *rest)

    monkeypatch.setattr(WorkerPool, "run", watched)

    def probe(folder):
        opened.clear()
        with open_workers(tiny_config(), build_front_end("graphemes"), 1) as pool:
            rates = probe_rates(read_corpus(tiny_config(), folder), folder / RATES_NAME, pool, ignore_progress)
        return rates, [path.rpartition("/")[2] for path in opened]

    return probe


def test_only_new_changed_and_unreadable_recordings_are_opened(tmp_path, probe):
    make_corpus(tmp_path / "corpus", 3)
    (tmp_path / "corpus" / "wavs" / "clip002.wav").write_text("nothing")
    rates, opened = probe(tmp_path / "corpus")
    assert rates["rate"].tolist() == [16000, 16000, 0]
    assert len(opened) == 3
    assert probe(tmp_path / "corpus")[1] == ["clip002.wav"]
    write_tone(tmp_path / "corpus" / "wavs" / "clip000.wav", seconds=1.5, rate=8000)
    rates, opened = probe(tmp_path / "corpus")
    assert (rates["rate"].tolist(), opened) == ([8000, 16000, 0], ["clip000.wav", "clip002.wav"])
    assert rates["samples"][0] == 12000


def test_recordings_are_opened_once_although_two_processes_prepare_them(tmp_path, probe, monkeypatch):
    make_corpus(tmp_path, 2)
    folder_lock = location.cache_lock

    @contextlib.contextmanager
    def after_another_process(folder, announce):
        """The lock is free when another process has probed the same recordings."""
        monkeypatch.setattr(location, "cache_lock", folder_lock)
        probe(tmp_path)
        with folder_lock(folder, announce):
            yield

    monkeypatch.setattr(location, "cache_lock", after_another_process)
    rates, opened = probe(tmp_path)
    assert location.cache_lock is folder_lock
    assert (rates["rate"].tolist(), sorted(opened)) == ([16000, 16000], ["clip000.wav", "clip001.wav"])


def test_a_corpus_that_moved_keeps_its_rates(tmp_path, probe):
    make_corpus(tmp_path / "old", 2)
    probe(tmp_path / "old")
    shutil.move(tmp_path / "old", tmp_path / "new")
    corpus = read_corpus(tiny_config(), tmp_path / "new")
    assert known_rates(corpus, tmp_path / "new" / RATES_NAME)["rate"].tolist() == [16000, 16000]
    assert probe(tmp_path / "new")[1] == []


def npy(header: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


HOSTILE_HEADERS = (b"((((", b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999,)}\n")


@pytest.mark.parametrize("content", [b"", b"nothing", None, *map(npy, HOSTILE_HEADERS)])
def test_a_damaged_list_costs_the_probing(tmp_path, probe, content):
    make_corpus(tmp_path, 2)
    path = tmp_path / RATES_NAME
    np.save(path, np.zeros(3)) if content is None else path.write_bytes(content)
    assert probe(tmp_path)[0]["rate"].tolist() == [16000, 16000]


def test_the_most_frequent_rate_wins_and_of_equals_the_lower():
    assert most_frequent_rate(np.array([0, 0, 0, 8000, 16000, 16000])) == 16000
    assert most_frequent_rate(np.array([48000, 16000])) == 16000
    assert common_voice_rate(np.array([16000, 16000, 22050, 44100, 48000])) == 24000
    with pytest.raises(CorpusError, match="None of the recordings"):
        most_frequent_rate(np.zeros(3, int))


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
    assert "texts in de; they are now read as nl" in warning
    utterances = read_corpus(tiny_config(language="nl"), german).utterances
    assert language_notices(["nl"], utterances) == ()
    assert language_notices(["nl", "de"], utterances) == ()
