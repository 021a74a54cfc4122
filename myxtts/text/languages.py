"""Languages: their names and codes (`Persian`, `farsi`, `fa-IR` and `per` are all `fa`), and the scripts they are written in.

Every --language flag and every language column of a corpus is resolved here. Names and codes come from CLDR and the IANA
registry through `langcodes`, which is imported at first use only.
"""

# ruff: noqa: SIM905 - lists of codes read best as words
from __future__ import annotations

import difflib
import functools
import unicodedata
from collections import Counter
from collections.abc import Sequence

from myxtts.errors import TextError

_KEPT = frozenset(
    "en-gb en-029 en-shaw en-us-nyc en-gb-scotland en-gb-x-rp en-gb-x-gbcwmd en-gb-x-gbclan es-419 pt-br fr-be fr-ch ru-lv "
    "ru-cl ca-va ca-nw ca-ba vi-vn-x-south vi-vn-x-central fa-latn cmn-latn-pinyin chr-us-qaaa-x-west piqd qdb py".split()
)
"""Codes kept whole: espeak-ng pronounces these variants differently. Other regions are dropped (`en-US` is `en`)."""
_COMMON = (
    "af am ar az be bg bn bs ca cs cy da de el en eo es et eu fa fi fr ga gu he hi hr hu hy id is it ja ka kk kn ko ku la lt lv "
    "mk ml mr ms mt my nb ne nl pa pl ps pt ro ru si sk sl sq sr sv sw ta te th tr uk ur uz vi yue zh"
).split()
"""Languages that are proposed for a misspelled name."""
_OTHER_NAMES = {"farsi": "fa", "mandarin": "cmn", "castellano": "es", "flemish": "nl"}
"""Usual names that CLDR does not list."""
_LONGEST_CODE = 3
"""Letters of a language's code; what is longer is a name (`Urdu`, `Thai`)."""


@functools.lru_cache(maxsize=4096)
def resolve_language(name: str) -> str:
    """The code of a language given as a code (`fa`, `per`, `fa_IR`) or by its name in any language (`Persian`, `Deutsch`)."""
    tag = name.strip().lower().replace("_", "-")
    if tag in _KEPT:
        return tag
    is_code = tag.isascii() and len(tag.partition("-")[0]) <= _LONGEST_CODE
    code = _by_code(tag) if is_code else _by_name(name)
    if code is None:
        raise TextError(f"Unknown language {name!r:.60}. {_advice(tag)}")
    return code


def match_language(name: str, languages: Sequence[str]) -> str:
    """The one of `languages` that `name` means, or `name` itself if none of them is meant."""
    if name in languages:
        return name
    try:
        code = resolve_language(name)
    except TextError:
        return name
    return next((known for known in languages if known == code or _resolves_to(known, code)), name)


def language_name(code: str) -> str:
    """The English name of a language."""
    import langcodes

    return langcodes.Language.get(code, normalize=False).display_name()


def likely_script(code: str) -> str:
    """The four-letter ISO 15924 code of the script that a language is usually written in."""
    import langcodes
    from langcodes.tag_parser import LanguageTagError

    try:
        return langcodes.Language.get(code).maximize().script or ""
    except LanguageTagError:
        return ""


def _resolves_to(name: str, code: str) -> bool:
    try:
        return resolve_language(name) == code
    except TextError:
        return False


def _by_code(tag: str) -> str | None:
    import langcodes
    from langcodes.tag_parser import LanguageTagError

    try:
        language = langcodes.Language.get(tag)
    except LanguageTagError:
        return None
    return _shortened(language.to_tag()) if language.language and _is_valid(language.language) else None


def _by_name(name: str) -> str | None:
    import langcodes
    from language_data.name_data import CODE_TO_NAMES

    name = " ".join(name.split())
    if name.casefold() in _OTHER_NAMES:
        return _OTHER_NAMES[name.casefold()]
    try:
        tag = langcodes.find(name).to_tag()
    except (LookupError, ValueError):  # its table also fails on names with NUL characters
        return None
    # Its table is cut after the letters that distinguish names: `Persiam` would be Persian and `nosuchlanguage` Nuosu.
    names = {known.casefold() for known in CODE_TO_NAMES.get(tag, {}).values()}
    return _shortened(tag) if name.casefold() in names else None


def _is_valid(code: str) -> bool:
    import langcodes

    return langcodes.Language.get(code).is_valid() and code not in ("und", "mul", "mis", "zxx")


def _shortened(tag: str) -> str:
    tag = tag.lower()
    return tag if tag in _KEPT else tag.partition("-")[0]


def _advice(wanted: str) -> str:
    names = {language_name(code).lower(): code for code in _COMMON} | _OTHER_NAMES
    near = difflib.get_close_matches(wanted[:60], names, n=3, cutoff=0.7)
    if near:
        return f"Did you mean {' or '.join(f'{names[each]} ({each.title()})' for each in near)}?"
    return "Expected a code such as en, fa or de, or a name such as English, Persian or German."


# --- scripts -------------------------------------------------------------------------------------------------------------

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
