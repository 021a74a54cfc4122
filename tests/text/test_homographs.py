"""Homographs: every example of a rule is read as its row says, and the model follows the words around."""

from __future__ import annotations

import re

import pytest

from myxtts.text.cleanup import ZWNJ
from myxtts.text.g2p import LANGUAGES, english_model, persian_model
from myxtts.text.homographs import Reading, find_rule, homograph_rules
from myxtts.text.persian_letters import LETTERS, PERSIAN_VOWELS, add_ezafe, read_line
from myxtts.training.g2p_context_models import HomographExample, train_homographs

RULES = [(code, rule) for code in LANGUAGES for rules in homograph_rules(code).values() for rule in rules]
PHONEMES = set(PERSIAN_VOWELS + "pbtdkɡqʔfvszʃʒxhmnlrjʧʤ")


def plain(ipa: str) -> str:
    return ipa.replace("ˈ", "")


def words_of(text: str) -> list[str]:
    line = read_line(text)
    return [line.text_of(each) for each in line.words]


@pytest.mark.parametrize(("code", "rule"), RULES, ids=[f"{rule.word}-{rule.example[:20]}" for _, rule in RULES])
def test_the_example_of_a_rule_is_read_by_it(code, rule):
    words = words_of(rule.example) if code == "fa" else re.findall(r"[\w'‑]+|[.,]", rule.example.lower())
    assert find_rule(code, words, words.index(rule.word)) == rule
    if code == "fa":
        assert set(rule.phonemes) <= PHONEMES
        assert set(rule.word) <= {*LETTERS, ZWNJ}
    else:
        assert rule.phonemes in [reading.phonemes for reading in english_model().homographs.readings[rule.word]]


@pytest.mark.parametrize("code", LANGUAGES)
def test_conditions_are_of_the_known_kinds_and_only_the_last_row_holds_always(code):
    for rules in homograph_rules(code).values():
        assert {place for rule in rules for place, _ in rule.conditions} <= {"before", "after", "near"}
        assert all(rule.conditions for rule in rules[:-1])


@pytest.mark.parametrize(
    ("text", "word", "phonemes"),
    [
        ("پسرک از باغچه یک شاخه گل چید", "گل", "ɡol"),
        ("کارگرها با خاک و آب گل درست کردند", "گل", "ɡel"),
        ("پیرزن بر اثر بیماری در بیمارستان مرد.", "مرد", "mord"),
        ("مرد همسایه در بیمارستان کار می‌کند", "مرد", "mærd"),
        ("برای کیک دو پیمانه شکر لازم است", "شکر", "ʃekær"),
        ("خدا را شکر که سالم رسیدید", "شکر", "ʃokr"),
        ("این سیب را کرم خورده است", "کرم", "kerm"),
        ("مهر مادر را با هیچ چیز نمی‌توان سنجید", "مهر", "mehr"),
        ("دبیر انجمن پای نامه را مهر زد", "مهر", "mohr"),
        ("چرا این کار را کردی", "کردی", "kærdi"),
        ("به زبان کردی شعر می‌گوید", "کردی", "kordi"),
        ("تا دهِ ما یک ساعت راه است", "ده", "deh"),
        ("ده دانش‌آموز غایب بودند", "ده", "dæh"),
    ],
)
def test_common_homographs_in_sentences(text, word, phonemes):
    spoken = plain(persian_model().read_words(text)[words_of(text).index(word)])
    assert spoken in (phonemes, add_ezafe(phonemes))


def test_plurals_follow_the_rules_of_their_word():
    read = persian_model().read_words
    assert [plain(read(text)[0]) for text in ("کرم‌ها خاک را نرم می‌کنند", "کرم‌های صورت و پوست")] == [
        "kermhɑ",
        "keremhɑje",
    ]


def test_the_rules_win_over_the_model_and_written_vowels_over_the_rules():
    assert plain(persian_model().read_words("کرم خاکی")[0]) == "kerme"
    assert plain(persian_model().read_words("کِرِم خاکی")[0]) != "kerme"


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
