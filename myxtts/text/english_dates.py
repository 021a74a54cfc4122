"""English dates, times of day, years and decades in words."""

# ruff: noqa: SIM905 - word lists read best as words
from __future__ import annotations

import re

from myxtts.text import english_numbers as say
from myxtts.text.rules import DIGITS, Rule, SpokenPart, alternatives, rule, spoken

MONTHS = "January February March April May June July August September October November December".split()
_OTHER_MONTHS = (
    "Farvardin Ordibehesht Khordad Tir Mordad Shahrivar Mehr Aban Azar Dey Bahman Esfand "
    "Muharram Safar Rajab Shaban Ramadan Shawwal Tishrei Cheshvan Kislev Tevet Shevat Adar Nisan Iyar Sivan Tammuz Elul"
).split()
"""Months of the Solar Hijri, Islamic and Hebrew calendars."""
_SHORT_MONTHS = {name[:3]: name for name in MONTHS} | {"Sept": "September"}
_MONTH = rf"({alternatives([*MONTHS, *_OTHER_MONTHS])}|(?:{alternatives(_SHORT_MONTHS)})\b\.?)"
_BOOKS = (
    "Genesis Exodus Leviticus Numbers Deuteronomy Joshua Judges Ruth Samuel Kings Chronicles Ezra Nehemiah Esther "
    "Job Psalm Psalms Proverbs Ecclesiastes Isaiah Jeremiah Lamentations Ezekiel Daniel Hosea Joel Amos Obadiah "
    "Jonah Micah Nahum Habakkuk Zephaniah Haggai Zechariah Malachi Matthew Mark Luke John Acts Romans Corinthians "
    "Galatians Ephesians Philippians Colossians Thessalonians Timothy Titus Philemon Hebrews James Peter Jude "
    "Revelation Quran Surah Sura"
).split()
_YEAR_CUES = (
    "in the since until till year years circa during spring summer autumn fall winter early late mid season class"
).split()
_PLURALS = frozenset("people men women children feet teeth mice geese sheep deer fish police cattle".split())
_NO_PLURALS = frozenset(
    "is was has does its his this as us thus across yes perhaps always towards afterwards besides plus minus sees says "
    "begins began became brings brought remains marks marked makes saw was were".split()
)


def _month_name(written: str) -> str:
    short = written.rstrip(".")
    return _SHORT_MONTHS.get(short, short)


def _date(written: str, month: str, day: str, year: str | None) -> str:
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):
        return written
    date = f"{MONTHS[int(month) - 1]} {say.ordinal(int(day))}"
    return f"{date}, {say.year(_full_year(year))}" if year else date


def _full_year(written: str) -> int:
    year = int(written)
    return year if len(written) > 2 else year + (2000 if year < 50 else 1900)


def _read_numeric_date(match: re.Match[str]) -> str:
    """Month first, as Americans write; day first where only that can be meant."""
    first, second, year = match[1], match[3], match[4]
    month, day = (second, first) if int(first) > 12 else (first, second)
    return _date(match[0], month, day, year)


def _read_month_day(match: re.Match[str]) -> str:
    month, day, last, _ = match.groups()
    if not 1 <= int(day) <= 31 or (last and not int(day) < int(last) <= 31):
        return match[0]
    parts: list[SpokenPart] = [(_month_name(month), match.span(1)), " ", (say.ordinal(int(day)), match.span(2))]
    parts += _spoken_last_day(match, 2, 3) if last else []
    return spoken(*parts, *_spoken_year(match, 4))


def _read_day_month(match: re.Match[str]) -> str:
    day, last, month, _ = match.groups()
    if not 1 <= int(day) <= 31 or (last and not int(day) < int(last) <= 31):
        return match[0]
    days: list[SpokenPart] = [(say.ordinal(int(day)), match.span(1))]
    days += _spoken_last_day(match, 1, 2) if last else []
    name = (_month_name(month), match.span(3))
    of = match[0].find(" of ") + 1
    if of or last:
        words = [*days, " ", ("of", (match.start() + of, match.start() + of + 2)) if of else "of", " ", name]
    else:
        words = [name, " ", *days]
    return spoken(*words, *_spoken_year(match, 4))


def _spoken_last_day(match: re.Match[str], first: int, last: int) -> list[SpokenPart]:
    dash = max(match.string.find(sign, match.end(first), match.start(last)) for sign in "-–")
    return [" ", ("to", (dash, dash + 1)), " ", (say.ordinal(int(match[last])), match.span(last))]


def _spoken_year(match: re.Match[str], group: int) -> list[SpokenPart]:
    return [", ", (say.year(int(match[group])), match.span(group))] if match[group] else []


def _read_time(match: re.Match[str]) -> str:
    hour, minute, second, half, dot = match.groups()
    words = say.clock(int(hour), int(minute), is_exact_hour_named=half is None and second is None)
    if second and int(second):
        words += f" and {say.cardinal(int(second))} second{'s' if int(second) > 1 else ''}"
    if not half:
        return words
    last = next(group for group in (3, 2) if match[group])
    return spoken(
        (words, (match.start(), match.end(last))),
        " ",
        (f"{half.lower()}.m{_final_dot(match, dot)}", (match.start(4), match.end())),
    )


