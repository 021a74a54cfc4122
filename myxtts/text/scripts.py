"""Which script a letter has, which scripts a language is written in, and whether a text is written in another one."""

from __future__ import annotations

import functools
import unicodedata
from collections import Counter

from myxtts.text.languages import language_name, likely_script

_SCRIPTS_BY_LANGUAGES = {
    "ARABIC": "ar fa ur ug sd ku pa",
    "CYRILLIC": "ru uk be bg mk sr bs kk kaa ky tt ba cv nog tk uz az",
    "HEBREW": "he",
    "DEVANAGARI": "hi mr ne kok sd",
    "BENGALI": "bn as bpy",
    "GUJARATI": "gu",
    "GURMUKHI": "pa",
    "ORIYA": "or",
    "TAMIL": "ta",
    "TELUGU": "te",
    "KANNADA": "kn",
    "MALAYALAM": "ml",
    "SINHALA": "si",
    "THAI": "th",
    "MYANMAR": "my shn",
    "GEORGIAN": "ka",
    "ARMENIAN": "hy hyw",
    "ETHIOPIC": "am ti",
    "CJK": "cmn yue hak",
    "HIRAGANA": "ja",
    "KATAKANA": "ja",
    "KATAKANA-HIRAGANA": "ja",
    "HANGUL": "ko",
    "CHEROKEE": "chr",
    "SHAVIAN": "en-shaw",
}
_EVERYWHERE = {"LATIN", "GREEK", "MODIFIER", "DIGIT", "COMBINING", "MICRO", "FEMININE", "MASCULINE", "SUPERSCRIPT"}
_PRIVATE_LETTERS = {"piqd": range(0xF8D0, 0xF900)}
"""Klingon is written in the private use area."""


READABLE_SIGNS = "%+=&@$€£¥₹°#<>×÷"
"""Signs that espeak-ng names in the language of the text."""


def is_foreign(language: str, character: str) -> bool:
    """Whether a character has no sound in a language: an emoji, an unassigned code, a letter of another script."""
    category = unicodedata.category(character)
    if category == "Co":
        return ord(character) not in _PRIVATE_LETTERS.get(language, ())
    if category[0] == "S" or category in ("Cn", "Cs"):
        return character not in READABLE_SIGNS
    if category[0] in "LM":
        return script_of(character) not in _scripts_of(language)
    return False


def script_of(character: str) -> str:
    """The script of a letter as its Unicode name begins: LATIN, ARABIC, CJK."""
    return unicodedata.name(character, "UNNAMED").split()[0]


@functools.cache
def _scripts_of(language: str) -> frozenset[str]:
    base = language.split("-")[0]
    return frozenset(_EVERYWHERE).union(
        script for script, codes in _SCRIPTS_BY_LANGUAGES.items() if base in codes.split() or language in codes.split()
    )


