"""Failures that say nothing about a clip are tried once more, reported, and never remembered."""

import errno
import os

import numpy as np
import pytest

from myxtts.audio.files import probe_audio
from myxtts.cache import changes
from myxtts.cache.location import RATES_NAME
from myxtts.cache.prepare import prepare_cache
from myxtts.cache.worker import do_job
from myxtts.errors import TextError
from tests.cache.sabotage import failing_read, sabotage_workers
from tests.corpus.tiny_corpus import make_corpus, tiny_config, write_metadata, write_tone

ONCE = "marker = Path({marker!r}); first = not marker.exists(); marker.touch()\n        if first: {failure}"
NO_MEMORY = "raise MemoryError"
DISK_ERROR = "raise OSError(errno.EIO, 'Input/output error')"
KILLED = "os.kill(os.getpid(), signal.SIGKILL)"


def remembered(cache):
    return dict(changes.read_rejection_memory(cache).rejected)


def reasons(cache):
    return {rejection.id: rejection.reason for rejection in cache.report.rejections}


@pytest.mark.parametrize("failure", [NO_MEMORY, DISK_ERROR, KILLED])
def test_a_failure_that_happens_once_costs_nothing(tmp_path, monkeypatch, failure):
    make_corpus(tmp_path / "corpus", 4)
    code = failing_read("clip002", ONCE.format(marker=str(tmp_path / "failed"), failure=failure))
    sabotage_workers(monkeypatch, tmp_path / "sabotage", code)
    cache = prepare_cache(tiny_config(), tmp_path / "corpus")
    assert (tmp_path / "failed").exists()
    assert (cache.num_clips, cache.report.rejections) == (4, ())


@pytest.mark.parametrize(
    ("failure", "reason"), [(NO_MEMORY, "decoder failed"), (DISK_ERROR, "missing"), (KILLED, "decoder crashed")]
)
def test_a_failure_that_lasts_is_reported_and_tried_again_by_the_next_run(tmp_path, monkeypatch, failure, reason):
    make_corpus(tmp_path / "corpus", 4)
    with monkeypatch.context() as patch:
        sabotage_workers(patch, tmp_path / "sabotage", failing_read("clip002", failure))
        cache = prepare_cache(tiny_config(), tmp_path / "corpus")
    assert reasons(cache) == {"clip002": reason}
    assert list(cache.report.outcome.failed) == ["clip002"]
    assert remembered(cache) == {}
    cache = prepare_cache(tiny_config(), tmp_path / "corpus")
    assert (cache.num_clips, cache.report.rejections) == (4, ())


def test_a_recording_whose_bytes_cannot_be_read_is_not_called_damaged(tmp_path, monkeypatch):
    """libsndfile reports an I/O error as a file that is cut off."""
    make_corpus(tmp_path / "corpus", 3)
    sabotage_workers(monkeypatch, tmp_path / "sabotage", failing_read("clip001", "raise soundfile.LibsndfileError(2)"))
    (tmp_path / "sabotage" / "worker_on_a_bad_disk.py").write_text(
        "import errno\n"
        "from myxtts.cache import worker\n"
        "hash_file = worker.hash_file\n"
        "def failing(path):\n"
        "    if 'clip001' in path:\n"
        "        raise OSError(errno.EIO, 'Input/output error')\n"
        "    return hash_file(path)\n"
        "worker.hash_file = failing\n"
        "worker.main()\n"
    )
    monkeypatch.setattr("myxtts.cache.worker.WORKER_MODULE", "worker_on_a_bad_disk")
    cache = prepare_cache(tiny_config(), tmp_path / "corpus")
    assert reasons(cache) == {"clip001": "missing"}
    assert "Input/output error" in cache.report.rejections[0].detail
    assert remembered(cache) == {}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("was_prepared", [False, True])
def test_a_pipe_named_like_a_recording_is_rejected_for_good_without_waiting(tmp_path, was_prepared):
    make_corpus(tmp_path, 3)
    if was_prepared:
        prepare_cache(tiny_config(), tmp_path)
    (tmp_path / "wavs" / "clip001.wav").unlink()
    os.mkfifo(tmp_path / "wavs" / "clip001.wav")
    cache = prepare_cache(tiny_config(), tmp_path)
    assert reasons(cache) == {"clip001": "not a regular file"}
    assert "it is a pipe" in cache.report.rejections[0].detail
    assert list(remembered(cache)) == ["clip001"]


