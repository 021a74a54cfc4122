"""English as it is read aloud: cleaned text in; numbers, money, dates, times, units and abbreviations as words out.

Rules run from the most specific to the plainest, each a regular expression that reads every character a bounded number of times,
so that a megabyte takes seconds at most.
"""

from __future__ import annotations

import re

from myxtts.text import english_numbers as say

# MERGED: The tables behind `myxtts.text.english`: months, currencies, units, titles and abbreviations with the words they stand
# for.

# ruff: noqa: SIM905 - word lists read best as words

MONTHS = "January February March April May June July August September October November December".split()

CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"),
    "¥": ("yen", "yen", "", ""),
    "₹": ("rupee", "rupees", "paisa", "paise"),
    "₽": ("ruble", "rubles", "kopeck", "kopecks"),
    "₩": ("won", "won", "", ""),
    "﷼": ("rial", "rials", "", ""),
}
"""Sign → one, many, one hundredth, many hundredths."""

CURRENCY_CODES = {
    "USD": ("dollar", "dollars"),
    "EUR": ("euro", "euros"),
    "GBP": ("pound", "pounds"),
    "CHF": ("franc", "francs"),
    "JPY": ("yen", "yen"),
    "IRR": ("rial", "rials"),
}

MAGNITUDES = {
    "thousand": "thousand", "million": "million", "billion": "billion", "trillion": "trillion",
    "k": "thousand", "K": "thousand", "m": "million", "M": "million", "mn": "million", "bn": "billion", "B": "billion",
}  # fmt: skip


def _plain(*names: str) -> tuple[str, str]:
    one = names[0]
    return one, names[1] if len(names) > 1 else f"{one}s"


UNITS = {
    "km": _plain("kilometer"), "cm": _plain("centimeter"), "mm": _plain("millimeter"), "m": _plain("meter"),
    "µm": _plain("micrometer"), "nm": _plain("nanometer"), "mi": _plain("mile"), "ft": _plain("foot", "feet"),
    "yd": _plain("yard"), "km²": _plain("square kilometer"), "m²": _plain("square meter"), "m³": _plain("cubic meter"),
    "kg": _plain("kilogram"), "g": _plain("gram"), "mg": _plain("milligram"), "lb": _plain("pound"),
    "lbs": _plain("pound"), "oz": _plain("ounce"), "L": _plain("liter"), "l": _plain("liter"),
    "ml": _plain("milliliter"), "mL": _plain("milliliter"), "km/h": _plain("kilometer per hour", "kilometers per hour"),
    "kph": _plain("kilometer per hour", "kilometers per hour"), "mph": _plain("mile per hour", "miles per hour"),
    "m/s": _plain("meter per second", "meters per second"), "Hz": _plain("hertz", "hertz"),
    "kHz": _plain("kilohertz", "kilohertz"), "MHz": _plain("megahertz", "megahertz"),
    "GHz": _plain("gigahertz", "gigahertz"), "KB": _plain("kilobyte"), "kB": _plain("kilobyte"),
    "MB": _plain("megabyte"), "GB": _plain("gigabyte"), "TB": _plain("terabyte"), "kbps": _plain("kilobit per second",
    "kilobits per second"), "Mbps": _plain("megabit per second", "megabits per second"), "W": _plain("watt"),
    "kW": _plain("kilowatt"), "MW": _plain("megawatt"), "kWh": _plain("kilowatt hour"), "V": _plain("volt"),
    "mA": _plain("milliamp"), "dB": _plain("decibel"), "ms": _plain("millisecond"), "s": _plain("second"),
    "sec": _plain("second"), "min": _plain("minute"), "hr": _plain("hour"), "hrs": _plain("hour"),
    "°C": _plain("degree Celsius", "degrees Celsius"), "°F": _plain("degree Fahrenheit", "degrees Fahrenheit"),
    "°": _plain("degree"), "px": _plain("pixel"), "rpm": ("revolution per minute", "revolutions per minute"),
}  # fmt: skip
"""Sign after a number → one, many. Inches are left out: `5 in the morning`."""

