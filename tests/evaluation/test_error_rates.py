"""Character and word error."""

import pytest

from myxtts.evaluation.metrics import ErrorCount, comparable_text, count_errors, edit_distance, sum_errors


@pytest.mark.parametrize(
    ("expected", "received", "edits"),
    [("", "", 0), ("abc", "", 3), ("", "ab", 2), ("kitten", "sitting", 3), ("flaw", "lawn", 2), ("ab", "ba", 2)],
)
def test_edit_distance_counts_the_fewest_edits(expected, received, edits):
    assert edit_distance(expected, received) == edits


def test_written_numbers_case_and_punctuation_are_no_errors():
    assert count_errors("It's 3 o'clock, Anna!", "its three oclock anna", "en").character_edits == 0


def test_letters_of_other_scripts_survive():
    assert comparable_text("«Привет», мир!", "ru") == "привет мир"


def test_a_wrong_word_is_one_word_error_and_its_letters():
    errors = count_errors("press one now", "press won now", "en")
    assert errors == ErrorCount(character_edits=2, characters=13, word_edits=1, words=3)


def test_rates_over_sentences_are_one_sum_over_one_count():
    long_and_right = count_errors("this is a rather long sentence", "this is a rather long sentence", "en")
    short_and_wrong = count_errors("yes", "no", "en")
    assert sum_errors([long_and_right, short_and_wrong]).word_error == pytest.approx(1 / 7)


def test_hearing_nothing_is_an_error_of_one():
    assert count_errors("four words are here", "", "en").character_error == 1.0
