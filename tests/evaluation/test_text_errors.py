"""Errors of recognized texts, and clips that failed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from myxtts.evaluation.text_errors import (
    CHARACTERS_PER_SECOND,
    ErrorCount,
    comparable_text,
    count_errors,
    find_failure,
    speaking_rate,
    sum_errors,
)
from tests.evaluation.made_up_voice import RATE, tone

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
