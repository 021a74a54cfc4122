"""One inventory for English and Persian."""

import unicodedata

import pytest

from myxtts.text import phonemes
from myxtts.text.g2p import _FROM_ESPEAK, INVENTORY, from_espeak
from tests.espeak import needs_espeak


def test_every_symbol_is_one_code_point_in_nfd():
    assert all(len(unicodedata.normalize("NFD", symbol)) == 1 for symbol in INVENTORY)


@pytest.mark.parametrize("language", ["en", "fa"])
def test_espeak_symbols_map_into_the_inventory(language):
    targets = {symbol for target in _FROM_ESPEAK[language].values() for symbol in target}
    assert targets <= INVENTORY


def test_persian_qaf_is_one_symbol_without_a_tone():
    assert from_espeak("q¹ˈarb", "fa") == "qˈærb"


def test_english_length_flaps_and_syllabic_consonants_are_folded():
    assert from_espeak("wˈɔːɾɚ bˈʌʔn̩, bˈɜːd", "en") == "wˈɔtɚ bˈʌtən, bˈɝd"


@needs_espeak
@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "The quick brown fox jumps over the lazy dog while measuring thin judges, curious children and ships"),
        ("fa", "ژاله قصه‌ی غم‌انگیز چای و گوشت پخته را برای خواهر عاقلش گفت"),
    ],
)
def test_what_espeak_says_is_in_the_inventory(language, text):
    (spoken,) = phonemes.phonemize([text], language)
    assert set(from_espeak(spoken, language)) <= INVENTORY | set(" ,.")