def _read_hour(match: re.Match[str]) -> str:
    half = f"{match[2].lower()}.m{_final_dot(match, match[3])}"
    return spoken((say.cardinal(int(match[1])), match.span(1)), " ", (half, (match.start(2), match.end())))


def _final_dot(match: re.Match[str], dot: str | None) -> str:
    """The dot of `p.m.` also ends a sentence before a capital and at the end of the text."""
    following = match.string[match.end() : match.end() + 2].lstrip()
    return "." if dot and (not following or following[0].isupper()) else ""


def _read_verse(match: re.Match[str]) -> str:
    book, chapter, verse, last = match.groups()
    words = f"{say.cardinal(int(chapter))} {say.cardinal(int(verse))}"
    words += f" to {say.cardinal(int(last))}" if last else ""
    return spoken((book, match.span(1)), " ", (words, (match.start(2), match.end())))


def _read_year_range(match: re.Match[str]) -> str:
    first, last = match[1], match[2]
    spoken = say.year(int(last)) if len(last) == 4 else _two_digits(last)
    return f"{say.year(int(first))} to {spoken}"


def _two_digits(written: str) -> str:
    return f"oh {say.cardinal(int(written))}" if written[0] == "0" else say.cardinal(int(written))


def _read_year(match: re.Match[str]) -> str:
    """A year, unless a plural noun after it shows a quantity; after `in`, `since` or `summer` always a year."""
    number = int(match[2])
    if match[1]:
        return match[1] + say.year(number)
    joint = " " if match.start() and match.string[match.start() - 1].isalpha() else ""
    noun = match[3] or ""
    is_plural = noun in _PLURALS or (noun.endswith("s") and not noun.endswith("ss") and noun not in _NO_PLURALS)
    is_quantity = is_plural or not (1100 <= number <= 2099)
    return match[0] if is_quantity else joint + say.year(number)


_TIME_END = r"(?: ?([ap])\.?m\b(\.?))?"

