"""Homographs by context."""

from myxtts.text.context_models import Reading
from myxtts.training.g2p_context_models import HomographExample, train_homographs

READINGS = {
    "lead": [Reading("lˈɛd", "nou"), Reading("lˈid", "vrb")],
    "wind": [Reading("wˈɪnd", "nou"), Reading("wˈaɪnd", "vrb")],
}


def example(sentence: str, word: str, reading: int) -> HomographExample:
    words = tuple(sentence.split())
    return HomographExample(words, words.index(word), reading)


def test_the_reading_follows_the_words_around_it():
    examples = [
        example("pipes made of lead are heavy", "lead", 0),
        example("a box of lead", "lead", 0),
        example("they will lead the way", "lead", 1),
        example("you must lead the team", "lead", 1),
        example("we want to wind the clock", "wind", 1),
        example("the wind is strong", "wind", 0),
    ]
    model = train_homographs(examples, READINGS)
    assert model.choose(["some", "of", "lead"], 2).phonemes == "lˈɛd"
    assert model.choose(["She", "will", "lead", "the", "choir"], 2).phonemes == "lˈid"
    # "the" before a noun was seen with `wind` only: weights are shared by class
    assert model.choose(["the", "lead"], 1).label == "nou"


def test_upper_case_words_are_found():
    model = train_homographs([example("the wind is strong", "wind", 0)], READINGS)
    assert model.choose(["Wind", "is", "strong"], 0).phonemes == "wˈɪnd"
