"""Persian text as letters, diacritics and words."""

import pytest

from myxtts.text.persian_letters import KASRA, PAUSE, Line, add_ezafe, read_line


def words_of(line: Line) -> list[str]:
    return [line.text_of(word) for word in line.words]


def test_words_pauses_and_joiners():
    line = read_line("كتاب، می\u200cروم  خانه!")
    assert words_of(line) == ["کتاب", "می\u200cروم", "خانه"]
    assert line.letters == f"کتاب{PAUSE}می\u200cروم خانه"


def test_diacritics_belong_to_the_letter_before_them():
    line = read_line("کتابِ من")
    assert line.letters == "کتاب من"
    assert [index for index, marks in enumerate(line.marks) if marks] == [3]
    assert line.marks[3] == 1 << KASRA


@pytest.mark.parametrize("text", ["", " ", "123", "\u200c", "ِ", "hello!"])
def test_a_text_without_persian_letters_has_no_words(text):
    assert read_line(text).words == ()


@pytest.mark.parametrize(("word", "expected"), [("ketɑb", "ketɑbe"), ("xɑne", "xɑneje"), ("sinemɑ", "sinemɑje")])
def test_the_ezafe_has_a_glide_after_a_vowel(word, expected):
    assert add_ezafe(word) == expected