TITLES = {
    "Mr": "Mister", "Mrs": "Missus", "Ms": "Miz", "Dr": "Doctor", "Prof": "Professor", "Gen": "General",
    "Col": "Colonel", "Capt": "Captain", "Lt": "Lieutenant", "Sgt": "Sergeant", "Maj": "Major", "Rev": "Reverend",
    "Hon": "Honorable", "Gov": "Governor", "Sen": "Senator", "Rep": "Representative", "Pres": "President", "Mt": "Mount",
    "Ft": "Fort",
}  # fmt: skip
"""Before a name; the dot is optional."""

ABBREVIATIONS = {
    "mr.": "Mister", "mrs.": "Missus", "ms.": "Miz", "dr.": "Doctor", "prof.": "Professor", "jr.": "Junior",
    "sr.": "Senior", "vs.": "versus", "vs": "versus", "etc.": "et cetera", "etc": "et cetera", "e.g.": "for example",
    "i.e.": "that is", "approx.": "approximately", "dept.": "department", "est.": "established", "inc.": "Incorporated",
    "ltd.": "Limited", "co.": "Company", "corp.": "Corporation", "vol.": "volume", "fig.": "figure", "ave.": "Avenue",
    "blvd.": "Boulevard", "rd.": "Road", "ext.": "extension", "tel.": "telephone", "apt.": "apartment",
    "ph.d.": "P.H.D", "a.k.a.": "also known as", "w/o": "without", "w/": "with", "jan.": "January",
    "feb.": "February", "aug.": "August", "sept.": "September", "oct.": "October", "nov.": "November",
    "dec.": "December",
}  # fmt: skip

VULGAR_FRACTIONS = {
    "½": "one half", "⅓": "one third", "⅔": "two thirds", "¼": "one quarter", "¾": "three quarters",
    "⅛": "one eighth", "⅜": "three eighths", "⅝": "five eighths", "⅞": "seven eighths",
}  # fmt: skip


_MONTH_NAMES = {name[:3].lower(): name for name in MONTHS}
_MONTH = rf"({'|'.join(MONTHS)}|(?:{'|'.join(name[:3] for name in MONTHS)}|Sept)\b\.?)"
_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\d,])|\d+(?:\.\d+)?"
_SIGN = r"(?:(?<![\w.)-])([-−]))?"

_LONG_DIGITS = re.compile(rf"\d{{{say.LONGEST_NUMBER + 1},}}")
_ISO_DATE = re.compile(r"(?<![\d-])(\d{4})-(\d{2})-(\d{2})(?![\d-])")
_SLASH_DATE = re.compile(r"(?<![\d/])(\d{1,2})/(\d{1,2})/(\d{4}|\d{2})(?![\d/])")
_MONTH_DAY = re.compile(rf"\b{_MONTH} (\d{{1,2}})(?:st|nd|rd|th)?(?:(?:,| of)? (\d{{4}}))?(?![\d:]|[.,]\d)")
_DAY_MONTH = re.compile(rf"(?<![\d.,:/-])(\d{{1,2}})(?:st|nd|rd|th)? (?:of )?{_MONTH}(?:,? (\d{{4}})(?!\d))?")
_MONTH_YEAR = re.compile(rf"\b{_MONTH},? (\d{{4}})(?!\d)")
_TIME = re.compile(
    r"(?<![\d:.])([01]?\d|2[0-4]):([0-5]\d)(?::([0-5]\d))?(?![\d:])(?: ?([ap])\.?m\b(\.?))?|"
    r"(?<![\d:.])(1[0-2]|[1-9]) ?([ap])\.?m\b(\.?)", re.I)  # fmt: skip
