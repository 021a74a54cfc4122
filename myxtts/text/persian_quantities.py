"""Persian money, measures, fractions, scores, ranges and plain numbers in words."""

# ruff: noqa: SIM905 - word lists read best as words
from __future__ import annotations

import re

from myxtts.text.persian_numbers import (
    CURRENCIES,
    CURRENCY_CODES,
    FRACTION_SIGNS,
    KASRA,
    MARKED_UNITS,
    UNITS,
    ZWNJ,
    digits_in_words,
    fraction_in_words,
    group_in_words,
    number_in_words,
    ordinal_in_words,
    with_ezafe,
    written_in_words,
)  # fmt: skip
from myxtts.text.rules import DIGITS, Rule, alternatives, rule, spoken

_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\d)|\d+(?:\.\d+)?"
_NO_LETTER = r"(?![^\W\d_])"
_SCORE_CUES = re.compile(
    "بازی|مسابقه|دیدار|نتیجه|برد(?![نا])|باخت|شکست|پیروز|قهرمان|گل |ست "
    "|مساوی|مغلوب|پنالتی|حریف|به سود|به نفع|جام|لیگ|فینال|صعود|تساوی"
)
_NEAR = 60
"""Characters around a match that are searched for a word that decides its meaning."""
_LARGE = "هزار|میلیون|میلیارد|تریلیون|درصد|٪|%|برابر|ریشتر"
_MEASURED = (
    f"{_LARGE}|متر|کیلو|سانتی|میلی|لیتر|گرم|تن|هکتار|ساله|سال|ساعت|روز"
    "|ماه|دقیقه|ثانیه|تومان|دلار|یورو|ریال|درجه|واحد|مگا|گیگا|اینچ|وات"
)
_BEFORE_NUMBERS = (
    "شماره صفحه ماده تبصره قطعنامه نسخه پلاک طبقه منطقه ناحیه دهه آیه سوره فصل جلد بند اصل بخش شبکه کانال اتاق "
    "کلاس درس مرحله گروه واحد رتبه پرونده جدول نمودار تصویر شکل تمرین سؤال پرسش خط مدل سکوی ایستگاه"
).split()
"""Words with an ezafe before the number that names them."""


_SCALE_LETTERS = {"K": " هزار", "M": " میلیون", "B": " میلیارد"}


def _around(match: re.Match[str]) -> str:
    return match.string[max(0, match.start() - _NEAR) : match.end() + _NEAR]


def _read_dotted_thousands(match: re.Match[str]) -> str:
    is_certain = match[1].count(".") > 1 or match[1].endswith("00") or match[2]
    return match[1].replace(".", "") + (match[2] or "") if is_certain else match[0]


def _read_money(match: re.Match[str]) -> str:
    name, hundredth = CURRENCIES[match["sign"]]
    number, scale = match["number"], _SCALE_LETTERS.get(match["scale"], match["scale"] or "")
    whole, point, fraction = number.replace(",", "").partition(".")
    if point and len(fraction) == 2 and hundredth and not scale and int(fraction):
        numbers, sign = match.span("number"), match.span("sign")
        hundredths = [(number_in_words(int(fraction)), numbers), " ", (hundredth, sign)]
        wholes = [(written_in_words(whole), numbers), " ", (name, sign), " و "] if int(whole) else []
        return spoken(*wholes, *hundredths)
    scale_span = match.span("scale") if scale else match.span("number")
    return spoken((number, match.span("number")), (scale, scale_span), " ", (name, match.span("sign")))


