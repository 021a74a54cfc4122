"""Cleanup for every language: any string in, NFC text with single spaces, no markup and no invisible characters out."""

# ruff: noqa: SIM905 - word lists read best as words
from __future__ import annotations

import re
import unicodedata

from myxtts.text.markup import strip_markup

ZERO_WIDTH_NON_JOINER = "\u200c"
ZERO_WIDTH_JOINER = "\u200d"

_JOINING_SCRIPTS = frozenset("ar fa ur ug sd ku ps ckb hi mr ne kok bn as bpy gu pa or ta te kn ml si".split())
"""Languages in whose writing the zero-width (non-)joiner changes how a word is read."""


class _Table(dict):
    """A `str.translate` table that decides about each character once."""

    def __init__(self, keep_joiners: bool):
        super().__init__()
        self._keep_joiners = keep_joiners

    def __missing__(self, code: int) -> str:
        self[code] = self._decide(chr(code))
        return self[code]

    def _decide(self, character: str) -> str:
        category = unicodedata.category(character)
        if character in (ZERO_WIDTH_NON_JOINER, ZERO_WIDTH_JOINER):
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
    """Full-width letters and digits, Latin ligatures, Arabic presentation forms: the same letters in another dress."""
    return (
        "\uff01" <= character <= "\uffee"
        or "\ufb00" <= character <= "\ufdff"
        or "\ufe70" <= character <= "\ufefc"
        or "\U0001d400" <= character <= "\U0001d7ff"
    )


_TABLES = {keep_joiners: _Table(keep_joiners) for keep_joiners in (False, True)}
_JOINER_RUN = re.compile(f"[{ZERO_WIDTH_NON_JOINER}{ZERO_WIDTH_JOINER}]{{2,}}")
_LOOSE_JOINER = re.compile(
    f"(?<![^\\W\\d_]|[\u0300-\u036f\u064b-\u0670\u0900-\u0dff])[{ZERO_WIDTH_NON_JOINER}{ZERO_WIDTH_JOINER}]"
    f"|[{ZERO_WIDTH_NON_JOINER}{ZERO_WIDTH_JOINER}](?![^\\W\\d_])"
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