_MERIDIEM = re.compile(r"\b([ap])\.m\.", re.I)
_MONEY = re.compile(
    rf"{_SIGN}(?:US|CA|AU|NZ)?([{re.escape(''.join(CURRENCIES))}]) ?({_NUMBER})"
    rf"(?: ?({'|'.join(MAGNITUDES)})(?![^\W_]))?"
)
_MONEY_CODE = re.compile(rf"({_NUMBER}) ?({'|'.join(CURRENCY_CODES)})\b|\b({'|'.join(CURRENCY_CODES)}) ?({_NUMBER})")
_PHONE = re.compile(
    r"(?<![\w.,/-])(?:\+?\d{1,3}[ .-])?(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4}(?![\w/-]|[.,]\d)"
    r"|(?<![\w.,/-])\d{3}-\d{4}(?![\w/-]|[.,]\d)|(?<![\w.,/-])\+\d{7,15}(?!\d)"
)
_DECADE = re.compile(r"(?<![\w.,])'?(\d{3}0|[1-9]0)'?s\b")
_ORDINAL = re.compile(r"(?<![\d.,])(\d{1,3}(?:,\d{3})+|\d{1,15})(?:st|nd|rd|th)\b", re.I)
_PERCENT = re.compile(r"(?<=\d) ?%")
_UNIT = re.compile(
    rf"(?<![\d.,])({_NUMBER})[ -]?({'|'.join(sorted(map(re.escape, UNITS), key=len, reverse=True))})(?![^\W_]|[/'])"
)
_VERSION = re.compile(r"(?<![\d.])\d{1,5}(?:\.\d{1,5}){2,}(?![\d])")
_FRACTION = re.compile(r"(?:(?<![\d.,/])(\d{1,6}) )?(?<![\d.,/])(\d{1,3})/(\d{1,3})(?![\d/])")
_RANGE = re.compile(r"(?<=\d)(?: ?[–—] ?|-)(?=\d)")
_YEAR = re.compile(r"(?<![\d.,$-])(1[1-9]\d\d|20\d\d)(?![\d%]|[.,]\d)")
_CARDINAL = re.compile(rf"(?=[-−.\d]){_SIGN}(?<![\d.,])({_NUMBER})|{_SIGN}(\.\d+)|\d+")
_NUMERO = re.compile(r"(?:\bNo\. ?|#|№ ?)(?=\d)")
_TITLE = re.compile(rf"\b({'|'.join(TITLES)})\.? (?=[A-Z])")
_ABBREVIATION = re.compile(
    rf"(?<![\w.])({'|'.join(sorted(map(re.escape, ABBREVIATIONS), key=len, reverse=True))})(?![\w])"
    r"( ?$| (?-i:(?=[A-Z\"])))?",
    re.IGNORECASE,
)
_SAINT = re.compile(r"\bSt\. ?(?=[A-Z])")
_STREET = re.compile(r"(?<=[\w] )(St|Dr|Ave|Blvd|Rd|Ln)\.?(?=[,.;]|$| [a-z])")
_STREETS = {"St": "Street", "Dr": "Drive", "Ave": "Avenue", "Blvd": "Boulevard", "Rd": "Road", "Ln": "Lane"}
_STARTERS = (
    "The|This|That|These|It|He|She|They|We|You|I|A|An|In|On|At|But|And|So|If|When|There|Then|However|What|How|Why|Who"
)
_INITIALISM = re.compile(rf"(?<![\w.])((?:[A-Za-z]\.){{2,}})(?!\w)(?=( ?\"?$| (?:{_STARTERS})\b)?)")
_INITIAL = re.compile(r"(?<![\w.'])([A-Z])\. (?=[A-Z])")
_STUCK = re.compile(r"(?<=\d)(?=[A-Za-z])|(?<=[A-Za-z])(?=\d)")
_MATHS = [
    (re.compile(r"(?<=\w) ?\+ ?(?=\w)"), " plus "),
    (re.compile(r" ?= ?"), " equals "),
    (re.compile(r"(?<=\d) ?[×*] ?(?=\d)"), " times "),
    (re.compile(r"(?<=\d) ?÷ ?(?=\d)"), " divided by "),
    (re.compile(r"±"), " plus or minus "),
    (re.compile(r" ?& ?"), " and "),
    (re.compile(r"@"), " at "),
    (re.compile(r"°"), " degrees "),
    (re.compile(r"(?<=[^\W\d_])/(?=[^\W\d_])"), " "),
    (re.compile(r"[_*~^<>|\\]+"), " "),
]
_TIGHT_COMMA = re.compile(r"(?<=[a-z]),(?=[a-z])")
_FEET_AND_INCHES = re.compile(r"(?<![\w.,])(\d{1,2})['′](\d{1,2})[\"″]")
_AROUND_THE_CLOCK = re.compile(r"(?<![\d/.,])24/7(?![\d/])")
_HYPHENED_NUMBER = re.compile(r"(?<=[A-Za-z])-(?=\d)")
_WEB_SCHEME = re.compile(r"\bhttps?://(?:www\.)?", re.I)
_WEB_DOT = re.compile(r"(?<=[A-Za-z0-9])\.(?=(?:com|org|net|edu|gov|info|io|ir|uk|de|fr|ai|dev)\b)")
_SPACES = re.compile(" {2,}")
_SPACE_BEFORE_MARK = re.compile(r" +(?=[,.;:!?](?: |$))")


