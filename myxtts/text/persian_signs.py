"""Persian web addresses, hashtags, signs, telephone numbers, card numbers, bank accounts and codes in words."""

from __future__ import annotations

import re

from myxtts.text.cleanup import ZWNJ
from myxtts.text.persian_numbers import digits_in_words, group_in_words
from myxtts.text.rules import (
    DIGITS,
    FROM_SUPERSCRIPT,
    LONGEST_NUMBER,
    SUPERSCRIPTS,
    Rule,
    SpokenPart,
    address_rules,
    letters_with_ampersand,
    read_address,
    rule,
    spoken,
)

_ADDRESS_SIGNS = {
    ".": "دات", "/": "اسلش", "@": f"اَت{ZWNJ}ساین", "-": f"خط{ZWNJ}تیره", "_": "آندرلاین", "\\": f"بک{ZWNJ}اسلش",
    ":": "دونقطه", "?": "علامتِ سؤال", "=": "مساوی", "&": "اَند", "%": "درصد", "#": "هشتگ", "~": "مَد", "+": "پْلاس",
    "://": "دونقطه اسلش اسلش",
}  # fmt: skip
_SCHEMES = {
    "https": f"اچ{ZWNJ}تی{ZWNJ}تی{ZWNJ}پی{ZWNJ}اس",
    "http": f"اچ{ZWNJ}تی{ZWNJ}تی{ZWNJ}پی",
    "ftp": f"اف{ZWNJ}تی{ZWNJ}پی",
}
_RELATIONS = {
    ">": f"بزرگ{ZWNJ}تر از", "<": f"کوچک{ZWNJ}تر از", "≥": f"بزرگ{ZWNJ}تر یا مساوی", "≤": f"کوچک{ZWNJ}تر یا مساوی",
    "≠": "نامساوی با", "≈": "تقریباً برابر با",
}  # fmt: skip
_LIMITS = {">": "بیش از", "<": "کمتر از", "≥": "حداقل", "≤": "حداکثر"}


def _read_address(match: re.Match[str]) -> str:
    spoken = read_address(match[0], _ADDRESS_SIGNS, is_scheme_read=True)
    scheme, separator, rest = spoken.strip().partition(" ")
    return f" {_SCHEMES[scheme]} {rest} " if scheme in _SCHEMES and separator else spoken


WEB_RULES: tuple[Rule, ...] = (
    *address_rules(
        _read_address,
        {"info@example.com": "info اَت‌ساین example دات com"},
        {"www.example.ir": "W.W.W دات example دات I.R"},
        {"C:\\Temp": "C دونقطه بک‌اسلش Temp"},
        {"report.pdf": "report دات pdf"},
    ),
    rule(
        "hashtag",
        r"(?<![\w&])#([^\W\d]\w*)",
        lambda match: f"هشتگ {match[1].replace('_', ' ')}",
        {"#هوای_آلوده": "هشتگ هوای آلوده"},
        "#",
    ),
    rule("sharp", r"(?<!\w)([A-G])#(?!\w)", r"\1 شارپ", {"C#": "C شارپ"}, "#"),
    rule("plus plus", r"(?<!\w)([A-Z])\+\+(?!\w)", r"\1 پْلاس پْلاس", {"C++": "C پْلاس پْلاس"}, "+"),
    rule(
        "mention",
        r"(?<![\w.@])@(\w+)",
        lambda match: f" اَت{ZWNJ}ساین {match[1].replace('_', ' آندرلاین ')}",
        {"@iran_news": "اَت‌ساین iran آندرلاین news"},
        "@",
    ),
    rule("at sign", r" ?@ ?", f" اَت{ZWNJ}ساین ", {"علی @ خانه": "علی اَت‌ساین خانه"}, "@"),
    letters_with_ampersand(),
    rule("ampersand", r" ?& ?", " و ", {"نان & پنیر": "نان و پنیر"}, "&"),
)

