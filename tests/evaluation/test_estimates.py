"""Metrics and their intervals."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.evaluation.estimates import Ratio, estimate

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
