"""What a worker answers to each kind of job."""

import dataclasses

import numpy as np
import pytest

from myxtts.audio.clips import load_clip
from myxtts.audio.mel import MelSpec, mel_numpy
from myxtts.cache.worker import build_jobs, do_job, hash_file, worker_count, worker_setup
from myxtts.text.tokenizer import build_front_end
from tests.corpus.tiny_corpus import tiny_config, write_tone


@pytest.fixture
def jobs():
    return build_jobs(worker_setup(tiny_config(), build_front_end("graphemes")))


@pytest.fixture
def recording(tmp_path):
    write_tone(tmp_path / "tone.wav")
    return str(tmp_path / "tone.wav")


def test_a_recording_becomes_its_hash_and_its_mel(jobs, recording):
    head, payload = do_job(jobs["audio"], [recording, 16000, None, False])
    spec = MelSpec.from_config(tiny_config(), 16000)
    expected = mel_numpy(load_clip(recording, tiny_config(), 16000), spec)
    assert (head["hash"], head["frames"]) == (hash_file(recording), len(expected))
    assert 0 < head["bandwidth"] <= 8000
    np.testing.assert_array_equal(np.frombuffer(payload, "<f4").reshape(expected.shape), expected)
    assert do_job(jobs["length"], [recording, 16000])[0] == {"frames": len(expected)}
    assert do_job(jobs["probe"], recording)[0] == {"samples": 12800, "rate": 16000}


def test_a_recording_that_is_already_prepared_is_not_decoded(jobs, recording, monkeypatch):
    monkeypatch.setattr("myxtts.cache.worker.load_clip", lambda *_: pytest.fail("decoded"))
    assert do_job(jobs["audio"], [recording, 16000, hash_file(recording), False]) == (
        {"hash": hash_file(recording)},
        b"",
    )


def test_a_changed_recording_is_decoded(jobs, recording):
    assert "frames" in do_job(jobs["audio"], [recording, 16000, "0" * 32, False])[0]


@pytest.mark.parametrize("known_hash", [None, "0" * 32])
def test_a_missing_recording_is_a_transient_failure_with_its_path(jobs, tmp_path, known_hash):
    head, _ = do_job(jobs["audio"], [str(tmp_path / "gone.wav"), 16000, known_hash, False])
    assert (head["rejected"], head["transient"]) == ("missing", True)
    assert "gone.wav" in head["detail"]


def test_texts_become_symbols(jobs):
    assert do_job(jobs["text"], {"language": "en", "texts": ["One", "two"]})[0] == {
        "texts": [{"symbols": "one"}, {"symbols": "two"}]
    }


def test_the_number_of_processes_is_asked_for_configured_or_that_of_the_cores(monkeypatch):
    monkeypatch.setattr("myxtts.cache.worker.usable_cores", lambda: 7)
    config = tiny_config(num_workers=3)
    assert worker_count(config, 5) == 5
    assert worker_count(config) == 3
    assert worker_count(dataclasses.replace(config, num_workers="auto")) == 7
