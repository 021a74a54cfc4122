"""Metrics of one clip: distance to a recording, quality, similarity of the speaker, errors of the text, failures."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from myxtts.audio.clips import track_pitch
from myxtts.audio.files import read_audio
from myxtts.audio.mel import MelSpec
from myxtts.corpus.corpus import bundled_corpus, read_manifest
from myxtts.evaluation.clip_metrics import (
    CHARACTERS_PER_SECOND,
    ErrorCount,
    NaturalnessJudge,
    SpeakerEmbedder,
    align,
    comparable_text,
    compare_with_recording,
    count_errors,
    find_failure,
    log_f0_squares,
    measure_pesq,
    speaker_similarities,
    speaking_rate,
    sum_errors,
)
from myxtts.evaluation.metrics import has_package
from tests.evaluation.made_up_voice import RATE, sweep, tone

pytest.importorskip("librosa")
MEL = MelSpec(RATE)
needs_pyworld = pytest.mark.skipif(importlib.util.find_spec("pyworld") is None, reason="pyworld is not installed")


def compare(samples, recording, *metrics):
    return compare_with_recording(samples, recording, MEL, metrics or ("mcd", "duration_error"))


@settings(max_examples=30, deadline=None)
@given(arrays.arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 5)), elements=st.floats(0, 10, width=16)))
def test_the_path_is_monotonic_and_no_other_path_is_cheaper(distances):
    def cheapest(row, column):
        if row < 0 or column < 0:
            return np.inf
        if row == column == 0:
            return distances[0, 0]
        before = min(cheapest(row - 1, column), cheapest(row, column - 1), cheapest(row - 1, column - 1))
        return distances[row, column] + before

    path = align(distances)
    last = (distances.shape[0] - 1, distances.shape[1] - 1)
    assert tuple(path[0]) == (0, 0)
    assert tuple(path[-1]) == last
    steps = np.diff(path, axis=0)
    assert ((steps >= 0) & (steps <= 1)).all()
    assert (steps.sum(axis=1) > 0).all()
    assert distances[tuple(path.T)].sum() == pytest.approx(cheapest(*last))


def test_a_clip_is_no_distance_from_itself_at_any_level():
    result = compare(0.5 * sweep(1.0), sweep(1.0))
    assert result["mcd"].value == pytest.approx(0.0, abs=0.1)
    assert result["duration_error"].numerator == 0.0


def test_the_same_sounds_spoken_slower_are_nearer_than_other_sounds():
    slower, other = compare(sweep(1.5), sweep(1.0)), compare(tone(3, 1.0), sweep(1.0))
    assert 2 * slower["mcd"].value < other["mcd"].value
    assert slower["duration_error"].value == pytest.approx(0.5, rel=0.05)


def test_silence_at_the_ends_counts_for_nothing():
    quiet = np.zeros(RATE // 2, np.float32)
    padded = compare(np.concatenate([quiet, sweep(1.0), quiet]), sweep(1.0))
    assert padded["duration_error"].value < 0.07


def test_distortion_is_the_rms_difference_of_the_spectra_in_decibels():
    noise = np.random.default_rng(0).normal(0, 0.05, RATE).astype(np.float32)
    tilted = np.convolve(noise, [1.0, 0.9])[:RATE].astype(np.float32)
    assert 2.0 < compare(tilted, noise)["mcd"].value < 8.0


def test_a_silent_clip_cannot_be_compared():
    assert compare(np.zeros(RATE, np.float32), sweep(1.0)) == {}


def test_pitch_is_compared_where_both_frames_are_voiced():
    path = np.array([[0, 0], [1, 0], [1, 1], [2, 2], [3, 3]])
    squares = log_f0_squares(np.array([100.0, 200.0, 0.0]), np.array([100.0, 100.0, 50.0]), path)
    assert squares == pytest.approx([0.0, np.log(2) ** 2, np.log(2) ** 2])


@needs_pyworld
def test_the_tracker_follows_a_gliding_pitch():
    f0 = track_pitch(sweep(2.0, 120.0, 240.0), MEL)
    expected = 120.0 + 120.0 * np.arange(len(f0)) * MEL.hop_length / RATE / 2.0
    voiced = f0 > 0
    assert voiced[5:-5].mean() > 0.9
    assert np.median(np.abs(np.log(f0[voiced] / expected[voiced]))) < 0.01


@needs_pyworld
def test_log_f0_error_is_the_logarithm_of_a_transposition():
    result = compare(sweep(1.0, 150.0, 150.0), sweep(1.0, 120.0, 120.0), "log_f0_rmse")
    assert result["log_f0_rmse"].value ** 0.5 == pytest.approx(np.log(1.25), abs=0.02)


@needs_pyworld
def test_clips_without_voiced_frames_have_no_log_f0_error():
    noise = np.random.default_rng(0).normal(0, 0.05, RATE).astype(np.float32)
    assert compare(np.diff(noise, n=8).astype(np.float32), np.diff(noise, n=8).astype(np.float32), "log_f0_rmse") == {}


@pytest.fixture(scope="module")
def clip():
    return read_audio(read_manifest(bundled_corpus(), split="validation").utterances[0].path)


@pytest.fixture(scope="module")
def noisy(clip):
    return clip[0] + np.random.default_rng(0).normal(0, 0.05, len(clip[0])).astype(np.float32)


def test_noise_lowers_dnsmos(clip, noisy):
    pytest.importorskip("speechmos")
    judge = NaturalnessJudge.load()
    samples, rate = clip
    assert judge.score(noisy, rate) < judge.score(samples, rate) - 0.5
    assert judge.score(0.1 * samples, rate) == pytest.approx(judge.score(samples, rate), abs=0.02)
    assert judge.score(np.zeros(0, np.float32), rate) == 1.0


def test_pesq_is_highest_for_the_recording_itself_and_lower_with_noise(clip, noisy):
    pytest.importorskip("pesq")
    samples, rate = clip
    assert measure_pesq(samples, samples, rate) > 4.6
    assert measure_pesq(noisy, samples, rate) < 3.0


@pytest.mark.parametrize("samples", [np.zeros(16000, np.float32), np.full(100, 0.1, np.float32)])
def test_pesq_of_a_clip_without_speech_is_not_measured(samples, clip):
    pytest.importorskip("pesq")
    assert measure_pesq(samples, samples, clip[1]) is None


@pytest.mark.skipif(not has_package("resemblyzer"), reason="resemblyzer is not installed")
def test_a_lowered_voice_is_less_similar_than_the_speaker_herself():
    clips = [read_audio(each.path) for each in read_manifest(bundled_corpus(), split="validation").utterances[:3]]
    embedder = SpeakerEmbedder.load()
    own = [embedder.embed(samples, rate) for samples, rate in clips]
    lowered = [embedder.embed(samples, round(0.75 * rate)) for samples, rate in clips]
    own_similarity = np.mean(speaker_similarities(own, own, ["her"] * 3))
    assert own_similarity > 0.8
    assert np.mean(speaker_similarities(lowered, own, ["her"] * 3)) < own_similarity - 0.1
    assert embedder.embed(np.zeros(16000, np.float32), 16000) is None


def test_similarity_leaves_out_the_recording_of_the_same_sentence():
    east, north = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    assert speaker_similarities([east, north], [east, north], ["a", "a"]) == pytest.approx([0.0, 0.0])
    assert speaker_similarities([north, None], [east, north], ["a", "a"]) == pytest.approx([1.0, 0.0])


def test_similarity_of_a_speaker_with_one_recording_is_not_measured():
    east = np.array([1.0, 0.0])
    assert speaker_similarities([east], [east], ["a"]) == [None]


WORDS = st.lists(st.sampled_from(["press", "one", "two", "now", "please"]), max_size=5)


@given(WORDS, WORDS)
def test_edits_are_symmetric_bounded_by_the_longer_text_and_zero_only_for_equal_texts(expected, recognized):
    one, other = " ".join(expected), " ".join(recognized)
    errors, reverse = count_errors(one, other, "en"), count_errors(other, one, "en")
    assert errors.word_edits == reverse.word_edits <= max(len(expected), len(recognized))
    assert errors.character_edits == reverse.character_edits <= max(len(one), len(other))
    assert (errors.character_edits == 0) == (one == other)


def test_written_numbers_case_and_punctuation_are_no_errors():
    assert count_errors("It's 3 o'clock, Anna!", "its three oclock anna", "en").character_edits == 0


def test_letters_of_other_scripts_are_kept():
    assert comparable_text("«Привет», мир!", "ru") == "привет мир"


def test_a_wrong_word_is_one_word_error_and_its_letters():
    errors = count_errors("press one now", "press won now", "en")
    assert errors == ErrorCount(character_edits=2, characters=13, word_edits=1, words=3)


def test_rates_over_sentences_are_one_sum_over_one_count():
    long_and_right = count_errors("this is a rather long sentence", "this is a rather long sentence", "en")
    short_and_wrong = count_errors("yes", "no", "en")
    total = sum_errors([long_and_right, short_and_wrong])
    assert (total.word_edits, total.words) == (1, 7)


def test_an_empty_transcript_is_an_error_of_one():
    assert count_errors("four words are here", "", "en").character_error == 1.0


TEXT = "a second one is spoken"


@pytest.mark.parametrize(
    ("samples", "failure"),
    [
        (tone(1), None),
        (np.zeros(RATE, np.float32), "silent"),
        (np.zeros(0, np.float32), "silent"),
        (1e-4 * tone(1), "silent"),
        (np.clip(20 * tone(1), -1, 1), "clipped"),
        (np.append(tone(1), np.float32(np.nan)), "not finite"),
        (tone(1, 0.5), "too short"),
        (tone(1, 5.0), "too long"),
    ],
)
def test_a_failure_is_found_in_the_samples_alone(samples, failure):
    assert find_failure(samples, RATE, TEXT, "en") == failure


def test_a_misrecognized_sentence_of_four_words_failed():
    assert find_failure(tone(1), RATE, TEXT, "en", count_errors(TEXT, "ooh", "en")) == "not understood"


def test_a_misrecognized_sentence_of_three_words_did_not_fail():
    errors = count_errors("she said so", "ooh", "en")
    assert find_failure(tone(1, 0.8), RATE, "she said so", "en", errors) is None


def test_one_word_may_last_longer_than_its_letters():
    assert find_failure(tone(1, 0.7), RATE, "Yes.", "en") is None


def test_numbers_need_the_time_of_their_words():
    assert find_failure(tone(1, 2.5), RATE, "1,234,567", "en") is None


def test_speaking_rate_is_one_sum_over_one_count():
    assert speaking_rate([("abcd", "en", 1.0), ("ab", "en", 2.0)]) == 2.0
    assert speaking_rate([]) == CHARACTERS_PER_SECOND