def _read_ratio_sign(match: re.Match[str]) -> str:
    """A slash between numbers: a grade, a fraction or a decimal point."""
    whole, first, second, following = (
        match[1],
        match[2],
        match[3],
        match.string[match.end() : match.end() + 14].lstrip(),
    )
    numerator, denominator = int(first), int(second)
    before = match.string[max(0, match.start() - 20) : match.start()]
    is_large = re.match(_LARGE, following) is not None
    is_measured = re.match(_MEASURED, following) is not None
    if numerator == denominator == 50:
        return f"{first} {second}"
    if numerator == 1 and denominator in (100, 1000) and not is_measured:
        return fraction_in_words(numerator, denominator)
    is_blood_pressure = 90 <= numerator <= 220 and 50 <= denominator <= 130 and denominator < numerator
    if "فشار" in before or is_blood_pressure:
        return f"{first} روی {second}"
    if denominator in (20, 100) and numerator <= denominator and not is_measured:
        return f"{first} از {second}"
    is_fraction = 0 < numerator < denominator <= 10 and not first.startswith("0") and not second.startswith("0")
    if is_fraction and not is_large and (denominator < 5 or not is_measured):
        if whole:
            part = "نیم" if (numerator, denominator) == (1, 2) else fraction_in_words(numerator, denominator)
            return f"{number_in_words(int(whole))} و {part}"
        return fraction_in_words(numerator, denominator)
    words = (
        f"{number_in_words(numerator)} و نیم" if second == "5" and numerator else written_in_words(f"{first}.{second}")
    )
    return f"{whole} {words}" if whole else words


def _read_fraction_sign(match: re.Match[str]) -> str:
    joint = " و " if match.start() and match.string[match.start() - 1].isdigit() else " "
    return f"{joint}{FRACTION_SIGNS[match[1]]} "


def _is_between_words(match: re.Match[str]) -> bool:
    before, after = match.string[: match.start()][-2:], match.string[match.end() : match.end() + 2]
    return before.strip().isalpha() and after.strip().isalpha()


def _read_pair(match: re.Match[str]) -> str:
    """Two numbers with a hyphen: a score, a difference or a range."""
    first, joint, second = match[1], match[2], match[3]
    if _SCORE_CUES.search(_around(match)) and int(first) < 200 and int(second) < 200:
        return f"{first} بر {second}"
    if joint.startswith(" ") and joint.endswith(" "):
        return f"{first} بر {second}" if _is_between_words(match) else f"{first} منهای {second}"
    if first == second:
        return f"{first} {second}"
    return f"{first} بر {second}" if int(second) < int(first) < 20 else f"{first} تا {second}"


def _read_ordinal(match: re.Match[str]) -> str:
    return ordinal_in_words(int(match[1])) + ("ین" if match[0].endswith("ین") else "")


def _read_coordinate(match: re.Match[str]) -> str:
    parts = [
        f"{match[1]} درجه",
        *([f"{match[2]} دقیقه"] if match[2] else []),
        *([f"{match[3]} ثانیه"] if match[3] else []),
    ]
    words = " و ".join(parts)
    return with_ezafe(words) + match[4] if match[4] else words


