"""Persian as it is read aloud: cleaned text in, one form of each letter and numbers as Persian words out.

The marks ، ؛ ؟ stay: they become pauses. A zero-width non-joiner inside a word stays, too.
"""

# ruff: noqa: SIM905 - word lists read best as words
from __future__ import annotations

import re

ZWNJ = "\u200c"

_LETTERS = str.maketrans(
    {
        "ي": "ی", "ى": "ی", "ې": "ی", "ے": "ی", "ۍ": "ی", "ك": "ک", "ڪ": "ک", "ڬ": "ک", "ګ": "گ",
        "ہ": "ه", "ھ": "ه", "ە": "ه", "ۂ": "هٔ", "ة": "ه", "ۀ": "هٔ", "ٱ": "ا", "إ": "ا",
        "ۇ": "و", "ۆ": "و", "ۋ": "و", "ڤ": "و", "ـ": None, "ٰ": None, "¬": ZWNJ,
    }
)  # fmt: skip
_DIGITS = str.maketrans("۰۱۲۳۴۵۶۷۸۹٠١٢٣٤٥٦٧٨٩", "01234567890123456789")
_SIGNS = str.maketrans({"٫": ".", "٬": ",", "٪": "%", "−": "-", "–": "-"})

_UNITS = "صفر یک دو سه چهار پنج شش هفت هشت نه ده یازده دوازده سیزده چهارده پانزده شانزده هفده هجده نوزده".split()
_TENS = "_ _ بیست سی چهل پنجاه شصت هفتاد هشتاد نود".split()
_HUNDREDS = "_ صد دویست سیصد چهارصد پانصد ششصد هفتصد هشتصد نهصد".split()
_SCALES = ["", "هزار", "میلیون", "میلیارد", "تریلیون"]
_AND = " و "
_LONGEST_NUMBER = 15

_JALALI_MONTHS = "فروردین اردیبهشت خرداد تیر مرداد شهریور مهر آبان آذر دی بهمن اسفند".split()
_GREGORIAN_MONTHS = "ژانویه فوریه مارس آوریل مه ژوئن ژوئیه اوت سپتامبر اکتبر نوامبر دسامبر".split()
_CURRENCIES = {"$": "دلار", "€": "یورو", "£": "پوند", "¥": "ین", "﷼": "ریال"}
_MEASURES = {
    "km": "کیلومتر", "cm": "سانتی‌متر", "mm": "میلی‌متر", "m": "متر", "kg": "کیلوگرم", "mg": "میلی‌گرم", "g": "گرم",
    "km/h": "کیلومتر بر ساعت", "ml": "میلی‌لیتر", "l": "لیتر", "GB": "گیگابایت", "MB": "مگابایت", "KB": "کیلوبایت",
    "Hz": "هرتز", "kHz": "کیلوهرتز", "MHz": "مگاهرتز", "GHz": "گیگاهرتز", "°C": "درجهٔ سانتی‌گراد", "°": "درجه",
}  # fmt: skip

_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\d)|\d+(?:[./]\d+)?"
_LONG_DIGITS = re.compile(rf"\d{{{_LONGEST_NUMBER + 1},}}")
_DATE = re.compile(r"(?<![\d/.-])(\d{4})([/-])(\d{1,2})\2(\d{1,2})(?![\d/-])")
_TIME = re.compile(r"(?<![\d:])([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?(?![\d:])")
_PHONE = re.compile(
    r"(?<![\d.,/+])(?:\+\d{1,3}[ -]?\d{2,4}[ -]?\d{3,4}[ -]?\d{2,4}|0\d{2,3}[ -]?\d{3,4}[ -]?\d{4})(?![\d.,/])"
)
_CURRENCY = re.compile(rf"([$€£¥﷼]) ?({_NUMBER})")
_PERCENT_BEFORE = re.compile(rf"% ?({_NUMBER})")
_PERCENT = re.compile(r"(?<=\d) ?%")
_MEASURE = re.compile(rf"(?<=\d) ?({'|'.join(sorted(map(re.escape, _MEASURES), key=len, reverse=True))})(?![^\W\d_])")
_RANGE = re.compile(r"(?<=\d) ?- ?(?=\d)")
_MINUS = re.compile(r"(?<![\w-])-(?=\d)")
_ORDINAL = re.compile(rf"(?<![\d.,/])(\d{{1,15}}){ZWNJ}?(?:اُ|ا)?(مین|م)(?![^\W\d_])")
_LEADING_ZERO = re.compile(r"(?<![\d.,/])0\d+(?![\d.,/])")
_CARDINAL = re.compile(rf"(?<![\d.,/]){_NUMBER}|\d+")
_STUCK = re.compile(r"(?<=\d)(?=[^\W\d_])|(?<=[^\W\d_])(?=\d)")
_SPACES = re.compile(" {2,}")


