"""Persian dates in the three calendars, times of day, years and centuries in words."""

# ruff: noqa: SIM905 - word lists read best as words
from __future__ import annotations

import re

from myxtts.text.cleanup import ZWNJ
from myxtts.text.persian_numbers import number_in_words, ordinal_in_words, with_ezafe
from myxtts.text.rules import DIGITS, Rule, alternatives, roman_value, rule, spoken

_JALALI = "فروردین اردیبهشت خرداد تیر مرداد شهریور مهر آبان آذر دی بهمن اسفند".split()
_GREGORIAN = "ژانویه فوریه مارس آوریل مه ژوئن ژوئیه اوت سپتامبر اکتبر نوامبر دسامبر".split()
_OTHER_GREGORIAN = "ژانویهٔ فوریهٔ ژوئیهٔ ژوییه جولای ژولای جون آپریل آگوست آگست مارچ می فبریه سپتامر".split()
_LUNAR = [
    *(
        f"محرم صفر ربیع{ZWNJ}الاول ربیع{ZWNJ}الثانی ربیعالاول ربیعالثانی جمادی{ZWNJ}الاول جمادی{ZWNJ}الثانی "
        f"جمادی{ZWNJ}الاولی رجب شعبان رمضان شوال ذی{ZWNJ}القعده ذیقعده ذی{ZWNJ}قعده ذی{ZWNJ}الحجه ذیحجه ذی{ZWNJ}حجه"
    ).split(),
    *("ربیع الاول", "ربیع الثانی", "جمادی الاول", "جمادی الثانی", "ذی القعده", "ذی الحجه"),
]
_MARKED_MONTHS = {"محرم": "محَرَّم", "صفر": "صَفَر"}
"""Diacritics distinguish a month from another word of the same letters; `fa_reviewed.tsv` has its reading."""
_MONTH = (
    f"({alternatives([*_JALALI, 'امرداد', *_GREGORIAN, *_OTHER_GREGORIAN, *_LUNAR])})"
    rf"(?![^\W\d_]|{ZWNJ}(?!ماه)| (?:شلیک|خورد|هوایی|خلاص))"
)
_MONTH_END = rf"((?:[ {ZWNJ}]?ماه)?[ِٔ]?)"
_YEAR = (
    r"(\d{4}|\d{2,3}(?=(?: |ه\.|ق|ش)*(?:ه\.|هجری|قمری|شمسی))|\d\d)(?![\d.,/:%]\d"
    r"|\d|%| ?(?:نفر|تومان|ریال|درصد|هزار|میلیون|دلار)(?![^\W\d_]))"
)
_DAY_PARTS = "صبح|بامداد|عصر|شب|ظهر|بعدازظهر|غروب|نیمه"
_SURAS = [
    *(
        "حمد فاتحه بقره نساء مائده انعام اعراف انفال توبه یونس هود یوسف رعد ابراهیم حجر نحل اسراء کهف مریم طه انبیاء "
        "حج مؤمنون نور فرقان شعراء نمل قصص عنکبوت روم لقمان سجده احزاب سبأ فاطر یس صافات زمر غافر فصلت شوری زخرف دخان "
        "جاثیه احقاف محمد فتح حجرات ذاریات طور نجم قمر الرحمن واقعه حدید مجادله حشر ممتحنه صف جمعه منافقون تغابن طلاق "
        "تحریم ملک قلم حاقه معارج نوح جن مزمل مدثر قیامت انسان"
    ).split(),
    "آل عمران",
    f"آل{ZWNJ}عمران",
]
_ALSO_NAMES = frozenset(
    "محمد ابراهیم یوسف یونس هود مریم نوح لقمان روم نور حج طور فتح قمر حدید انسان ملک قلم جن صف جمعه طلاق نجم شوری سجده توبه "
    "حمد".split()
)
"""Suras whose name is usually a person or a thing; they are read as suras only in parentheses or after سوره."""
_CENTURY = r"(قرن|سده|هزاره)(?:ِ|ٔ|\u200cی)?"


