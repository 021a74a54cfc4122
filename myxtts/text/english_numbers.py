"""English numbers in words: cardinals, ordinals, digits, years, times of day and fractions."""

# ruff: noqa: SIM905 - word lists read best as words
from __future__ import annotations

_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()
_SCALES = ["", "thousand", "million", "billion", "trillion", "quadrillion"]
_IRREGULAR_ORDINALS = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth",
    "twelve": "twelfth",
}  # fmt: skip
LONGEST_NUMBER = 15
"""Digits; longer strings are read digit by digit."""


def cardinal(number: int) -> str:
    """123 → one hundred twenty-three; below 10 to the 18th."""
    if number < 20:
        return _SMALL[number]
    if number < 100:
        return _TENS[number // 10] + (f"-{_SMALL[number % 10]}" if number % 10 else "")
    if number < 1000:
        return f"{_SMALL[number // 100]} hundred" + (f" {cardinal(number % 100)}" if number % 100 else "")
    parts, scale = [], 0
    while number:
        number, group = divmod(number, 1000)
        if group:
            parts.append(f"{cardinal(group)} {_SCALES[scale]}".strip())
        scale += 1
    return " ".join(reversed(parts))


def ordinal(number: int) -> str:
    """21 → twenty-first."""
    return _on_last_word(cardinal(number), _ordinal_word)


def digits(written: str) -> str:
    """One word for each digit: 007 → zero zero seven."""
    return " ".join(_SMALL[int(digit)] for digit in written if digit.isdigit())


def decimal(whole: str, fraction: str) -> str:
    """3, 14 → three point one four."""
    return f"{integer(whole)} point {digits(fraction)}"


def integer(written: str) -> str:
    """Digits as a number, or digit by digit where they are too many or begin with zero."""
    if len(written) > LONGEST_NUMBER or (len(written) > 1 and written[0] == "0"):
        return digits(written)
    return cardinal(int(written))


def year(number: int) -> str:
    """1984 → nineteen eighty-four; 2005 → two thousand five; 1900 → nineteen hundred; 122 → one hundred twenty-two."""
    century, rest = divmod(number, 100)
    if number < 1000 or 2000 <= number < 2010 or number % 1000 == 0:
        return cardinal(number)
    if rest == 0:
        return f"{cardinal(century)} hundred"
    return f"{cardinal(century)} {'oh ' if rest < 10 else ''}{cardinal(rest)}"


def decade(number: int) -> str:
    """1990 → nineteen nineties; 90 → nineties."""
    return plural(year(number) if number >= 1000 else cardinal(number))


def plural(words: str) -> str:
    """A number in words with a plural ending: forty-seven → forty-sevens."""
    return _on_last_word(words, _plural_word)


def clock(hour: int, minute: int, *, is_exact_hour_named: bool) -> str:
    """3, 5 → three oh five; 3, 0 → three o'clock (or three, where a.m. or p.m. follows)."""
    if minute == 0:
        if hour > 12 or hour == 0:
            return f"{cardinal(hour)} hundred" if hour else "midnight"
        return f"{cardinal(hour)} o'clock" if is_exact_hour_named else cardinal(hour)
    return f"{cardinal(hour)} {'oh ' if minute < 10 else ''}{cardinal(minute)}"


def fraction(numerator: int, denominator: int) -> str:
    """3, 4 → three quarters."""
    name = {2: "half", 4: "quarter"}.get(denominator) or ordinal(denominator)
    if numerator != 1:
        name = "halves" if denominator == 2 else f"{name}s"
    return f"{cardinal(numerator)} {name}"


def _on_last_word(words: str, change) -> str:
    cut = max(words.rfind(" "), words.rfind("-")) + 1
    return words[:cut] + change(words[cut:])


def _ordinal_word(word: str) -> str:
    if word in _IRREGULAR_ORDINALS:
        return _IRREGULAR_ORDINALS[word]
    return word[:-1] + "ieth" if word.endswith("y") else word + "th"


def _plural_word(word: str) -> str:
    if word.endswith("y"):
        return word[:-1] + "ies"
    return word + ("es" if word.endswith("x") else "s")