def normalize_english(text: str) -> str:
    """The words of a cleaned text."""
    if "://" in text:
        text = _WEB_SCHEME.sub("", text)
    if any(character.isdigit() for character in text) or any(sign in text for sign in VULGAR_FRACTIONS):
        text = _read_numbers(text)
    text = _expand_abbreviations(_WEB_DOT.sub(" dot ", text))
    for pattern, words in _MATHS:
        text = pattern.sub(words, text)
    return _SPACE_BEFORE_MARK.sub("", _SPACES.sub(" ", text)).strip()


def _read_numbers(text: str) -> str:
    for sign, words in VULGAR_FRACTIONS.items():
        if sign in text:
            text = re.sub(rf"(?<=\d) ?{sign}", f" and {words}", text).replace(sign, f" {words} ")
    text = "".join(str(int(c)) if not c.isascii() and c.isdecimal() else c for c in text)
    text = _AROUND_THE_CLOCK.sub("twenty-four seven", text)
    text = _FEET_AND_INCHES.sub(lambda match: f"{say.integer(match[1])} foot {say.integer(match[2])}", text)
    text = _LONG_DIGITS.sub(lambda match: f" {say.digits(match[0])} ", text)
    text = _ISO_DATE.sub(lambda match: _date(match[0], match[2], match[3], match[1]), text)
    text = _SLASH_DATE.sub(_read_slash_date, text)
    text = _MONTH_DAY.sub(lambda match: _named_date(match[0], match[1], match[2], match[3]), text)
    text = _DAY_MONTH.sub(_read_day_month, text)
    text = _MONTH_YEAR.sub(lambda match: f"{_month_name(match[1])} {say.year(int(match[2]))}", text)
    text = _TIME.sub(_read_time, text)
    text = _PHONE.sub(_read_phone, text)
    text = _MONEY.sub(_read_money, text)
    text = _MONEY_CODE.sub(_read_money_code, text)
    text = _DECADE.sub(lambda match: say.decade(int(match[1])), text)
    text = _ORDINAL.sub(lambda match: say.ordinal(int(match[1].replace(",", ""))), text)
    text = _PERCENT.sub(" percent", text)
    text = _NUMERO.sub("number ", text)
    text = _UNIT.sub(_read_unit, text)
    text = _VERSION.sub(lambda match: " point ".join(say.integer(part) for part in match[0].split(".")), text)
    text = _FRACTION.sub(_read_fraction, text)
    text = _RANGE.sub(" to ", text)
    text = _YEAR.sub(lambda match: say.year(int(match[1])), text)
    text = _STUCK.sub(" ", _HYPHENED_NUMBER.sub(" ", text))
    return _TIGHT_COMMA.sub(", ", _CARDINAL.sub(_read_cardinal, text))


def _number(written: str) -> str:
    whole, point, fraction = written.replace(",", "").partition(".")
    return say.decimal(whole, fraction) if point else say.integer(whole)


def _read_cardinal(match: re.Match[str]) -> str:
    sign = "minus " if match[1] or match[3] else ""
    if match[2]:
        return sign + _number(match[2])
    if match[4]:
        return f"{sign}point {say.digits(match[4])}"
    return say.integer(match[0].lstrip("-−"))


def _read_phone(match: re.Match[str]) -> str:
    plus = "plus " if match[0].startswith("+") else ""
    return plus + ", ".join(map(say.digits, re.findall(r"\d+", match[0])))


def _date(written: str, month: str, day: str, year: str) -> str:
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):
        return written
    return f"{MONTHS[int(month) - 1]} {say.ordinal(int(day))}, {say.year(int(year))}"


def _read_slash_date(match: re.Match[str]) -> str:
    """Month first, as Americans write; day first where only that can be meant."""
    first, second, year = match[1], match[2], match[3]
    if len(year) == 2:
        year = f"{'20' if int(year) < 50 else '19'}{year}"
    month, day = (second, first) if int(first) > 12 else (first, second)
    return _date(match[0], month, day, year)


def _month_name(written: str) -> str:
    return _MONTH_NAMES[written[:3].lower()]


