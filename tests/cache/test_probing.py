"""Rates are probed once for each state of a file, and a damaged list only costs probing again."""

import shutil

import numpy as np
import pytest

from myxtts.cache.probing import RATES_NAME, common_voice_rate, known_rates, most_frequent_rate, probe_rates
from myxtts.cache.worker import worker_setup
from myxtts.cache.writer import ignore_progress
from myxtts.corpus.corpus import read_corpus
from myxtts.errors import CorpusError
from myxtts.runtime.workers import WorkerPool
from myxtts.text.tokenizer import build_front_end
from tests.corpus.tiny_corpus import make_corpus, tiny_config, write_tone


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
        with WorkerPool(worker_setup(tiny_config(), build_front_end("graphemes")), 1) as pool:
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


def test_a_corpus_that_moved_keeps_its_rates(tmp_path, probe):
    make_corpus(tmp_path / "old", 2)
    probe(tmp_path / "old")
    shutil.move(tmp_path / "old", tmp_path / "new")
    corpus = read_corpus(tiny_config(), tmp_path / "new")
    assert known_rates(corpus, tmp_path / "new" / RATES_NAME)["rate"].tolist() == [16000, 16000]
    assert probe(tmp_path / "new")[1] == []


@pytest.mark.parametrize("content", [b"", b"nothing", None])
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
