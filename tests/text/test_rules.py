"""Every rule reads its own examples."""

import pytest

from myxtts.text.cleanup import clean_text
from myxtts.text.normalize import ENGLISH_RULES, PERSIAN_RULES, normalize_english, normalize_persian
from myxtts.text.rules import apply_rules, rule

EXAMPLES = [
    pytest.param(normalize, language, each, written, spoken, id=f"{language}-{each.name}-{written}")
    for language, normalize, rules in (
        ("en", normalize_english, ENGLISH_RULES),
        ("fa", normalize_persian, PERSIAN_RULES),
    )
    for each in rules
    for written, spoken in each.examples.items()
]


@pytest.mark.parametrize(("normalize", "language", "tested", "written", "spoken"), EXAMPLES)
def test_a_rule_takes_part_in_reading_its_examples(normalize, language, tested, written, spoken):
    used = []
    assert normalize(clean_text(written, language), lambda each, _: used.append(each)) == spoken
    assert tested in used


@pytest.mark.parametrize("rules", [ENGLISH_RULES, PERSIAN_RULES])
def test_every_rule_has_a_name_of_its_own_and_an_example(rules):
    names = [each.name for each in rules]
    assert len(set(names)) == len(names)
    assert all(each.examples for each in rules)


def test_rules_apply_in_order_and_are_skipped_without_the_characters_they_need():
    first, second = rule("first", "a", "b", {}), rule("second", "b", "c", {}, needs="b")
    used = []
    assert apply_rules("a", [first, second], lambda each, text: used.append((each.name, text))) == "c"
    assert used == [("first", "b"), ("second", "c")]
    assert apply_rules("x", [second]) == "x"
