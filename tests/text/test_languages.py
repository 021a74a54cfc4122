"""Names and codes of languages, and texts whose letters do not belong to their language."""

import pytest

from myxtts.errors import TextError
from myxtts.text.languages import explain_foreign_script, foreign_script, match_language, resolve_language

NAMES = {
    "fa": ("fa", "persian", "Persian", " FARSI ", "فارسی", "fa-IR", "fa_IR", "per", "fas"),
    "en": ("en", "English", "en-US", "en_us", "eng"),
    "de": ("de", "deutsch", "German", "de-AT", "ger"),
    "he": ("iw", "Hebrew"),
    "pt-br": ("pt_BR", "Brazilian Portuguese"),
    "en-gb": ("EN-gb",),
    "ur": ("Urdu",),
    "yo": ("yo", "Yoruba"),
    "piqd": ("piqd",),
}


@pytest.mark.parametrize(("code", "name"), [(code, name) for code, names in NAMES.items() for name in names])
def test_a_language_is_known_by_its_codes_and_names(code, name):
    assert resolve_language(name) == code
    assert resolve_language(code) == code


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("engish", r"Did you mean en \(English\)"),
        ("germn", r"de \(German\)"),
        ("Persiam", r"fa \(Persian\)"),
        ("farsy", r"fa \(Farsi\)"),
        ("nosuchlanguage", "Expected a code"),
        ("xx", "Expected a code"),
        ("", "Expected"),
        ("a\0b", "Expected"),
    ],
)
def test_an_unknown_language_is_an_error_with_the_nearest_names(name, advice):
    with pytest.raises(TextError, match=advice):
        resolve_language(name)


def test_a_name_is_matched_with_the_languages_of_a_voice():
    assert match_language("persian", ["en", "fa"]) == "fa"
    assert match_language("en", ["de", "en-us"]) == "en-us"
    assert match_language("nonsense", ["en"]) == "nonsense"


@pytest.mark.parametrize(
    ("text", "language", "script", "code"),
    [
        ("سلام دنیا", "en", "ARABIC", "fa"),
        ("مرحبا", "en", "ARABIC", "ar"),
        ("Привет, мир", "en", "CYRILLIC", "ru"),
        ("καλημέρα", "en-gb", "GREEK", "el"),
        ("नमस्ते", "de", "DEVANAGARI", "hi"),
        ("Привет", "fa", "CYRILLIC", "ru"),
    ],
)
def test_letters_of_another_script_are_named_with_the_flag_that_helps(text, language, script, code):
    assert foreign_script(text, language) == script
    explanation = explain_foreign_script(script, language)
    assert "texts: --language " in explanation
    assert f"{code} (" in explanation
    assert repr(language) in explanation


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("سلام دنیا", "fa"),
        ("ئەمە کوردییە", "ckb"),
        ("Hello سلام, my friend", "en"),
        ("Latin names", "fa"),
        ("π is 3.14", "en"),
        ("déjà vu", "en"),
        ("漢字", "ja"),
        ("かな", "ja"),
        ("مرد", "ur"),
        ("mir", "sr"),
        ("мир", "sr"),
        ("😀 123", "en"),
        ("", "en"),
    ],
)
def test_letters_of_the_language_and_latin_ones_are_accepted(text, language):
    assert foreign_script(text, language) is None