def unify_letters(text: str) -> str:
    """Arabic and Persian variants of a letter as one letter."""
    return text.translate(_LETTERS).replace("یٔ", "ئ")


def normalize_persian(text: str) -> str:
    """The words of a cleaned text."""
    text = unify_letters(text).translate(_DIGITS).translate(_SIGNS)
    text = re.sub(f"{ZWNJ}{{2,}}", ZWNJ, text).strip(ZWNJ)
    text = text.replace("&", " و ").replace("@", " اَت ")
    if any("0" <= character <= "9" for character in text):
        text = _read_numbers(text)
    return _SPACES.sub(" ", text).strip()


def _read_numbers(text: str) -> str:
    text = _LONG_DIGITS.sub(lambda match: f" {digits_in_words(match[0])} ", text)
    text = _DATE.sub(_read_date, text)
    text = _TIME.sub(_read_time, text)
    text = _PHONE.sub(_read_phone, text)
    text = _CURRENCY.sub(lambda match: f"{match[2]} {_CURRENCIES[match[1]]}", text)
    text = _PERCENT_BEFORE.sub(r"\1%", text) if "%" in text else text
    text = _PERCENT.sub(" درصد ", text)
    text = _MEASURE.sub(lambda match: f" {_MEASURES[match[1]]}", text)
    text = _ORDINAL.sub(lambda match: ordinal_in_words(int(match[1])) + ("ین" if match[2] == "مین" else ""), text)
    text = _RANGE.sub(" تا ", text)
    text = _MINUS.sub("منفی ", text)
    text = _STUCK.sub(" ", text)
    text = _LEADING_ZERO.sub(lambda match: digits_in_words(match[0]), text)
    return _CARDINAL.sub(lambda match: _read_number(match[0]), text)


def number_in_words(number: int) -> str:
    """A number below 10 to the 15th: 1402 → هزار و چهارصد و دو."""
    if number < 20:
        return _UNITS[number]
    if number < 100:
        return _TENS[number // 10] + (_AND + _UNITS[number % 10] if number % 10 else "")
    if number < 1000:
        return _HUNDREDS[number // 100] + (_AND + number_in_words(number % 100) if number % 100 else "")
    parts, scale = [], 0
    while number:
        number, group = divmod(number, 1000)
        if group:
            is_plain_thousand = group == 1 and scale == 1
            parts.append(_SCALES[scale] if is_plain_thousand else f"{number_in_words(group)} {_SCALES[scale]}".strip())
        scale += 1
    return _AND.join(reversed(parts))


def ordinal_in_words(number: int) -> str:
    """23 → بیست و سوم."""
    words = number_in_words(number)
    if words.endswith("سه"):
        return words[: -len("سه")] + "سوم"
    if words.endswith("سی"):
        return f"{words}{ZWNJ}ام"
    return words + "م"


def digits_in_words(digits: str) -> str:
    """One word for each digit."""
    return " ".join(_UNITS[int(digit)] for digit in digits)


def _read_number(written: str) -> str:
    whole, point, fraction = written.replace(",", "").replace("/", ".").partition(".")
    if len(whole) > _LONGEST_NUMBER:
        return digits_in_words(whole + fraction)
    words = number_in_words(int(whole))
    if not point or not fraction.strip("0"):
        return words
    zeros = len(fraction) - len(fraction.lstrip("0"))
    if len(fraction) > 4:
        return f"{words} ممیز {digits_in_words(fraction)}"
    return " ".join([words, "ممیز", *["صفر"] * zeros, number_in_words(int(fraction))])


def _read_date(match: re.Match[str]) -> str:
    year, month, day = int(match[1]), int(match[3]), int(match[4])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return match[0]
    if 1200 <= year <= 1599:
        name = _JALALI_MONTHS[month - 1]
    elif 1600 <= year <= 2199:
        name = _GREGORIAN_MONTHS[month - 1]
    else:
        return match[0]
    return f"{ordinal_in_words(day)} {name} {number_in_words(year)}"


def _read_time(match: re.Match[str]) -> str:
    parts = [number_in_words(int(match[1]))]
    if int(match[2]):
        parts.append(f"{number_in_words(int(match[2]))} دقیقه")
    if match[3] and int(match[3]):
        parts.append(f"{number_in_words(int(match[3]))} ثانیه")
    return _AND.join(parts)


def _read_phone(match: re.Match[str]) -> str:
    """Groups of digits with a short pause between them; an unbroken mobile number is cut 4-3-2-2 as people say it."""
    written = match[0]
    groups = re.findall(r"\d+", written)
    if len(groups) == 1 and len(groups[0]) == 11:
        number = groups[0]
        groups = [number[:4], number[4:7], number[7:9], number[9:]]
    plus = "مثبت " if written.startswith("+") else ""
    return plus + "، ".join(digits_in_words(group) for group in groups)
