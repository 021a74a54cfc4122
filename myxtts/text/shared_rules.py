"""What the rules of English and Persian share: addresses, Roman numerals, superscripts, initials with an ampersand."""

# ruff: noqa: SIM905 - word lists read best as words
from __future__ import annotations

import re
from collections.abc import Mapping

from myxtts.text.rules import Replacement, Rule, alternatives, rule

_DOMAINS = (
    "com org net edu gov mil int info biz io ir uk de fr ai dev app eu tv co us ca au jp cn ru ch nl se me xyz "
    "online site shop"
).split()
_FILE_TYPES = (
    "pdf txt py exe jpg jpeg png gif svg doc docx xls xlsx ppt zip tar gz mp3 mp4 wav html htm csv json xml yaml md"
).split()
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,62}[A-Za-z0-9])?"
_TAIL = r"(?:/(?:[\w./?=&%#~+-]*[\w/])?|(?=[^\w/@-]|\Z))"

EMAIL = rf"(?<![\w.+-])[A-Za-z0-9_](?:[\w.+-]{{0,63}}\w)?@(?:{_HOST}\.){{1,5}}[A-Za-z]{{2,12}}(?![\w@])"
URL = (
    rf"(?<![\w@./-])(?:(?:https?|ftp)://(?:{_HOST}\.){{1,6}}[A-Za-z]{{2,12}}|www\.(?:{_HOST}\.){{1,6}}[A-Za-z]{{2,12}}"
    rf"|(?:{_HOST}\.){{1,6}}(?:{alternatives(_DOMAINS)})(?![\w-]|\.\w)){_TAIL}"
)
FILE_NAME = rf"(?<![\w./-])[A-Za-z_][\w-]{{0,60}}\.(?:{alternatives(_FILE_TYPES)})(?![\w])"
UNIX_PATH = r"(?<![\w/.<~])~?(?:/[A-Za-z_.][\w.-]{0,60}){2,12}/?(?![\w/])"
WINDOWS_PATH = r"(?<![\w\\])[A-Za-z]:(?:\\[\w.-]{1,60}){1,12}"
_SCHEME = re.compile(r"(https?|ftp)://")
_COUNTRIES = "ir|uk|de|fr|us|eu|io|tv|ca|jp|cn|ru|nl"
"""Ends of web addresses that are read as letters."""


def address_rules(read: Replacement, *examples: Mapping[str, str]) -> tuple[Rule, ...]:
    """Rules for e-mail addresses, web addresses, paths and file names, in this order, with the examples of each."""
    of_email, of_web, of_path, of_file = examples
    return (
        rule("e-mail address", EMAIL, read, of_email, "@"),
        rule("web address", URL, read, of_web, "."),
        rule("file path", f"{UNIX_PATH}|{WINDOWS_PATH}", read, of_path, "/\\"),
        rule("file name", FILE_NAME, read, of_file, "."),
    )


def read_address(address: str, names: Mapping[str, str], *, is_scheme_read: bool) -> str:
    """Each sign of an address as its name, words and digits apart.

    Args:
        names: sign → word; the key `://` is read after the scheme.
    """
    scheme = _SCHEME.match(address)
    prefix = ""
    if scheme:
        address = address[scheme.end() :]
        prefix = f"{scheme[1]} {names['://']} " if is_scheme_read else ""
    spoken = "".join(f" {names[sign]} " if sign in names else sign for sign in address.rstrip("/"))
    letters = rf"\Awww(?= )|(?<= {names['.']} )(?:{_COUNTRIES})(?![^ ])"
    spoken = re.sub(letters, lambda match: ".".join(match[0].upper()), spoken)
    return f" {prefix}{spoken} "


_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
_NUMERAL = re.compile(r"M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")
_OTHER_ABBREVIATIONS = frozenset(
    "CD DC MD MC MM CC CM DM XL XXL XXXL DL CV MI LL ML DI LI MIX DIV CI CL CCD LCD".split()
)
ROMAN_PATTERN = r"[IVXLCDM]{1,12}"


def roman_value(written: str) -> int | None:
    """XIV → 14; None for what is no numeral, or is far more often something else (`DC`, `CD`, `XL`)."""
    if not written or written in _OTHER_ABBREVIATIONS or not _NUMERAL.fullmatch(written):
        return None
    values = [_VALUES[letter] for letter in written]
    return sum(
        -value if value < following else value for value, following in zip(values, [*values[1:], 0], strict=True)
    )


SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
FROM_SUPERSCRIPT = str.maketrans(SUPERSCRIPTS + "⁻", "0123456789-")


def letters_with_ampersand() -> Rule:
    """Initials around an ampersand are letters in both languages."""
    return rule(
        "letters joined by an ampersand",
        r"(?<![\w&])([A-Z]{1,3})&([A-Z]{1,3})(?![\w&])",
        lambda match: f"{' '.join(match[1])} and {' '.join(match[2])}",
        {"AT&T": "A T and T"},
        "&",
    )
