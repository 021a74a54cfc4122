"""English as it is read aloud: numbers, money, dates, times, units, signs and abbreviations of a cleaned text in words."""

from __future__ import annotations

import re
from collections.abc import Callable

from myxtts.text import english_abbreviations, english_dates, english_quantities, english_signs
from myxtts.text.rules import Rule, apply_rules

RULES: tuple[Rule, ...] = (
    *english_signs.WEB_RULES,
    *english_signs.COMPARISON_RULES,
    *english_abbreviations.NUMBERED_RULES,
    *english_dates.RULES,
    *english_signs.CODE_RULES,
    *english_quantities.RULES,
    *english_dates.YEAR_RULES,
    *english_signs.MATH_RULES,
    *english_quantities.PLAIN_NUMBERS,
    *english_abbreviations.ROMAN_RULES,
    *english_abbreviations.RULES,
    *english_signs.SIGN_RULES,
)
"""From the most specific to the plainest; digits are words after `PLAIN_NUMBERS`."""

_SPACES = re.compile(" {2,}")
_SPACE_BEFORE_MARK = re.compile(r" +(?=[,.;:!?](?: |$))")


def normalize_english(text: str, report: Callable[[Rule, str], None] | None = None) -> str:
    """The words of a cleaned text. `report` receives each rule that changed it."""
    if not text.isascii():
        text = "".join(str(int(c)) if not c.isascii() and c.isdecimal() else c for c in text)
    text = apply_rules(text, RULES, report)
    return _SPACE_BEFORE_MARK.sub("", _SPACES.sub(" ", text)).strip()
