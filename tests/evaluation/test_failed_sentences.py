"""Which sentences count as failed."""

import numpy as np
import pytest

from myxtts.evaluation.failed_sentences import CHARACTERS_PER_SECOND, find_failure, speaking_rate
from myxtts.evaluation.text_errors import count_errors
from tests.evaluation.made_up_voice import RATE, tone

TEXT = "a second one is spoken"


@pytest.mark.parametrize(
    ("samples", "failure"),
    [
        (tone(1), None),
        (np.zeros(RATE, np.float32), "silent"),
        (np.zeros(0, np.float32), "silent"),
        (1e-4 * tone(1), "silent"),
        (np.clip(20 * tone(1), -1, 1), "clipped"),
        (np.append(tone(1), np.float32(np.nan)), "not finite"),
        (tone(1, 0.5), "too short"),
        (tone(1, 5.0), "too long"),
    ],
)
def test_a_failure_is_found_in_the_samples_alone(samples, failure):
    assert find_failure(samples, RATE, TEXT, "en") == failure


def test_a_misrecognized_sentence_of_four_words_failed():
    assert find_failure(tone(1), RATE, TEXT, "en", count_errors(TEXT, "ooh", "en")) == "not understood"


def test_a_misrecognized_sentence_of_three_words_did_not_fail():
    errors = count_errors("she said so", "ooh", "en")
    assert find_failure(tone(1, 0.8), RATE, "she said so", "en", errors) is None


def test_one_word_may_last_longer_than_its_letters():
    assert find_failure(tone(1, 0.7), RATE, "Yes.", "en") is None


def test_numbers_need_the_time_of_their_words():
    assert find_failure(tone(1, 2.5), RATE, "1,234,567", "en") is None


def test_speaking_rate_is_one_sum_over_one_count():
    assert speaking_rate([("abcd", "en", 1.0), ("ab", "en", 2.0)]) == 2.0
    assert speaking_rate([]) == CHARACTERS_PER_SECOND