def _year_words(written: str) -> str:
    year = int(written)
    if len(written) == 2 and year < 30:
        year += 1400
    return number_in_words(year)


def _date(written: str, year: str, month: str, day: str | None) -> str:
    number = int(month)
    if not 1 <= number <= 12 or (day is not None and not 1 <= int(day) <= 31):
        return written
    if len(year) == 2 or 1200 <= int(year) <= 1599:
        name = _JALALI[number - 1]
    elif 1600 <= int(year) <= 2199:
        name = _GREGORIAN[number - 1]
    else:
        return written
    words = f"{with_ezafe(name)} {_year_words(year)}"
    return f"{with_ezafe(ordinal_in_words(int(day)))} {words}" if day is not None else words


def _read_short_date(match: re.Match[str]) -> str:
    """Year first, as Persians write; day first where only that can be meant."""
    first, second, third = match[1], match[3], match[4]
    year, day = (third, first) if int(third) > 31 and int(first) <= 31 else (first, third)
    return _date(match[0], year, second, day)


def _read_day_month(match: re.Match[str]) -> str:
    day, month, end, year = match.groups()
    if not 1 <= int(day) <= 31:
        return match[0]
    ordinal, name = with_ezafe(ordinal_in_words(int(day))), _month_words(month, end)
    words = [(ordinal, match.span(1)), " ", (with_ezafe(name) if year else name, (match.start(2), match.end(3)))]
    return spoken(*words, " ", (_year_words(year), match.span(4))) if year else spoken(*words)


def _month_words(month: str, end: str) -> str:
    name = _MARKED_MONTHS.get(month, month).replace(" ", ZWNJ)
    return f"{name}{ZWNJ}ماه" if "ماه" in end else name + end


def _read_days(match: re.Match[str]) -> str:
    first, joint, last = int(match[1]), match[2].strip(" -"), int(match[3])
    if not (1 <= first <= 31 and 1 <= last <= 31):
        return match[0]
    words = (ordinal_in_words(first), match.span(1))
    return spoken(words, " ", (joint or "تا", match.span(2)), " ", (match[3], match.span(3)))


def _read_time(match: re.Match[str]) -> str:
    hour, minute, second = int(match[2]), int(match[3]), int(match[4] or 0)
    is_duration = match[4] is not None and not match[1]
    parts = [f"{number_in_words(hour)} ساعت" if is_duration else number_in_words(hour)]
    if minute:
        parts.append(f"{number_in_words(minute)} دقیقه")
    if second:
        parts.append(f"{number_in_words(second)} ثانیه")
    words = " و ".join(parts)
    if minute and re.match(rf" (?:{_DAY_PARTS})", match.string[match.end() : match.end() + 12]):
        words = with_ezafe(words) if not second else words
    if not match[1]:
        return words
    return spoken(("ساعتِ", match.span(1)), " ", (words, (match.start(2), match.end())))


def _read_verse(match: re.Match[str]) -> str:
    sura, verse = int(match[1]), int(match[2])
    if not (1 <= sura <= 114 and 60 <= verse <= 286):
        return match[0]
    return f"سورهٔ {number_in_words(sura)} آیهٔ {number_in_words(verse)}"


def _read_named_verse(match: re.Match[str]) -> str:
    is_in_parentheses = match.string[match.start() - 1 : match.start()] == "("
    if match[2] in _ALSO_NAMES and not match[1] and not is_in_parentheses:
        return match[0]
    name = ("سورهٔ", match.span(1)) if match[1] else ("سورهٔ", match.span(2))
    verse = (f"آیهٔ {number_in_words(int(match[3]))}", match.span(3))
    return spoken(name, " ", (match[2], match.span(2)), "، ", verse)


def _read_centuries(match: re.Match[str]) -> str:
    ordinals = [_ordinal_of(written) for written in (match[2], match[4]) if written]
    if None in ordinals:
        return match[0]
    first, *second = zip(map(str, ordinals), (match.span(2), match.span(4)), strict=False)
    joint = [(match[3], match.span(3))] if match[3] else []
    return spoken((with_ezafe(match[1]), match.span(1)), " ", first, *joint, *second)


