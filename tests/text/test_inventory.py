"""One inventory for English and Persian."""

import unicodedata

import pytest

from myxtts.text import g2p, phonemes
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


PERSIAN_SOUNDS = set("pbtdkɡqʔfvszʃʒxhmnlrjæɑeoiuˈ")
ENGLISH_SOUNDS = set("pbtdkɡfvθðszʃʒhmnŋlɹjwiɪeɛæaɑɔoʊuʌəɚɝˈˌ")


def test_the_sounds_of_both_languages_make_up_the_inventory():
    assert PERSIAN_SOUNDS | ENGLISH_SOUNDS == INVENTORY


def words_of(language: str, count: int) -> list[str]:
    """Words of a lexicon, spread evenly."""
    model = g2p.english_model() if language == "en" else g2p.persian_model()
    words = [word for word in model.lexicon if word.replace("\u200c", "").isalpha()]
    return words[:: max(1, len(words) // count)]


@pytest.mark.parametrize(
    ("language", "foreign", "sounds"), [("fa", "en", PERSIAN_SOUNDS), ("en", "fa", ENGLISH_SOUNDS)]
)
def test_words_of_the_other_language_have_the_sounds_of_the_text(language, foreign, sounds):
    words = words_of(foreign, 1500)
    (spoken,) = g2p.phonemize([" ".join(words)], language)
    assert len(spoken.split()) == len(words)
    assert set(spoken) <= sounds | {" "}


@needs_espeak
@pytest.mark.parametrize("language", ["en", "fa"])
def test_every_symbol_of_espeak_maps_to_the_inventory(language):
    spoken = phonemes.phonemize_with_espeak(words_of(language, 4000), language)
    unmapped = {symbol for each in spoken for symbol in from_espeak(each, language)} - INVENTORY - set(" ,.")
    assert not unmapped


@needs_espeak
@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "The quick brown fox jumps over the lazy dog while measuring thin judges, curious children and ships"),
        ("fa", "ژاله قصه‌ی غم‌انگیز چای و گوشت پخته را برای خواهر عاقلش گفت"),
    ],
)
def test_what_espeak_says_is_in_the_inventory(language, text):
    (spoken,) = phonemes.phonemize_with_espeak([text], language)
    assert set(from_espeak(spoken, language)) <= INVENTORY | set(" ,.")
