"""Persian web addresses, hashtags, mathematical and other signs in words."""

from __future__ import annotations

import re

from myxtts.text import web
from myxtts.text.persian_numbers import ZWNJ
from myxtts.text.rules import Rule, rule

_ADDRESS_SIGNS = {
    ".": "دات", "/": "اسلش", "@": f"اَت{ZWNJ}ساین", "-": f"خط{ZWNJ}تیره", "_": "آندرلاین", "\\": f"بک{ZWNJ}اسلش",
    ":": "دونقطه", "?": "علامتِ سؤال", "=": "مساوی", "&": "اَند", "%": "درصد", "#": "هشتگ", "~": "مَد", "+": "پلاس",
    "://": "دونقطه اسلش اسلش",
}  # fmt: skip
_SCHEMES = {
    "https": f"اچ{ZWNJ}تی{ZWNJ}تی{ZWNJ}پی{ZWNJ}اس",
    "http": f"اچ{ZWNJ}تی{ZWNJ}تی{ZWNJ}پی",
    "ftp": f"اف{ZWNJ}تی{ZWNJ}پی",
}
_SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"
_FROM_SUPERSCRIPT = str.maketrans(_SUPERSCRIPTS, "0123456789-")
_RELATIONS = {
    ">": f"بزرگ{ZWNJ}تر از", "<": f"کوچک{ZWNJ}تر از", "≥": f"بزرگ{ZWNJ}تر یا مساوی", "≤": f"کوچک{ZWNJ}تر یا مساوی",
    "≠": "نامساوی با", "≈": "تقریباً برابر با",
}  # fmt: skip
_LIMITS = {">": "بیش از", "<": "کمتر از", "≥": "حداقل", "≤": "حداکثر"}


def _read_address(match: re.Match[str]) -> str:
    spoken = web.read_address(match[0], _ADDRESS_SIGNS, is_scheme_read=True)
    scheme, separator, rest = spoken.strip().partition(" ")
    return f" {_SCHEMES[scheme]} {rest} " if scheme in _SCHEMES and separator else spoken


WEB_RULES: tuple[Rule, ...] = (
    rule("e-mail address", web.EMAIL, _read_address, {"info@example.com": "info اَت‌ساین example دات com"}, "@"),
    rule("web address", web.URL, _read_address, {"www.example.ir": "www دات example دات ir"}, "."),
    rule(
        "file path", f"{web.UNIX_PATH}|{web.WINDOWS_PATH}", _read_address, {"C:\\Temp": "C دونقطه بک‌اسلش Temp"}, "/\\"
    ),
    rule("file name", web.FILE_NAME, _read_address, {"report.pdf": "report دات pdf"}, "."),
    rule(
        "hashtag",
        r"(?<![\w&])#([^\W\d]\w*)",
        lambda match: f"هشتگ {match[1].replace('_', ' ')}",
        {"#هوای_آلوده": "هشتگ هوای آلوده"},
        "#",
    ),
    rule("sharp", r"(?<!\w)([A-G])#(?!\w)", r"\1 شارپ", {"C#": "C شارپ"}, "#"),
    rule("plus plus", r"(?<!\w)([A-Z])\+\+(?!\w)", r"\1 پلاس پلاس", {"C++": "C پلاس پلاس"}, "+"),
    rule(
        "mention",
        r"(?<![\w.@])@(\w+)",
        lambda match: f" اَت{ZWNJ}ساین {match[1].replace('_', ' آندرلاین ')}",
        {"@iran_news": "اَت‌ساین iran آندرلاین news"},
        "@",
    ),
    rule("at sign", r" ?@ ?", f" اَت{ZWNJ}ساین ", {"علی @ خانه": "علی اَت‌ساین خانه"}, "@"),
    rule(
        "letters joined by an ampersand",
        r"(?<![\w&])([A-Z]{1,3})&([A-Z]{1,3})(?![\w&])",
        lambda match: f"{' '.join(match[1])} and {' '.join(match[2])}",
        {"AT&T": "A T and T"},
        "&",
    ),
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
        rf"(?<=[\d)A-Za-z])(?:\^ ?([-−]?\w{{1,4}})|([{_SUPERSCRIPTS}]{{1,4}}))",
        lambda match: f" به توان {(match[1] or match[2].translate(_FROM_SUPERSCRIPT)).replace('-', 'منفی ')}",
        {"۱۰^۶": "ده به توان شش", "۲³": "دو به توان سه"},
        f"^{_SUPERSCRIPTS}",
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
    rule("pi", r"(?<![^\W\d_])π(?![^\W\d_])", " پی ", {"π": "پی"}, "π"),
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
"""Before the rules for quantities."""

SIGN_RULES: tuple[Rule, ...] = (
    rule("slash between words", r"(?<=[^\W\d_])/(?=[^\W\d_])", " ", {"و/یا": "و یا"}, "/"),
    rule("silent signs", r"[_*^|\\]+", " ", {"*مهم*": "مهم"}, "_*^|\\"),
)