RULES: tuple[Rule, ...] = (
    rule(
        "ISO date",
        r"(?<![\d/-])(\d{4})([-/])(\d{2})\2(\d{2})(?![\d/-])",
        lambda match: _date(match[0], match[3], match[4], match[1]),
        {"2024-05-17": "May seventeenth, twenty twenty-four"},
        DIGITS,
    ),
    rule(
        "numeric date",
        r"(?<![\d/.-])(\d{1,2})([/.-])(\d{1,2})\2((?:19|20)\d\d|(?<=/)\d\d)(?![\d/-]|\.\d)",
        _read_numeric_date,
        {
            "12/25/1999": "December twenty-fifth, nineteen ninety-nine",
            "25.12.1999": "December twenty-fifth, nineteen ninety-nine",
            "12-25-2020": "December twenty-fifth, twenty twenty",
            "9/1/24": "September first, twenty twenty-four",
        },
        DIGITS,
    ),
    rule(
        "date without year",
        r"(?<=\bon )(1[0-2]|0?[1-9])/(3[01]|[12]\d|0?[1-9])(?![\d/]|\.\d| of\b)",
        lambda match: _date(match[0], match[1], match[2], None),
        {"It is due on 5/12.": "It is due on May twelfth."},
        DIGITS,
    ),
    rule(
        "month and day",
        rf"\b{_MONTH} (\d{{1,2}})(?:st|nd|rd|th)?(?: ?[-–] ?(\d{{1,2}})"
        r"(?:st|nd|rd|th)?)?(?:(?:,| of)? (\d{4}))?(?![\d%]|[.,/:]\d)",
        _read_month_day,
        {
            "January 6: noon": "January sixth: noon",
            "May 17, 1984": "May seventeenth, nineteen eighty-four",
            "Jan. 5": "January fifth",
            "June 3–5": "June third to fifth",
        },
        DIGITS,
    ),
    rule(
        "day and month",
        r"(?<![\d.,:/-])(\d{1,2})(?:st|nd|rd|th)?(?: ?[-–] ?(\d{1,2})"
        rf"(?:st|nd|rd|th)?)? (?:of )?{_MONTH}(?:,? (\d{{4}})(?!\d))?",
        _read_day_month,
        {
            "17 May 2024": "May seventeenth, twenty twenty-four",
            "the 5th of November": "the fifth of November",
            "1 Farvardin 1403": "Farvardin first, fourteen oh three",
        },
        DIGITS,
    ),
    rule(
        "month and year",
        rf"\b{_MONTH},? (\d{{4}})(?!\d)",
        lambda match: spoken((_month_name(match[1]), match.span(1)), " ", (say.year(int(match[2])), match.span(2))),
        {"March 1999": "March nineteen ninety-nine"},
        DIGITS,
    ),
    rule(
        "verse",
        rf"\b({alternatives(_BOOKS)}) (\d{{1,3}}):(\d{{1,3}})(?:[-–](\d{{1,3}}))?(?!\d)",
        _read_verse,
        {"John 3:16": "John three sixteen", "Psalm 23:1-4": "Psalm twenty-three one to four"},
        DIGITS,
    ),
    rule(
        "ratio after its name",
        r"\b((?:ratio|scale|odds)(?: of| is| was| at| to)?:? )(\d{1,4}):(\d{1,4})(?![\d:])",
        r"\1\2 to \3",
        {"a ratio of 16:10": "a ratio of sixteen to ten"},
        DIGITS,
    ),
    rule(
        "range of times",
        r"(\d:\d\d|\d ?[ap]\.?m\.?|(?<![\d:.,])\d{1,2}(?= ?[–-] ?\d{1,2}"
        r"(?::\d\d)? ?[ap]\.?m)) ?[-–] ?(?=\d{1,2}(?::\d\d| ?[ap]\.?m))",
        r"\1 to ",
        {
            "9am-5pm": "nine a.m to five p.m",
            "9:30–10:45": "nine thirty to ten forty-five",
            "7-9 p.m.": "seven to nine p.m.",
        },
        DIGITS,
        re.I,
    ),
    rule(
        "time",
        rf"(?<![\d:.])([01]?\d|2[0-4]):([0-5]\d)(?::([0-5]\d))?(?![\d:]|\.\d){_TIME_END}",
        _read_time,
        {
            "at 3:45 pm.": "at three forty-five p.m.",
            "at 3:00": "at three o'clock",
            "15:30": "fifteen thirty",
        },
        DIGITS,
        re.I,
    ),
    rule(
        "time with a dot",
        r"(?<![\d:.,])(1[0-2]|0?[1-9])\.([0-5]\d)() ?([ap])\.?m\b(\.?)",
        _read_time,
        {"7.30pm": "seven thirty p.m"},
        DIGITS,
        re.I,
    ),
    rule(
        "hour",
        r"(?<![\d:.])(1[0-2]|0?[1-9]) ?([ap])\.?m\b(\.?)",
        _read_hour,
        {"at 3 p.m. Then": "at three p.m. Then"},
        DIGITS,
        re.I,
    ),
    rule(
        "time of a lap",
        r"(?<![\d:.,])(\d{1,2}):([0-5]\d)\.(\d{1,3})(?![\d:.]*\d)",
        lambda match: (
            f"{say.cardinal(int(match[1]))} minute{'' if int(match[1]) == 1 else 's'} "
            f"{say.decimal(str(int(match[2])), match[3])} seconds"
        ),
        {"1:23.456": "one minute twenty-three point four five six seconds"},
        DIGITS,
    ),
    rule(
        "aspect ratio",
        r"(?<![\d:.,])(16:9|16:10|21:9|4:3)(?![\d:])",
        lambda match: match[1].replace(":", " by "),
        {"16:9": "sixteen by nine"},
        DIGITS,
    ),
    rule(
        "ratio",
        r"(?<![\d:.,])(\d{1,4}):(\d{1,3})(?![\d:])",
        r"\1 to \2",
        {"2:1": "two to one"},
        DIGITS,
    ),
    rule(
        "decade",
        r"(?<![\w.,])'?(\d{3}0|[1-9]0)'?s\b",
        lambda match: say.decade(int(match[1])),
        {"the 1990s and '80s": "the nineteen nineties and eighties"},
        DIGITS,
    ),
    rule(
        "short year",
        r"(?<![\w.,])'(\d\d)(?![\d'\w])",
        lambda match: _two_digits(match[1]),
        {"the class of '09": "the class of oh nine"},
        "'",
    ),
    rule(
        "year of an era",
        r"(?<![\d.,])(\d{3,4})(?= (?:BCE?|CE|AD|AH|B\.C\.|A\.D\.)(?![^\W_]))|(?<=\bAD )(\d{3,4})(?![\d.,]\d)",
        lambda match: say.year(int(match[1] or match[2])),
        {"1445 AH": "fourteen forty-five AH", "in AD 1066": "in AD ten sixty-six"},
        DIGITS,
    ),
    rule(
        "range of years",
        r"(?<![\d.,$-])(1[1-9]\d\d|20\d\d)[-–—/](\d{4}|\d\d)(?![\d.,/%-]\d|\d)",
        _read_year_range,
        {
            "the 2023-24 season": "the twenty twenty-three to twenty-four season",
            "1914–1918": "nineteen fourteen to nineteen eighteen",
        },
        DIGITS,
    ),
)

YEAR_RULES: tuple[Rule, ...] = (
    rule(
        "year",
        rf"(?<![\d.,$£€#])(?<!\d-)(\b(?i:{alternatives(_YEAR_CUES)}|q[1-4])[ -])?"
        r"(?<![\d.,$£€#])(1\d{3}|20\d\d)(?![\d%°]|[.,]\d|[-–]\d)(?=(?: ([a-z]+))?)",
        _read_year,
        {
            "pre-1990": "pre-nineteen ninety",
            "in 1066": "in ten sixty-six",
            "They counted 2020 birds in 2020.": "They counted two thousand twenty birds in twenty twenty.",
        },
        DIGITS,
    ),
)
"""Rules that apply after those for quantities: `1500 m` is a measure."""
