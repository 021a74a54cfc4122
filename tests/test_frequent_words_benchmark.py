"""How frequent words are ranked for the lexicon of exports."""

import math

from benchmarks.frequent_words import rank_words, usual_forms


def test_a_word_is_written_as_it_is_most_often():
    counts = {"the": 50, "The": 20, "NASA": 9, "nasa": 2, "Nasa": 1, "n't": 90, "42": 90}
    forms = usual_forms({written: math.log(count / 1000) for written, count in counts.items()})
    assert list(forms.items()) == [("the", "the"), ("nasa", "NASA")]


def test_words_are_ranked_by_their_frequencies_in_all_collections():
    assert rank_words(["a", "b", "c"], ["c", ",", "b"]) == ["c", "a", "b"]
