"""Rules for Persian homographs: every example is read as its row says."""

import pytest

from myxtts.text.g2p import persian_model
from myxtts.text.persian_homographs import find_rule, homograph_rules
from myxtts.text.persian_letters import LETTERS, VOWELS, add_ezafe, read_line
from myxtts.text.persian_numbers import ZWNJ

RULES = [rule for rules in homograph_rules().values() for rule in rules]
PHONEMES = set(VOWELS + "pbtdkɡqʔfvszʃʒxhmnlrjʧʤ")


def plain(ipa: str) -> str:
    return ipa.replace("ˈ", "")


def words_of(text: str) -> list[str]:
    line = read_line(text)
    return [line.text_of(each) for each in line.words]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.word}-{rule.phonemes}-{rule.example[:20]}")
def test_the_example_of_a_rule_is_read_by_it(rule):
    words = words_of(rule.example)
    assert find_rule(words, words.index(rule.word)) == rule
    assert set(rule.phonemes) <= PHONEMES
    assert set(rule.word) <= {*LETTERS, ZWNJ}


def test_conditions_are_of_the_known_kinds_and_only_the_last_row_holds_always():
    for rules in homograph_rules().values():
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


def test_the_rules_win_over_the_model_and_written_vowels_over_the_rules():
    assert plain(persian_model().read_words("کرم خاکی")[0]) == "kerme"
    assert plain(persian_model().read_words("کِرِم خاکی")[0]) != "kerme"
