"""Which sentence is read next, whether a take is usable, and the corpus that takes go to."""

import numpy as np
import pytest

from myxtts.corpus.corpus import read_manifest
from myxtts.errors import CorpusError
from myxtts.serving.recorder import check_take, create_corpus, open_corpus

RATE = 16000


def speech(seconds=3.0, level=0.1, noise=1e-4, silence=0.5):
    """A buzz with a syllable rhythm between silences."""
    generator = np.random.default_rng(1)
    time = np.arange(round(seconds * RATE)) / RATE
    buzz = level * np.sign(np.sin(2 * np.pi * 110 * time)) * (0.7 + 0.3 * np.sin(2 * np.pi * 4 * time))
    quiet = np.zeros(round(silence * RATE))
    samples = np.concatenate([quiet, buzz, quiet])
    return (samples + generator.normal(0, noise, len(samples))).astype(np.float32)


def test_a_good_take_has_no_problem():
    report = check_take(speech(), RATE, 30)
    assert report.problems == ()
    assert report.seconds == pytest.approx(3.0, abs=0.1)


@pytest.mark.parametrize(
    ("samples", "sounds", "problem"),
    [
        (np.zeros(RATE, np.float32), 10, "silent"),
        (np.clip(speech(level=2.0), -1, 1), 30, "clipped"),
        (speech(level=0.006, noise=1e-5), 30, "quiet"),
        (speech(noise=0.02), 30, "noisy"),
        (speech(seconds=0.5), 60, "short"),
        (speech(seconds=8.0), 10, "long"),
        (speech(silence=0.0), 30, "cut"),
    ],
)
def test_a_bad_take_is_recognized(samples, sounds, problem):
    assert problem in check_take(samples, RATE, sounds).problems


def test_takes_become_a_corpus_that_training_reads(tmp_path):
    corpus = create_corpus(tmp_path, "mine", "fa", "سارا")
    first, second = corpus.next_prompts(2)
    corpus.keep(first, speech(), RATE)
    corpus.keep(second, speech(), RATE)
    corpus.keep(first, speech(2.0), RATE)  # recorded again
    found = read_manifest(tmp_path / "mine", "en", "all")
    assert {clip.text for clip in found.utterances} == {first.text, second.text}
    assert {(clip.language, clip.speaker) for clip in found.utterances} == {("fa", "سارا")}
    assert not found.rejected


def test_an_opened_corpus_continues_where_it_was(tmp_path):
    corpus = create_corpus(tmp_path, "mine", "en", "Ada")
    prompt = corpus.next_prompts(1)[0]
    corpus.keep(prompt, speech(), RATE)
    again = open_corpus(tmp_path / "mine")
    assert again.progress() == corpus.progress()
    assert again.progress().covered_pairs == len(prompt.pairs)
    assert prompt not in again.next_prompts(10)
    again.remove(prompt.id)
    assert open_corpus(tmp_path / "mine").progress().clips == 0


def test_a_recording_that_was_never_listed_is_ignored(tmp_path):
    """What kill -9 leaves between the wav and metadata.csv."""
    corpus = create_corpus(tmp_path, "mine", "en", "Ada")
    first, second = corpus.next_prompts(2)
    corpus.keep(first, speech(), RATE)
    (tmp_path / "mine" / "wavs" / f"{second.id}.wav").write_bytes(b"RIFF")
    assert [line.id for line in open_corpus(tmp_path / "mine").kept()] == [first.id]


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "-flag", "x" * 41, "با"])
def test_names_that_are_no_plain_folder_names_are_refused(tmp_path, name):
    with pytest.raises(CorpusError, match="name of a corpus"):
        create_corpus(tmp_path, name, "en", "Ada")