_UNICODE_NAMES = {
    "Latn": "LATIN", "Arab": "ARABIC", "Cyrl": "CYRILLIC", "Grek": "GREEK", "Hebr": "HEBREW", "Deva": "DEVANAGARI",
    "Beng": "BENGALI", "Gujr": "GUJARATI", "Guru": "GURMUKHI", "Orya": "ORIYA", "Taml": "TAMIL", "Telu": "TELUGU",
    "Knda": "KANNADA", "Mlym": "MALAYALAM", "Sinh": "SINHALA", "Thai": "THAI", "Laoo": "LAO", "Mymr": "MYANMAR",
    "Khmr": "KHMER", "Tibt": "TIBETAN", "Geor": "GEORGIAN", "Armn": "ARMENIAN", "Ethi": "ETHIOPIC", "Hans": "CJK", "Hant": "CJK",
    "Jpan": "HIRAGANA", "Kore": "HANGUL", "Thaa": "THAANA", "Cher": "CHEROKEE", "Cans": "CANADIAN", "Tfng": "TIFINAGH",
    "Mong": "MONGOLIAN", "Syrc": "SYRIAC", "Nkoo": "NKO",
}  # fmt: skip
"""ISO 15924 code → first word of the Unicode names of the script's letters."""
_KNOWN_SCRIPTS = frozenset(_UNICODE_NAMES.values()) | {"KATAKANA"}
_MORE_SCRIPTS = {"ja": ("CJK", "HIRAGANA", "KATAKANA"), "ko": ("CJK",), "grc": ("GREEK",), "mn": ("MONGOLIAN",)}
_TYPICAL_LANGUAGES = {
    "ARABIC": "fa ar ur", "CYRILLIC": "ru uk bg", "GREEK": "el", "HEBREW": "he", "DEVANAGARI": "hi mr ne", "BENGALI": "bn",
    "GUJARATI": "gu", "GURMUKHI": "pa", "ORIYA": "or", "TAMIL": "ta", "TELUGU": "te", "KANNADA": "kn", "MALAYALAM": "ml",
    "SINHALA": "si", "THAI": "th", "LAO": "lo", "MYANMAR": "my", "KHMER": "km", "TIBETAN": "bo", "GEORGIAN": "ka",
    "ARMENIAN": "hy", "ETHIOPIC": "am ti", "CJK": "zh ja", "HIRAGANA": "ja", "KATAKANA": "ja", "HANGUL": "ko",
    "CHEROKEE": "chr", "MONGOLIAN": "mn", "LATIN": "en",
}  # fmt: skip
"""Languages that are proposed for texts of a script."""


def foreign_script(text: str, language: str) -> str | None:
    """The script (ARABIC, CYRILLIC, …) that most letters of a text have, if the language is not written in it.

    Latin letters belong to every language: names, loanwords and transliterations are written in them.
    """
    if text.isascii():
        return None
    balance = _letter_balance(language)
    if balance.harmless.issuperset(text) or sum(map(balance.__getitem__, text)) <= 0:
        return None
    scripts = Counter(script_of(character) for character in text if character.isalpha())
    return max(scripts.keys() & _KNOWN_SCRIPTS - scripts_written_in(language), key=lambda name: scripts[name])


def explain_foreign_script(script: str, language: str, has_column: bool = False) -> str:
    """For the user: what is wrong, and which flag helps, or what belongs into the language column if there is one."""
    name = "Chinese" if script == "CJK" else script.capitalize()
    likely = [f"{code} ({language_name(code)})" for code in _TYPICAL_LANGUAGES.get(script, "").split()] or ["CODE"]
    codes = " or ".join([", ".join(likely[:-1]), likely[-1]]) if len(likely) > 1 else likely[0]
    remedy = "Correct the language column:" if has_column else "Give the language of the texts: --language"
    return f"{name} letters, but the language is {language!r}. {remedy} {codes}"


@functools.cache
def scripts_written_in(language: str) -> frozenset[str]:
    """Every script that a language is written in, and Latin."""
    base = language.split("-")[0]
    usual = _UNICODE_NAMES.get(likely_script(language), "LATIN")
    return (_scripts_of(language) - {"GREEK"}) | {"LATIN", usual, *_MORE_SCRIPTS.get(base, ())}


class _LetterBalance(dict):
    """Character → 1 for a letter of another script, -1 for one of the language, 0 for anything else."""

    def __init__(self, own_scripts: frozenset[str]):
        super().__init__()
        self._own_scripts = own_scripts
        self.harmless: set[str] = set()
        """Characters seen so far that are not of another script; almost every text consists of them alone."""

    def __missing__(self, character: str) -> int:
        script = script_of(character) if character.isalpha() else ""
        self[character] = -1 if script in self._own_scripts else int(script in _KNOWN_SCRIPTS)
        if self[character] <= 0:
            self.harmless.add(character)
        return self[character]


@functools.cache
def _letter_balance(language: str) -> _LetterBalance:
    return _LetterBalance(scripts_written_in(language))