def _named_date(written: str, month: str, day: str, year: str | None) -> str:
    if not 1 <= int(day) <= 31:
        return written
    date = f"{_month_name(month)} {say.ordinal(int(day))}"
    return f"{date}, {say.year(int(year))}" if year else date


def _read_day_month(match: re.Match[str]) -> str:
    if " of " not in match[0] or not 1 <= int(match[1]) <= 31:
        return _named_date(match[0], match[2], match[1], match[3])
    date = f"{say.ordinal(int(match[1]))} of {_month_name(match[2])}"
    return f"{date}, {say.year(int(match[3]))}" if match[3] else date


def _read_time(match: re.Match[str]) -> str:
    if match[6]:
        return f"{say.cardinal(int(match[6]))} {match[7].lower()}.m{_final_dot(match, match[8])}"
    half = match[4]
    words = say.clock(int(match[1]), int(match[2]), is_exact_hour_named=half is None and match[3] is None)
    if match[3] and int(match[3]):
        words += f" and {say.cardinal(int(match[3]))} seconds"
    return f"{words} {half.lower()}.m{_final_dot(match, match[5])}" if half else words


def _final_dot(match: re.Match[str], dot: str | None) -> str:
    """The dot of `p.m.` also ends a sentence before a capital and at the end of the text."""
    following = match.string[match.end() : match.end() + 2].lstrip()
    return "." if dot and (not following or following[0].isupper()) else ""


def _read_money(match: re.Match[str]) -> str:
    sign, symbol, written, magnitude = match.groups()
    one, many, cent, cents = CURRENCIES[symbol]
    minus = "minus " if sign else ""
    whole, point, fraction = written.replace(",", "").partition(".")
    if magnitude:
        return f"{minus}{_number(written)} {MAGNITUDES[magnitude]} {many}"
    if not point or len(fraction) != 2 or not cent:
        return f"{minus}{_number(written)} {one if whole == '1' and not point else many}"
    parts = []
    if int(whole) or not int(fraction):
        parts.append(f"{say.integer(whole)} {one if int(whole) == 1 else many}")
    if int(fraction):
        parts.append(f"{say.cardinal(int(fraction))} {cent if int(fraction) == 1 else cents}")
    return minus + " and ".join(parts)


def _read_money_code(match: re.Match[str]) -> str:
    written, code = (match[1], match[2]) if match[2] else (match[4], match[3])
    one, many = CURRENCY_CODES[code]
    return f"{_number(written)} {one if written == '1' else many}"


def _read_unit(match: re.Match[str]) -> str:
    one, many = UNITS[match[2]]
    return f"{_number(match[1])} {one if match[1] == '1' else many}"


def _read_fraction(match: re.Match[str]) -> str:
    numerator, denominator = int(match[2]), int(match[3])
    if not (numerator and 2 <= denominator <= 100 and numerator < denominator):
        return f"{match[1] + ' ' if match[1] else ''}{match[2]} over {match[3]}"
    words = say.fraction(numerator, denominator)
    if match[1]:
        words = f"{say.cardinal(int(match[1]))} and {'a ' + words.partition(' ')[2] if numerator == 1 else words}"
    return words


def _expand_abbreviations(text: str) -> str:
    text = _MERIDIEM.sub(lambda match: f"{match[1].lower()}.m{_final_dot(match, '.')}", text)
    text = _STREET.sub(lambda match: _STREETS[match[1]], text)
    text = _TITLE.sub(lambda match: f"{TITLES[match[1]]} ", text)
    text = _SAINT.sub("Saint ", text)
    text = _ABBREVIATION.sub(_read_abbreviation, text)
    text = _INITIALISM.sub(_read_initialism, text)
    return _INITIAL.sub(r"\1 ", text)


def _read_initialism(match: re.Match[str]) -> str:
    """Letters joined by dots (`U.S.A`), which is how they are told from a word; a last dot only where the sentence ends."""
    return match[1][:-1] + ("." if match[2] is not None else "")


def _read_abbreviation(match: re.Match[str]) -> str:
    """The words; a dot that also ends the sentence stays."""
    ends_sentence = match[2] is not None and match[1].endswith(".")
    return ABBREVIATIONS[match[1].lower()] + ("." if ends_sentence else "") + (match[2] or "")
