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


READABLE_SIGNS = "%+=&@$€£¥₹°#<>×÷"
"""Signs that espeak-ng names in the language of the text."""


class _Speakable(dict):
    """A `str.translate` table of what espeak-ng may see: letters, marks, digits; signs on their own; nothing else.

    Other signs have no sound, and some end the process (`/-i` in Vietnamese: segmentation fault in 1.52).
    """

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if unicodedata.category(character)[0] in "LMN" or character in "'-.,:\u200c\u200d":
            self[code] = character
        else:
            self[code] = f" {character} " if character in READABLE_SIGNS else " "
        return self[code]


SPEAKABLE_BY_ESPEAK = _Speakable()


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
