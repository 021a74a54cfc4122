"""Which characters espeak-ng can read in a language; it would spell the others by name ("Chinese letter")."""

from __future__ import annotations

import functools
import unicodedata

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


def is_foreign(language: str, character: str) -> bool:
    """Whether a character has no sound in a language: an emoji, an unassigned code, a letter of another script."""
    category = unicodedata.category(character)
    if category == "Co":
        return ord(character) not in _PRIVATE_LETTERS.get(language, ())
    if category in ("So", "Sk", "Cn", "Cs"):
        return character != "°"
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
