"""Figures and their intervals."""

import pytest

from myxtts.evaluation.judge import Share, measure


def test_value_is_the_sum_of_parts_over_the_sum_of_wholes():
    assert measure([[Share(1, 10)], [Share(0, 90)]]).value == pytest.approx(0.01)


def test_interval_holds_the_value_and_narrows_with_more_sentences():
    few = measure([[Share(number % 2, 1)] for number in range(10)])
    many = measure([[Share(number % 2, 1)] for number in range(1000)])
    assert few.low < few.value < few.high
    assert many.high - many.low < (few.high - few.low) / 5


def test_several_seeds_of_a_sentence_do_not_narrow_the_interval():
    once = measure([[Share(number % 2, 1)] for number in range(20)])
    thrice = measure([[Share(number % 2, 1)] * 3 for number in range(20)])
    assert (thrice.low, thrice.high) == pytest.approx((once.low, once.high))


def test_unmeasured_clips_are_left_out():
    assert measure([[Share(1, 2), None], [None]]).value == 0.5
    assert measure([[None], [None]]) is None
