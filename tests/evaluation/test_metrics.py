"""Metrics: the packages that they need, and their intervals."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.errors import EvaluationError
from myxtts.evaluation.metrics import METRIC_NAMES, Ratio, check_packages, estimate
from myxtts.runtime.startup import removed_modules
from myxtts.synthesis.score_card import LABELS


def test_every_missing_package_is_named_once_with_the_line_that_installs_it(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    message = (
        r"^Packages that are not installed: rapidfuzz, scipy, resemblyzer, torch, speechmos, onnxruntime, librosa, pesq, "
        r"pyworld, matplotlib\. They are needed by: cer, .*, rtf, --html\. Run `pip install '\.\[evaluate\]'` in the project"
    )
    with pytest.raises(EvaluationError, match=message):
        check_packages(METRIC_NAMES, writes_page=True)


def test_only_the_packages_of_the_chosen_metrics_are_needed(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name if name == "scipy" else None)
    check_packages(["duration_error", "failed", "rtf"])
    with pytest.raises(
        EvaluationError, match=r"^Packages that are not installed: pesq\. They are needed by: pesq\. Run"
    ):
        check_packages(["pesq", "failed"])


def test_stand_ins_for_removed_modules_are_gone_afterwards():
    before = sys.modules.get("pkg_resources")
    with removed_modules():
        import pkg_resources

        assert pkg_resources.get_distribution("numpy").version
    assert sys.modules.get("pkg_resources") is before


def test_every_metric_has_a_title():
    assert tuple(LABELS) == METRIC_NAMES


RATIOS = st.builds(Ratio, st.floats(0, 10), st.floats(0.1, 10))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.one_of(st.none(), RATIOS), max_size=3), max_size=6))
def test_the_value_is_one_sum_over_one_count_inside_its_interval(rows):
    measured = [ratio for row in rows for ratio in row if ratio is not None]
    result = estimate(rows)
    if not measured:
        assert result is None
        return
    expected = sum(ratio.numerator for ratio in measured) / sum(ratio.denominator for ratio in measured)
    assert result.value == pytest.approx(expected)
    assert result.low <= result.high
    values = [sum(r.numerator for r in row if r) / sum(r.denominator for r in row if r) for row in rows if any(row)]
    assert min(values) - 1e-9 <= result.low <= result.high <= max(values) + 1e-9


def test_the_interval_narrows_with_more_sentences():
    few = estimate([[Ratio(index % 2)] for index in range(10)])
    many = estimate([[Ratio(index % 2)] for index in range(1000)])
    assert few.low < few.value < few.high
    assert many.high - many.low < (few.high - few.low) / 5


def test_several_seeds_of_a_sentence_do_not_narrow_the_interval():
    once = estimate([[Ratio(index % 2)] for index in range(20)])
    thrice = estimate([[Ratio(index % 2)] * 3 for index in range(20)])
    assert (thrice.low, thrice.high) == pytest.approx((once.low, once.high))


def test_a_mean_square_becomes_its_root():
    assert estimate([[Ratio(8.0, 2.0)]], is_mean_square=True).value == 2.0