RULES: tuple[Rule, ...] = (
    rule(
        "fraction sign",
        rf"(?:(?<=\d) ?)?([{''.join(FRACTION_SIGNS)}])",
        _read_fraction_sign,
        {"½ لیوان": "نیم لیوان", "۳ ¾ متر": "سه و سه‌چهارم متر"},
        "".join(FRACTION_SIGNS),
    ),
    rule(
        "thousands with dots",
        r"(?<![\d.,/:-])(\d{1,3}(?:\.\d{3})+)(?![\d/:]|[.,]\d)( ?(?:تومان|تومن|ریال|دلار|یورو|ت(?![^\W\d_])))?",
        _read_dotted_thousands,
        {"۱۲۰.۰۰۰ تومان": "صد و بیست هزار تومان", "۲٫۵۰۰٫۰۰۰ نسخه": "دو میلیون و پانصد هزار نسخه"},
        ".",
    ),
    rule(
        "thousands of money with slashes or commas",
        r"(?<![\d/،.,-])(\d{1,3}(?:(?:/\d{3})+|(?:،\d{3})+))(?= ?(?:تومان|تومن|ریال|دلار|یورو))",
        lambda match: re.sub("[/،]", "", match[1]),
        {"۷۵۰/۰۰۰ تومان": "هفتصد و پنجاه هزار تومان", "۵۸،۴۵۰ تومان": "پنجاه و هشت هزار و چهارصد و پنجاه تومان"},
        "/،",
    ),
    rule(
        "thousands with spaces",
        r"(?<![\d.,/:-])(?<!\d )([1-9]\d{0,2})((?: 000)+|(?: \d{3}){2,3})(?![\d/:]| ?\d|[.,]\d)",
        lambda match: match[0].replace(" ", ""),
        {"۱۲ ۰۰۰ ۰۰۰ نفر": "دوازده میلیون نفر"},
        DIGITS,
    ),
    rule(
        "twenty-four seven",
        r"(?<![\d/.,])24/7(?![\d/])",
        "24 7",
        {"۲۴/۷": "بیست و چهار هفت"},
        "/",
    ),
    rule(
        "percent sign first",
        rf"% ?((?:{_NUMBER})(?: ?[-–] ?(?:{_NUMBER}))?)",
        lambda match: spoken((match[1], match.span(1)), " ", ("درصد", (match.start(), match.start() + 1))),
        {"٪۲۰": "بیست درصد"},
        "%",
    ),
    rule("per mille", r"(?<=\d) ?‰", " در هزار ", {"۳۵‰": "سی و پنج در هزار"}, "‰"),
    rule("percent", r"(?<=\d) ?%", " درصد ", {"۵۰٪": "پنجاه درصد"}, "%"),
    rule(
        "range of money",
        rf"([{re.escape(''.join(CURRENCIES))}]) ?({_NUMBER}) ?[-–—] ?\1?({_NUMBER})",
        lambda match: spoken(
            (match[2], match.span(2)), " تا ", (match[3], match.span(3)), " ", (CURRENCIES[match[1]][0], match.span(1))
        ),
        {"$۱۰۰-۲۰۰": "صد تا دویست دلار"},
        "-–—",
    ),
    rule(
        "money",
        rf"(?P<sign>[{re.escape(''.join(CURRENCIES))}]) ?(?P<number>{_NUMBER})(?P<scale> (?:هزار|میلیون|میلیارد|تریلیون)"
        r"|[KMB](?![^\W_]))?",
        _read_money,
        {"€۲۵٫۵۰": "بیست و پنج یورو و پنجاه سنْت", "$2.5M": "دو ممیز پنج میلیون دلار"},
        "".join(CURRENCIES),
    ),
    rule(
        "rial sign",
        rf"(?<![^\W_])ریال({_NUMBER})",
        r"\1 ریال",
        {"﷼۵۰۰۰": "پنج هزار ریال"},
        "ر",
    ),
    rule(
        "sign after the amount",
        rf"(?<![\d.,])(?P<number>{_NUMBER})(?P<scale> (?:هزار|میلیون"
        f"|میلیارد|تریلیون))? ?(?P<sign>[{re.escape(''.join(CURRENCIES))}])",
        _read_money,
        {"100$": "صد دلار", "۵۰ $": "پنجاه دلار"},
        "".join(CURRENCIES),
    ),
    rule(
        "currency code",
        rf"(?<=\d) ?({alternatives(CURRENCY_CODES)})(?![^\W_])",
        lambda match: f" {CURRENCY_CODES[match[1]]}",
        {"500 USD": "پانصد دلار"},
        "UEGIRACB",
    ),
    rule(
        "currency code first",
        rf"(?<![^\W_])({alternatives(CURRENCY_CODES)}) ?({_NUMBER})",
        lambda match: spoken((match[2], match.span(2)), " ", (CURRENCY_CODES[match[1]], match.span(1))),
        {"USD 500": "پانصد دلار"},
        "UEGIRACB",
    ),
    rule(
        "toman",
        rf"(?<=\d)((?: (?:هزار|میلیون|میلیارد))?) ?ت{_NO_LETTER}(?!\.)",
        r"\1 تومان",
        {"۵۰۰۰ت": "پنج هزار تومان", "۲۵۰ هزار ت": "دویست و پنجاه هزار تومان"},
        "ت",
    ),
    rule(
        "coordinate",
        r"(?<![\d.,])(\d{1,3}(?:\.\d+)?)° ?(\d{1,2}(?:\.\d+)?)['′](?: ?(\d{1,2}(?:\.\d+)?)[\"″])?( ?(?:شمالی|جنوبی|شرقی|غربی))?",
        _read_coordinate,
        {"۳۵°۴۱′ شمالی": "سی و پنج درجه و چهل و یک دقیقهٔ شمالی"},
        "°",
    ),
    rule(
        "degree sign first",
        rf"° ?({_NUMBER})",
        lambda match: spoken((match[1], match.span(1)), " ", ("درجه", (match.start(), match.start() + 1))),
        {"°۴۵": "چهل و پنج درجه"},
        "°",
    ),
    rule(
        "unit",
        rf"(?<=\d)((?: (?:هزار|میلیون|میلیارد))?) ?({alternatives(UNITS)})(?![^\W_]|[²³])",
        lambda match: f"{match[1]} {UNITS[match[2]]}",
        {
            "۹۰ km/h": "نود کیلومتر بر ساعت",
            "۱۰ m²": "ده مترِ مربع",
            "128GB": "صد و بیست و هشت گیگابایت",
            "۲ میلیون m³": "دو میلیون مترِ مکعب",
        },
        DIGITS,
    ),
    rule(
        "unit in words",
        rf"(?<=\d)((?: (?:هزار|میلیون|میلیارد))?) ({alternatives(MARKED_UNITS)}){_NO_LETTER}",
        lambda match: f"{match[1]} {MARKED_UNITS[match[2]]}",
        {"۱۰ گرم طلا": "ده گرَم طلا", "۵۰ سنت": "پنجاه سنْت"},
        DIGITS,
    ),
    rule(
        "square and cubic",
        r"(?<=[^\W\d_a-zA-Z]) ?([²³])",
        lambda match: f"{KASRA} مربع" if match[1] == "²" else f"{KASRA} مکعب",
        {"متر²": "مترِ مربع"},
        "²³",
    ),
    rule(
        "ordinal",
        rf"(?<![\d.,/])(\d{{1,15}})(?:{ZWNJ}?م(?:ین)?|[ {ZWNJ}]?(?:اُ|ا)م(?:ین)?){_NO_LETTER}(?!\.)",
        _read_ordinal,
        {"۲۱ اُم": "بیست و یکم", "۳۰م": "سی‌اُم", "۱۵مین": "پانزدهمین", "۳۰ امین": "سی‌اُمین"},
        "م",
    ),
    rule(
        "ezafe before a number",
        rf"(?<![^\W_])(?:(?<!\d )({alternatives(_BEFORE_NUMBERS)})|(ماده|تبصره|بند|آیه|اصل)) (?=\d|صفر )",
        lambda match: f"{with_ezafe(match[1] or match[2])} ",
        {
            "شماره ۵": "شمارهٔ پنج",
            "صفحه ۱۲": "صفحهٔ دوازده",
            "شماره ۰۹۱۲۳۴۵۶۷۸۹": "شمارهٔ صفر نهصد و دوازده، سیصد و چهل و پنج، شصت و هفت، هشتاد و نُه",
        },
        f"{DIGITS}ص",
    ),
    rule(
        "IP address or version",
        r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){2,3}(?![\d.]\d|\d)",
        lambda match: " نقطه ".join(map(group_in_words, match[0].split("."))),
        {"۱۹۲.۱۶۸.۱.۱": "صد و نود و دو نقطه صد و شصت و هشت نقطه یک نقطه یک"},
        ".",
    ),
    rule(
        "range of years",
        r"(?<![\d/.,])(1[34]\d\d|20\d\d)/(1[34]\d\d|20\d\d|\d\d)(?![\d/])",
        r"\1 تا \2",
        {"۱۴۰۲/۱۴۰۳": "هزار و چهارصد و دو تا هزار و چهارصد و سه"},
        "/",
    ),
    rule(
        "slash between numbers",
        r"(?:(?<![\d.,/:])(\d{1,6}) )?(?<![\d.,/:])(\d{1,6})/(\d{1,4})(?![\d/])",
        _read_ratio_sign,
        {
            "۱/۵ میلیون": "یک و نیم میلیون",
            "۳/۴ لیوان": "سه‌چهارم لیوان",
            "۲ ۱/۲": "دو و نیم",
            "۱۰/۲۰": "ده از بیست",
            "۰/۸ درصد": "صفر ممیز هشت درصد",
        },
        "/",
    ),
    rule(
        "code of letters and digits",
        r"(?<![^\W_])([A-Z]{1,3}\d{0,2})-(?=\d)",
        r"\1 ",
        {"پرواز W5-112": "پرواز W پنج صد و دوازده"},
        "-",
    ),
    rule(
        "chain of numbers",
        r"(?<![\w.,/-])\d{1,4}(?:-\d{1,4}){2,}(?![\w/-]|[.,]\d)",
        lambda match: "، ".join(map(group_in_words, match[0].split("-"))),
        {"بند ۳-۲-۱": "بندِ سه، دو، یک"},
        "-",
    ),
    rule(
        "pair of numbers",
        r"(?<![\d.,/-])(\d{1,6})( ?[-–—] ?)(\d{1,6})(?![\d./-]\d|\d)",
        _read_pair,
        {"بازی ۳-۲": "بازی سه بر دو", "۱۰ - ۵": "ده منهای پنج", "۱۰-۱۵ نفر": "ده تا پانزده نفر"},
        "-–—",
    ),
    rule("range", r"(?<=\d) ?[-–—] ?(?=\d)", " تا ", {"۱۰٫۵-۲۰٫۵": "ده ممیز پنج تا بیست ممیز پنج"}, "-–—"),
    rule(
        "minus after a number, as a right-to-left line shows it",
        r"(?<=[^\W\d_] )(\d+(?:\.\d+)?)[-−](?= ?(?:درجه|°| تا \d+[-+−]? درجه))",
        r"منفی \1",
        {"دما به ۱۹- درجه رسید": "دما به منفی نوزده درجه رسید"},
        "-−",
    ),
    rule(
        "plus after a number, as a right-to-left line shows it",
        r"(?<=[^\W\d_] )(\d+(?:\.\d+)?)\+(?= ?(?:درجه|°))",
        r"مثبت \1",
        {"بین ۵- تا ۸+ درجه": "بین منفی پنج تا مثبت هشت درجه"},
        "+",
    ),
    rule("minus", r"(?<![\w)-])[-−](?=\d)", "منفی ", {"-۵ درجه": "منفی پنج درجه"}, "-−"),
)

PLAIN_NUMBERS: tuple[Rule, ...] = (
    rule("hyphen before a number", r"(?<=[^\W\d_])-(?=\d)", " ", {"کووید-۱۹": "کووید نوزده"}, "-"),
    rule(
        "letters next to digits",
        r"(?<=\d)(?=[^\W\d_])|(?<=[^\W\d_])(?=\d)",
        " ",
        {"۲۰ساله": "بیست ساله", "۵G": "پنج G"},
        DIGITS,
    ),
    rule(
        "leading zero",
        r"(?<![\d.,/])0\d+(?![\d.,/]\d|\d)",
        lambda match: group_in_words(match[0]) if len(match[0]) < 4 else digits_in_words(match[0]),
        {"۰۰۷": "صفر صفر هفت"},
        "0",
    ),
    rule(
        "number",
        rf"(?<![\d.,])(?:{_NUMBER})|\d+",
        lambda match: written_in_words(match[0]),
        {"۱٬۲۳۴": "هزار و دویست و سی و چهار", "۳٫۱۴": "سه ممیز چهارده", "۹": "نُه"},
        DIGITS,
    ),
)
"""Rules that apply after every other one."""