def _ordinal_of(written: str) -> str | None:
    value = int(written) if written.isdigit() else roman_value(written)
    return None if value is None else ordinal_in_words(value)


RULES: tuple[Rule, ...] = (
    rule(
        "date, year first",
        r"(?<![\d/.-])(\d{4})([/.-])(\d{1,2})\2(\d{1,2})(?![\d/-])",
        lambda match: _date(match[0], match[1], match[3], match[4]),
        {"۱۴۰۴/۰۸/۲۵": "بیست و پنجمِ آبانِ هزار و چهارصد و چهار", "2024-05-17": "هفدهمِ مهِ دو هزار و بیست و چهار"},
        DIGITS,
    ),
    rule(
        "date, day first",
        r"(?<![\d/.-])(\d{1,2})([/.-])(\d{1,2})\2(\d{4})(?![\d/-])",
        lambda match: _date(match[0], match[4], match[3], match[1]),
        {"۲۵/۸/۱۴۰۴": "بیست و پنجمِ آبانِ هزار و چهارصد و چهار"},
        DIGITS,
    ),
    rule(
        "date with a short year",
        r"(?<![\d/.-])(\d\d)(/)(\d{1,2})/(\d{1,2})(?![\d/-])",
        _read_short_date,
        {"۹۹/۱۲/۲۹": "بیست و نهمِ اسفندِ نود و نُه", "۲۴/۱۱/۹۹": "بیست و چهارمِ بهمنِ نود و نُه"},
        "/",
    ),
    rule(
        "year and month",
        r"(?<![\d/.,-])(1[34]\d\d|20\d\d)/(1[0-2]|0?[1-9])(?![\d/-]|[.,]\d| (?:هزار|میلیون|میلیارد|درصد))",
        lambda match: _date(match[0], match[1], match[2], None),
        {"۱۴۰۴/۸": "آبانِ هزار و چهارصد و چهار"},
        "/",
    ),
    rule(
        "month and year in digits",
        r"(?<![\d/.,-])(1[0-2]|0?[1-9])/(1[34]\d\d|20\d\d)(?![\d/-]|[.,]\d)",
        lambda match: _date(match[0], match[2], match[1], None),
        {"۱۲/۱۴۰۵": "اسفندِ هزار و چهارصد و پنج"},
        "/",
    ),
    rule(
        "days of one month",
        rf"(?<![\d/.,:-])(\d{{1,2}})( تا | و | ?- ?)(\d{{1,2}})(?= (?:ماه )?{_MONTH})",
        _read_days,
        {"۱ تا ۱۳ فروردین": "یکم تا سیزدهمِ فروردین"},
        DIGITS,
    ),
    rule(
        "day and month",
        rf"(?<![\d/.,:-])(\d{{1,2}})(?:{ZWNJ}? ?ا?ُ?مِ?)? ?(?:ماه )?{_MONTH}{_MONTH_END}(?: (?:سال )?{_YEAR})?",
        _read_day_month,
        {
            "۲۲ بهمن ۵۷": "بیست و دومِ بهمنِ پنجاه و هفت",
            "۱۵ شعبان": "پانزدهمِ شعبان",
            "۱۰ دی ماه ۱۴۰۱": "دهمِ دی‌ماهِ هزار و چهارصد و یک",
        },
        DIGITS,
    ),
    rule(
        "month and year",
        rf"(?<![^\W\d_]){_MONTH}{_MONTH_END} (?:سال )?(\d{{4}})(?![\d.,/:]\d|\d)",
        lambda match: spoken(
            (with_ezafe(_month_words(match[1], match[2])), (match.start(1), match.end(2))),
            " ",
            (number_in_words(int(match[3])), match.span(3)),
        ),
        {"مرداد ۱۳۳۲": "مردادِ هزار و سیصد و سی و دو"},
        DIGITS,
    ),
    rule(
        "century",
        rf"(?<![^\W_]){_CENTURY} (\d{{1,2}}|[IVXL]{{1,6}})(?:{ZWNJ}?ا?ُ?م)?"
        rf"(?:( و | تا | ?- ?)(\d{{1,2}})(?:{ZWNJ}?ا?ُ?م)?)?(?![\d./:]\d|\w)",
        _read_centuries,
        {"قرن ۲۱": "قرنِ بیست و یکم", "سدهٔ ۷ و ۸ هجری": "سدهٔ هفتم و هشتم هجری", "قرن XIX": "قرنِ نوزدهم"},
    ),
    rule(
        "verse of a sura",
        rf"(?<![^\W_])(سوره(?:ٔ|{ZWNJ}ی)? ?)?({alternatives(_SURAS)})(?: ?[:/] ?|، ?(?=\d+\)))(\d{{1,3}})(?![\d:/]|\.\d)",
        _read_named_verse,
        {"(بقره: ۲۵۵)": "(سورهٔ بقره، آیهٔ دویست و پنجاه و پنج)"},
        DIGITS,
    ),
    rule(
        "ratio after its name",
        r"(نسبت(?:ِ| به)? |مقیاس(?:ِ)? )(\d{1,4}):(\d{1,6})(?![\d:])",
        r"\1\2 به \3",
        {"به نسبت ۱:۴": "به نسبت یک به چهار"},
        ":",
    ),
    rule(
        "range of times",
        r"(\d:\d\d) ?- ?(?=\d{1,2}:\d\d)",
        r"\1 تا ",
        {"۸:۳۰-۱۰:۴۵": "هشت و سی دقیقه تا ده و چهل و پنج دقیقه"},
        ":",
    ),
    rule(
        "time",
        r"(ساعتِ? )?(?<![\d:.])([01]?\d|2[0-4]):([0-5]\d)(?::([0-5]\d))?(?![\d:])",
        _read_time,
        {
            "ساعت ۱۰:۳۰": "ساعتِ ده و سی دقیقه",
            "۷:۱۵ صبح": "هفت و پانزده دقیقهٔ صبح",
            "رکورد ۱:۵۹:۴۰": "رکورد یک ساعت و پنجاه و نُه دقیقه و چهل ثانیه",
        },
        ":",
    ),
    rule(
        "time with a dot",
        r"(ساعتِ? )([01]?\d|2[0-4])[.]([0-5]\d)()(?![\d:.])",
        _read_time,
        {"ساعت ۱۰.۳۰": "ساعتِ ده و سی دقیقه"},
        ".",
    ),
    rule(
        "sura and verse",
        r"(?<![\d:.,])(\d{1,3}):(\d{2,3})(?![\d:])",
        _read_verse,
        {"۲:۲۵۵": "سورهٔ دو آیهٔ دویست و پنجاه و پنج"},
        ":",
    ),
    rule("ratio", r"(?<![\d:.,])(\d{1,4}):(\d{1,9})(?![\d:])", r"\1 به \2", {"۳:۲": "سه به دو"}, ":"),
    rule(
        "hour",
        r"(?<![^\W_])(?<!\d )ساعت (?=(?:[01]?\d|2[0-4])(?!\d| ?(?:دقیقه|روز|نفر|درصد|ساعت)))",
        "ساعتِ ",
        {"ساعت ۹": "ساعتِ نُه"},
        DIGITS,
    ),
    rule(
        "year after its name",
        r"(?<![^\W_])(?<!\d )(?<!هر )سال (?=(?:1[0-9]\d\d|20\d\d|[3-9]\d"
        r"|\d{3})(?![\d.,/]\d|\d| (?:نفر|روز|بار|تومان|درصد|سال)(?![^\W\d_])))",
        "سالِ ",
        {"سال ۱۴۰۴": "سالِ هزار و چهارصد و چهار", "در سال ۸۸": "در سالِ هشتاد و هشت"},
        DIGITS,
    ),
)