def test_a_recording_that_may_not_be_read_is_rejected_with_that_reason_for_now(monkeypatch, tmp_path):
    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr("myxtts.audio.files.open_regular_file", refuse)
    head, _ = do_job(probe_audio, str(tmp_path / "a.wav"))
    assert (head["rejected"], head["transient"]) == ("permission denied", True)
    assert "Permission denied" in head["detail"]


def test_a_phonemizer_that_cannot_start_ends_the_run_in_one_line(tmp_path, monkeypatch):
    """A full temporary folder is no property of thirty texts."""
    make_corpus(tmp_path / "corpus", 3)
    with monkeypatch.context() as patch:
        sabotage_workers(
            patch,
            tmp_path / "sabotage",
            "from myxtts.errors import TextError\n"
            "from myxtts.text.tokenizer import FrontEnd\n"
            "def symbols_of(self, texts, language):\n"
            "    raise TextError('espeak-ng cannot be started. Free some space in /tmp') from OSError(28, 'No space')\n"
            "FrontEnd.symbols_of = symbols_of\n",
        )
        with pytest.raises(TextError, match="Free some space in /tmp"):
            prepare_cache(tiny_config(), tmp_path / "corpus")
    cache = prepare_cache(tiny_config(), tmp_path / "corpus")
    assert (cache.num_clips, cache.report.rejections) == (3, ())


def test_retry_looks_again_at_what_was_rejected(tmp_path, monkeypatch):
    """As after an upgrade of a decoder: the file is the same, the outcome is another."""
    make_corpus(tmp_path / "corpus", 3)
    with monkeypatch.context() as patch:
        sabotage_workers(patch, tmp_path / "sabotage", failing_read("clip001", "raise ValueError('not supported')"))
        cache = prepare_cache(tiny_config(), tmp_path / "corpus")
    assert list(remembered(cache)) == ["clip001"]
    assert prepare_cache(tiny_config(), tmp_path / "corpus").num_clips == 2
    cache = prepare_cache(tiny_config(), tmp_path / "corpus", retry=True)
    assert (cache.num_clips, cache.report.outcome.added, cache.report.rejections) == (3, 1, ())


def test_rejections_of_another_decoder_are_forgotten(tmp_path, monkeypatch):
    lines = make_corpus(tmp_path, 2)
    (tmp_path / "wavs" / "bad.wav").write_text("nothing")
    write_metadata(tmp_path, lines | {"bad": "two"})
    cache = prepare_cache(tiny_config(), tmp_path)
    assert list(remembered(cache)) == ["bad"]
    monkeypatch.setattr(changes, "DECODER", "libsndfile 99")
    assert remembered(cache) == {}


def test_a_recording_that_could_not_be_probed_is_probed_again(tmp_path, monkeypatch):
    """An unreadable format today may be readable after an upgrade; `rates.npy` must not say otherwise."""
    lines = make_corpus(tmp_path / "corpus", 2)
    write_tone(tmp_path / "corpus" / "wavs" / "other.wav")
    write_metadata(tmp_path / "corpus", lines | {"other": "two"})
    with monkeypatch.context() as patch:
        sabotage_workers(
            patch,
            tmp_path / "sabotage",
            "import soundfile\n"
            "opened = soundfile.SoundFile.__init__\n"
            "def init(self, file, *args, **kwargs):\n"
            "    if 'other' in str(file):\n"
            "        raise soundfile.LibsndfileError(1)\n"
            "    opened(self, file, *args, **kwargs)\n"
            "soundfile.SoundFile.__init__ = init\n",
        )
        cache = prepare_cache(tiny_config(), tmp_path / "corpus")
    rates = np.load(cache.folder.parent / RATES_NAME)
    assert (rates["rate"] > 0).all()
    assert len(rates) == 2
    prepare_cache(tiny_config(), tmp_path / "corpus", retry=True)
    assert len(np.load(cache.folder.parent / RATES_NAME)) == 3
