"""Character and word error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from myxtts.evaluation.text_errors import ErrorCount, comparable_text, count_errors, sum_errors

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
    assert sum_errors([long_and_right, short_and_wrong]).word_error == pytest.approx(1 / 7)


def test_an_empty_transcript_is_an_error_of_one():
    assert count_errors("four words are here", "", "en").character_error == 1.0