MATH_RULES: tuple[Rule, ...] = (
    rule(
        "relation",
        r"(?<=[\w)%]) ?([<>≥≤≠≈]) ?(?=[\w(√-])",
        lambda match: f" {_RELATIONS[match[1]]} ",
        {"۵ > ۳": "پنج بزرگ‌تر از سه"},
        "<>≥≤≠≈",
    ),
    rule(
        "limit", r"(?<![\w)%<>-])([<>≥≤]) ?(?=\d)", lambda match: f"{_LIMITS[match[1]]} ", {">۱۰۰": "بیش از صد"}, "<>≥≤"
    ),
    rule("approximately", r"(?<![\w~])[~≈] ?(?=\d)", "حدود ", {"~۲۰": "حدود بیست"}, "~≈"),
    rule("plus after a number", r"(?<![\d.,])(\d+)\+(?![\w+(])(?! ?\d)", r"بیش از \1", {"۵۰+": "بیش از پنجاه"}, "+"),
    rule("sum", r"(?<=[\dA-Za-z)²³]) ?\+ ?(?=[\d(A-Za-z√])", f" به{ZWNJ}علاوهٔ ", {"۵+۳": "پنج به‌علاوهٔ سه"}, "+"),
    rule(
        "power",
        rf"(?<=[\d)A-Za-z])(?:\^ ?([-−]?\w{{1,4}})|([{SUPERSCRIPTS}⁻]{{1,4}}))",
        lambda match: f" به توان {(match[1] or match[2].translate(FROM_SUPERSCRIPT)).replace('-', 'منفی ')}",
        {"۱۰^۶": "ده به توان شش", "۲³": "دو به توان سه"},
        f"^{SUPERSCRIPTS}",
    ),
    rule("root", r"√ ?(?=[\w(])", "رادیکال ", {"√۱۶": "رادیکال شانزده"}, "√"),
    rule(
        "multiplication",
        r"(?<=[\w)]) ?[×*✕] ?(?=[\d(A-Za-z])|(?<=\d) ?[xX] ?(?=\d)",
        " در ",
        {"۵×۴": "پنج در چهار"},
        "×*✕xX",
    ),
    rule("division", r"(?<=[\w)]) ?÷ ?(?=[\w(])", " تقسیم بر ", {"۱۲ ÷ ۴": "دوازده تقسیم بر چهار"}, "÷"),
    rule("positive", r"(?<![\w+])\+(?=\d)", "مثبت ", {"+۵": "مثبت پنج"}, "+"),
    rule("equals", r" ?=+ ?", " مساوی ", {"۲=۲": "دو مساوی دو"}, "="),
    rule("plus or minus", r" ?± ?", " مثبت و منفی ", {"±۲": "مثبت و منفی دو"}, "±"),
    rule("infinity", " ?∞ ?", f" بی{ZWNJ}نهایت ", {"∞": "بی‌نهایت"}, "∞"),
    rule("pi", r"(?<![^\W\d_])π(?![^\W\d_])", " پیْ ", {"π": "پیْ"}, "π"),
)

EARLY_RULES: tuple[Rule, ...] = (
    rule(
        "difference before an equals sign",
        r"(?<=\d) ?[-−] ?(?=\d+ ?=)",
        " منهای ",
        {"۷-۲=۵": "هفت منهای دو مساوی پنج"},
        "=",
    ),
    rule("number sign", r"(?:#|№) ?(?=\d)", "شمارهٔ ", {"#۱": "شمارهٔ یک"}, "#№"),
)
"""Rules that apply before those for quantities."""

SIGN_RULES: tuple[Rule, ...] = (
    rule("slash between words", r"(?<=[^\W\d_])/(?=[^\W\d_])", " ", {"و/یا": "و یا"}, "/"),
    rule("silent signs", r"[_*^|\\]+", " ", {"*مهم*": "مهم"}, "_*^|\\"),
)


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
    parts: list[SpokenPart] = [(match[1], match.span(1))]
    for group in re.compile(r"[0-9]+").finditer(match.string, *match.span(2)):
        parts += ["، "] if len(parts) > 1 else []
        parts.append((digits_in_words(group[0]), group.span()))
    return spoken(*parts)


CODE_RULES: tuple[Rule, ...] = (
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
