"""Roman numerals as numbers."""

from __future__ import annotations

import re

_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
_NUMERAL = re.compile(r"M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")
_OTHER_ABBREVIATIONS = frozenset(
    [
        "CD",
        "DC",
        "MD",
        "MC",
        "MM",
        "CC",
        "CM",
        "DM",
        "XL",
        "XXL",
        "XXXL",
        "DL",
        "CV",
        "MI",
        "LL",
        "ML",
        "DI",
        "LI",
        "MIX",
        "DIV",
        "CI",
        "CL",
        "CCD",
        "LCD",
    ]
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
