"""Cleanup for every language: NFC text with single spaces, without markup, terminal escapes and invisible characters.

Only what is certainly markup is removed: `a < b`, `x <- y` and `<3` stay. The time is linear in the text's length.
"""

# ruff: noqa: SIM905 - word lists read best as words

from __future__ import annotations

import html
import re
import unicodedata

ZWNJ, ZWJ = "\u200c", "\u200d"
"""Zero-width non-joiner and joiner."""

_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]?"  # control sequences such as colors
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c\n]*+(?:\x07|\x1b\\|\x9c)?"  # operating system commands such as a window title
    r"|\x1b[ -/]*+[0-~]?"
)
_INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite code del dfn em font i ins kbd nobr q ruby samp small span strike strong sub sup "
    "tt u var wbr emphasis lang lexicon mstts:viseme phoneme prosody say-as voice".split()
)
"""Tags inside a word or sentence; all others separate words."""
_BLOCKS = frozenset(
    "address article aside audio blockquote body br button caption center col dd details div dl dt figcaption figure footer "
    "form frame h1 h2 h3 h4 h5 h6 head header hr html iframe img input label legend li link main meta nav ol optgroup option p "
    "pre rp rt section select source summary svg table tbody td template textarea tfoot th thead title tr ul video "
    "break desc mark metadata p s speak paragraph sentence par seq media w token".split()
)
_HIDDEN = tuple(
    (re.compile(opening, re.I), re.compile(closing, re.I))
    for opening, closing in ((r"<!--", r"-->"), (r"<script\b", r"</script\s*+>"), (r"<style\b", r"</style\s*+>"))
)
"""Comments and code, removed with their content."""
_DECLARATION = re.compile(r"<!doctype\b[^<>]*+>|<\?xml\b[^<>?]*+\?>|<!\[CDATA\[|\]\]>", re.I)
_TAG = re.compile(
    r"<(/?)([A-Za-z][A-Za-z0-9]*+(?:[:-][A-Za-z0-9]++)*+)"
    r"((?:\s++[A-Za-z_:@][\w:.-]*+\s*+=\s*+(?:\"[^\"<]*+\"|'[^'<]*+'|[^\s\"'<>=]++))*+)\s*+/?>"
)
_REFERENCE = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});")


def strip_markup(text: str) -> str:
    """The text without terminal escapes and tags, with character references (`&amp;`) as the characters they mean."""
    if "\x1b" in text or "\x9b" in text or "\x9d" in text:
        text = _ESCAPES.sub("", text)
    if "<" in text:
        for opening, closing in _HIDDEN:
            text = _cut(text, opening, closing)
        text = _TAG.sub(_without_tag, _DECLARATION.sub(" ", text))
    if "&" in text:
        text = _REFERENCE.sub(lambda match: html.unescape(match[0]), text)
    return text


def _cut(text: str, opening: re.Pattern[str], closing: re.Pattern[str]) -> str:
    """The text without what lies between two marks; an opening mark that is never closed stays."""
    kept, position = [], 0
    while start := opening.search(text, position):
        end = closing.search(text, start.end())
        if end is None:
            break
        kept.append(text[position : start.start()])
        position = end.end()
    return " ".join([*kept, text[position:]])


def _without_tag(match: re.Match[str]) -> str:
    name = match[2].lower()
    if name in _INLINE:
        return ""
    is_markup = name in _BLOCKS or ":" in name or match[3]  # `<amazon:effect name="whispered">`
    return " " if is_markup else match[0]


_JOINING_SCRIPTS = frozenset("ar fa ur ug sd ku ps ckb hi mr ne kok bn as bpy gu pa or ta te kn ml si".split())
"""Languages in whose writing the zero-width (non-)joiner changes how a word is read."""


class _CleaningTable(dict):
    """A `str.translate` table that decides about each character once."""

    def __init__(self, keep_joiners: bool):
        super().__init__()
        self._keep_joiners = keep_joiners

    def __missing__(self, code: int) -> str:
        self[code] = self._decide(chr(code))
        return self[code]

    def _decide(self, character: str) -> str:
        category = unicodedata.category(character)
        if character in (ZWNJ, ZWJ):
            return character if self._keep_joiners else ""
        if character.isspace() or category in ("Zs", "Zl", "Zp") or character == "\0":
            return " "
        if category in ("Cc", "Cf", "Cs") or _is_variation_selector(character):
            return ""
        if _is_compatibility_form(character):
            return unicodedata.normalize("NFKC", character)
        return character


def _is_variation_selector(character: str) -> bool:
    return "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"


def _is_compatibility_form(character: str) -> bool:
    """Full-width letters and digits, Latin ligatures, Arabic presentation forms: other code points of the same letters."""
    return (
        "\uff01" <= character <= "\uffee"
        or "\ufb00" <= character <= "\ufdff"
        or "\ufe70" <= character <= "\ufefc"
        or "\U0001d400" <= character <= "\U0001d7ff"
    )


_TABLES = {keep_joiners: _CleaningTable(keep_joiners) for keep_joiners in (False, True)}
_JOINER_RUN = re.compile(f"[{ZWNJ}{ZWJ}]{{2,}}")
_LOOSE_JOINER = re.compile(
    f"(?<![^\\W\\d_]|[\u0300-\u036f\u064b-\u0670\u0900-\u0dff])[{ZWNJ}{ZWJ}]|[{ZWNJ}{ZWJ}](?![^\\W\\d_])"
)
_QUOTES = str.maketrans({"’": "'", "ʼ": "'", "“": '"', "”": '"', "„": '"', "‟": '"'})


def base_language(language: str) -> str:
    """The language without its region: `en_US` → `en`."""
    return re.split(r"[-_]", language.strip().lower(), maxsplit=1)[0]


def clean_text(text: str, language: str) -> str:
    """NFC, markup, controls and direction marks removed, letters in one form, joiners only inside words, single spaces."""
    keep_joiners = base_language(language) in _JOINING_SCRIPTS
    cleaned = unicodedata.normalize("NFC", strip_markup(text).translate(_TABLES[keep_joiners])).translate(_QUOTES)
    if keep_joiners:
        cleaned = _JOINER_RUN.sub(lambda match: match[0][0], cleaned)
        cleaned = _LOOSE_JOINER.sub("", cleaned)
    return " ".join(cleaned.split(" ")).strip() if "  " not in cleaned else " ".join(cleaned.split())
