"""Persian telephone numbers, card numbers, bank accounts, codes and license plates in words."""

from __future__ import annotations

import re

from myxtts.text.persian_numbers import LONGEST_NUMBER, ZWNJ, digits_in_words, group_in_words
from myxtts.text.rules import DIGITS, Rule, rule

_MOBILE = r"09\d\d[ -]?\d{3}[ -]?\d{2}[ -]?\d{2}"
_LANDLINE = r"(?:0[1-8]\d|\(0[1-8]\d\))[ -]?\d{2,4}[ -]?\d{2,4}(?:[ -]?\d{2})?"
_PHONE_END = r"(?![\d/:]|[.,-]\d)"


def _only_digits(written: str) -> str:
    return re.sub(r"\D", "", written)


def _groups(digits: str, *sizes: int) -> str:
    """Digits cut into groups that are read with a pause between them; the last size repeats."""
    spoken, position, sizes_left = [], 0, list(sizes)
    while position < len(digits):
        size = sizes_left.pop(0) if len(sizes_left) > 1 else sizes_left[0]
        spoken.append(group_in_words(digits[position : position + size]))
        position += size
    return "، ".join(spoken)


def _read_landline(match: re.Match[str]) -> str:
    digits = _only_digits(match[0])
    return _groups(digits, 3, 2) if len(digits) == 11 else match[0]


def _read_international(match: re.Match[str]) -> str:
    digits = _only_digits(match[2])
    prefix = f"به{ZWNJ}علاوهٔ" if match[1] == "+" else "صفر صفر"
    if digits.startswith("98") and len(digits) == 12:
        sizes = (2, 3, 3, 2) if digits[2] == "9" else (2, 2)
        return f"{prefix} {_groups(digits, *sizes)}"
    written = re.findall(r"\d+", match[2])
    return f"{prefix} {'، '.join(map(digits_in_words, written))}"


def _spelled(match: re.Match[str]) -> str:
    return f"{match[1]}{'، '.join(map(digits_in_words, re.findall(r'[0-9]+', match[2])))}"


RULES: tuple[Rule, ...] = (
    rule(
        "IBAN",
        r"(?<![A-Za-z])(IR) ?(\d{24}|\d\d(?: \d{4}){5} \d\d)(?!\d)",
        lambda match: f"آی{ZWNJ}آر {digits_in_words(_only_digits(match[2]))}",
        {
            "IR120170000000101234567890": "آی‌آر یک دو صفر یک هفت صفر صفر صفر صفر صفر صفر صفر یک صفر "
            "یک دو سه چهار پنج شش هفت هشت نُه صفر"
        },
        "R",
    ),
    rule(
        "card number",
        r"(?<![\d.,/+-])()(\d{4}(?:[ -]?\d{4}){3})(?![\d/]|[.,-]\d)",
        _spelled,
        {"۶۰۳۷-۹۹۷۱-۱۲۳۴-۵۶۷۸": "شش صفر سه هفت، نُه نُه هفت یک، یک دو سه چهار، پنج شش هفت هشت"},
        DIGITS,
    ),
    rule(
        "very long number",
        rf"\d{{{LONGEST_NUMBER + 1},}}",
        lambda match: f" {digits_in_words(match[0])} ",
        {"۱۲۳۴۵۶۷۸۹۰۱۲۳۴۵۶۷": "یک دو سه چهار پنج شش هفت هشت نُه صفر یک دو سه چهار پنج شش هفت"},
        DIGITS,
    ),
    rule(
        "mobile number",
        rf"(?<![\d.,/+-]){_MOBILE}{_PHONE_END}|(?<![\d.,/+-])09\d\d[ -]\d{{3}}[ -]\d{{4}}{_PHONE_END}",
        lambda match: _groups(_only_digits(match[0]), 4, 3, 2),
        {"۰۹۱۲۳۴۵۶۷۸۹": "صفر نهصد و دوازده، سیصد و چهل و پنج، شصت و هفت، هشتاد و نُه"},
        "0",
    ),
    rule(
        "landline number",
        rf"(?<![\d.,/+-]){_LANDLINE}{_PHONE_END}",
        _read_landline,
        {"۰۲۱-۸۸۷۷۶۶۵۵": "صفر بیست و یک، هشتاد و هشت، هفتاد و هفت، شصت و شش، پنجاه و پنج"},
        "0",
    ),
    rule(
        "landline number, area last",
        r"(?<![\d.,/+-])(\d{8}) ?- ?(0[1-8]\d)(?![\d/]|[.,-]\d)",
        lambda match: _groups(match[2] + match[1], 3, 2),
        {"۸۸۷۷۶۶۵۵-۰۲۱": "صفر بیست و یک، هشتاد و هشت، هفتاد و هفت، شصت و شش، پنجاه و پنج"},
        "0",
    ),
    rule(
        "international number",
        r"(?<![\d.,/+-])(\+|00)(\d{1,3}(?:[ -]?\d{2,4}){2,4})(?![\d/]|[.,-]\d)",
        _read_international,
        {"+989123456789": "به‌علاوهٔ نود و هشت، نهصد و دوازده، سیصد و چهل و پنج، شصت و هفت، هشتاد و نُه"},
        "+0",
    ),
    rule(
        "number after telephone",
        r"((?:تلفن|تماس|فکس|نمابر|شمار(?:ه|هٔ))(?:[^\d.؛\n]{0,12}))"
        r"(?<!\d)(\d{4}[ -]?\d{4}|\d{3}[ -]\d{2}[ -]\d{2})(?![\d/]|[.,-]\d)",
        lambda match: match[1] + _groups(_only_digits(match[2]), 2),
        {"تلفن: ۸۸۷۷۶۶۵۵": "تلفن: هشتاد و هشت، هفتاد و هفت، شصت و شش، پنجاه و پنج"},
        DIGITS,
    ),
    rule(
        "code",
        "((?:کد(?:پستی|ملی)?|رمز|شناسه|شناسهٔ|پین)(?: (?:ملی|پستی|رهگیری|تأیید|تایید|اقتصادی|عبور"
        r"|یکبار مصرف))?(?: \w{1,8})?:? )(\d{5,15}(?:-\d{3,6})?|(?<!کد )\d{4}|0\d{1,3})(?![\d/]|[.,-]\d)",
        _spelled,
        {"کد پستی ۱۲۳۴۵-۶۷۸۹۰": "کد پستی یک دو سه چهار پنج، شش هفت هشت نُه صفر"},
        DIGITS,
    ),
    rule(
        "license plate",
        r"(?<![\w.,/-])(\d\d) ?(الف|[بپتثجدزسشصطعفقکگلمنوهی]) ?(\d{3}) ?- ?(\d\d)(?![\w/-])",
        r"\1 \2 \3 \4",
        {"۱۲ب۳۴۵-۶۷": "دوازده ب سیصد و چهل و پنج شصت و هفت"},
        "-",
    ),
    rule(
        "aircraft with its series",
        r"(بوئینگ |ایرباس |Boeing |Airbus )(\d{3})-(\d{3})(?![\w-])",
        r"\1\2 \3",
        {"بوئینگ ۷۳۷-۸۰۰": "بوئینگ هفتصد و سی و هفت هشتصد"},
        "-",
    ),
)
