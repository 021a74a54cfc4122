"""The normalizers against cases written independently; `cases/README.md` gives the rules of comparison."""

from pathlib import Path

import pytest

from benchmarks.text_cases import Case, fold_reading, is_right, read_cases, score_cases

FOLDER = Path(__file__).parent / "cases"


@pytest.mark.parametrize("language", ["en", "fa"])
@pytest.mark.parametrize("table", ["known", "open", "heldout", "newspaper", "press"])
def test_every_case_is_read_right(language, table):
    cases = list(read_cases(FOLDER / f"{language}_{table}.tsv"))
    assert score_cases(FOLDER / f"{language}_{table}.tsv", language) == (len(cases), len(cases)), [
        case.written for case in cases if not is_right(case, language)
    ]


@pytest.mark.parametrize(
    ("language", "one", "other", "is_same"),
    [
        ("en", "At 5 p.m., the BBC", "at 5 pm the B B C", True),
        ("en", "twenty-five o'clock", "twenty five oclock", True),
        ("en", "well 👍", "well", True),
        ("en", "three", "tree", False),
        ("fa", "كتاب ۀ", "کتاب هٔ", True),
        ("fa", "نُه", "نه", False),
        ("fa", "خانه‌ی ما", "خانهٔ ما", True),
        ("fa", "می‌روم", "می روم", True),
    ],
)
def test_readings_are_folded_before_they_are_compared(language, one, other, is_same):
    assert (fold_reading(one, language) == fold_reading(other, language)) == is_same


def test_an_expected_ezafe_is_required_and_an_extra_one_is_no_error():
    with_ezafe, without = Case("x", "کتابِ من", ("کتاب من",)), Case("x", "کتاب من", ("کتابِ من",))
    assert is_right(with_ezafe, "fa")
    assert not is_right(without, "fa")
    assert is_right(without, "fa", is_ezafe_ignored=True)
