"""Scores of a G2P."""

import pytest

from benchmarks.pronunciation import PronunciationScore, edit_distance, fold_persian, score_sentence


def scored(expected: list[str], heard: str, ezafe=frozenset(), homographs=frozenset()) -> PronunciationScore:
    score = PronunciationScore()
    score_sentence(score, expected, heard, frozenset(ezafe), frozenset(homographs))
    return score


def test_what_is_not_scored_is_folded():
    assert fold_persian("ʔˈaɣɾaːb tʃe") == "æqræbʧe"


def test_a_missing_ezafe_is_one_error_in_one_word():
    score = scored(["ketɑbe", "mæn"], "ketɑbmæn", ezafe={0})
    assert (score.errors, score.phonemes) == (1, 9)
    assert (score.words_right, score.words) == (1, 2)
    assert score.ezafe_f1 == 0
    assert score.wrong_words == [("ketɑbe", "ketɑb")]


def test_an_added_ezafe_belongs_to_the_word_before_it():
    score = scored(["ketɑb", "mæn"], "ketɑbemæn")
    assert score.ezafe_wrong == 1
    assert score.words_right == 1


@pytest.mark.parametrize(("heard", "right"), [("kermxub", 1), ("kermexub", 1), ("keremxub", 0)])
def test_a_homograph_is_right_with_or_without_its_ezafe(heard, right):
    assert scored(["kerme", "xub"], heard, ezafe={0}, homographs={0}).homographs_right == right


def test_edit_distance():
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance("", "abc") == 3
