"""Which sentence is read next, whether a take is usable, and the corpus that takes go to."""

import numpy as np
import pytest

from myxtts.corpus.manifest import read_manifest
from myxtts.errors import CorpusError
from myxtts.serving import recorder
from myxtts.serving.recorder import Prompt, check_take, choose_prompts, create_corpus, open_corpus, prompts_of
from myxtts.text import g2p
from myxtts.text.normalize import normalize_text

RATE = 16000


def speech(seconds=3.0, level=0.1, noise=1e-4, silence=0.5):
    """A buzz with a syllable rhythm between silences."""
    generator = np.random.default_rng(1)
    time = np.arange(round(seconds * RATE)) / RATE
    buzz = level * np.sign(np.sin(2 * np.pi * 110 * time)) * (0.7 + 0.3 * np.sin(2 * np.pi * 4 * time))
    quiet = np.zeros(round(silence * RATE))
    samples = np.concatenate([quiet, buzz, quiet])
    return (samples + generator.normal(0, noise, len(samples))).astype(np.float32)


@pytest.mark.parametrize("language", recorder.LANGUAGES)
def test_the_sentences_are_many_different_and_cover_the_sounds_of_the_language(language):
    prompts = prompts_of(language)
    sounds = {sound for prompt in prompts for pair in prompt.pairs for sound in pair}
    assert len(prompts) >= 150
    assert len({prompt.id for prompt in prompts}) == len(prompts)
    assert sounds - {recorder.PAUSE} <= g2p.INVENTORY
    assert len(sounds) > 25


@pytest.mark.parametrize("language", recorder.LANGUAGES)
def test_the_stored_phonemes_are_those_of_our_g2p(language):
    prompts = prompts_of(language)[:3]
    spoken = g2p.phonemize([normalize_text(prompt.text, language) for prompt in prompts], language)
    for prompt, phonemes in zip(prompts, spoken, strict=True):
        now = recorder.pairs_of(recorder.sounds_of(phonemes))
        # A model that was trained again may read a word differently.
        assert len(now & prompt.pairs) > 0.7 * len(now), prompt.text


def test_the_next_sentence_has_the_most_pairs_that_are_missing():
    prompts = [
        Prompt("a", "a", "en", 4, frozenset({"ab", "bc", "cd"})),
        Prompt("b", "b", "en", 5, frozenset({"ab", "bc", "xy", "yz"})),
        Prompt("c", "c", "en", 3, frozenset({"cd", "de"})),
        Prompt("d", "d", "en", 9, frozenset({"cd", "de"})),
    ]
    assert [each.id for each in choose_prompts(prompts, (), 2)] == ["b", "c"]  # of two equals the shorter one
    assert choose_prompts(prompts, {"ab", "bc", "xy", "yz"}, 1)[0].id == "c"


def test_half_of_the_english_pairs_are_covered_by_twenty_sentences():
    prompts = prompts_of("en")
    every = frozenset().union(*(prompt.pairs for prompt in prompts))
    covered = frozenset().union(*(prompt.pairs for prompt in choose_prompts(prompts, (), 20)))
    assert len(covered) > 0.5 * len(every)


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
