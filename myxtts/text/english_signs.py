"""English web addresses, hashtags, mathematical and other signs in words."""

from __future__ import annotations

import re

from myxtts.text import english_numbers as say
from myxtts.text import web
from myxtts.text.rules import Rule, rule

_ADDRESS_SIGNS = {
    ".": "dot", "/": "slash", "@": "at", "-": "dash", "_": "underscore", "\\": "backslash", ":": "colon",
    "?": "question mark", "=": "equals", "&": "and", "%": "percent", "#": "hash", "~": "tilde", "+": "plus",
    "://": "colon slash slash",
}  # fmt: skip
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_FROM_SUPERSCRIPT = str.maketrans(_SUPERSCRIPTS + "⁻", "0123456789-")
_OPERAND = r"(?:\d[\d.,]*|(?<![^\W_])[A-Za-z](?![^\W_]))"
_RELATIONS = {
    ">": "is greater than", "<": "is less than", "≥": "is greater than or equal to",
    ">=": "is greater than or equal to", "≤": "is less than or equal to", "<=": "is less than or equal to",
    "≠": "is not equal to", "!=": "is not equal to", "≈": "is approximately", "==": "equals",
}  # fmt: skip
_LIMITS = {">": "more than ", "<": "less than ", "≥": "at least ", "≤": "at most ", ">=": "at least ", "<=": "at most "}


def _read_address(match: re.Match[str]) -> str:
    return web.read_address(match[0], _ADDRESS_SIGNS, is_scheme_read=False)


def _read_power(match: re.Match[str]) -> str:
    exponent = (match[1] or match[2]).translate(_FROM_SUPERSCRIPT).replace("−", "-").strip("()")
    if exponent in ("2", "3"):
        return " squared" if exponent == "2" else " cubed"
    if exponent.startswith("-"):
        return f" to the minus {say.integer(exponent[1:])}"
    return f" to the {say.ordinal(int(exponent))}" if exponent.isdigit() else f" to the {exponent}"


WEB_RULES: tuple[Rule, ...] = (
    rule("e-mail address", web.EMAIL, _read_address, {"john.doe@example.com": "john dot doe at example dot com"}, "@"),
    rule(
        "web address",
        web.URL,
        _read_address,
        {
            "www.bbc.co.uk": "www dot bbc dot co dot uk",
            "https://news.site.org/world": "news dot site dot org slash world",
        },
        ".",
    ),
    rule("file path", f"{web.UNIX_PATH}|{web.WINDOWS_PATH}", _read_address, {"/path/to": "slash path slash to"}, "/\\"),
    rule("file name", web.FILE_NAME, _read_address, {"open setup.py": "open setup dot py"}, "."),
    rule("account", r"(?<![\w.])@(?=[A-Za-z_])", "at ", {"@nasa": "at nasa"}, "@"),
    rule(
        "hashtag",
        r"(?<![\w&])#([A-Za-z_]\w*)",
        lambda match: f"hashtag {_CAMEL.sub(' ', match[1]).replace('_', ' ')}",
        {"#travel": "hashtag travel", "#ClimateAction": "hashtag Climate Action"},
        "#",
    ),
    rule("sharp", r"(?<![\w])([A-G])[#♯](?!\w)", r"\1 sharp", {"C#": "C sharp"}, "#♯"),
    rule("plus plus", r"(?<![\w])([A-Z])\+\+(?!\w)", r"\1 plus plus", {"C++": "C plus plus"}, "+"),
    rule(
        "letters joined by an ampersand",
        r"(?<![\w&])([A-Z]{1,3})&([A-Z]{1,3})(?![\w&])",
        lambda match: f"{' '.join(match[1])} and {' '.join(match[2])}",
        {"AT&T": "A T and T", "R&D": "R and D"},
        "&",
    ),
)

COMPARISON_RULES: tuple[Rule, ...] = (
    rule(
        "relation",
        r"(?<=[\w)%∞]) (>=?|<=?|[!=]=|[≥≤≠≈]) (?=[\w(√∞.−-])|(?<=\d)(>=?|<=?|[≥≤≠≈])(?=\d)",
        lambda match: f" {_RELATIONS[match[1] or match[2]]} ",
        {"5 > 3": "five is greater than three", "x ≤ 10": "x is less than or equal to ten"},
        "<>≥≤≠≈=",
    ),
    rule(
        "limit",
        r"(?<![\w)%<>-])(>=?|<=?|[≥≤]) ?(?=\d)(?!3(?:[^\w%]|$))",
        lambda match: _LIMITS[match[1]],
        {">100 people": "more than one hundred people"},
        "<>≥≤",
    ),
    rule("approximately", r"(?<![\w~])[~≈] ?(?=[\d$£€])", "about ", {"~20": "about twenty"}, "~≈"),
)

MATH_RULES: tuple[Rule, ...] = (
    rule(
        "scientific notation",
        r"(?<=\d)[eE]([+-]?\d{1,3})(?![\w.])",
        lambda match: f" times 10^{match[1].lstrip('+')}",
        {"6.02e23": "six point zero two times ten to the twenty-third"},
        "eE",
    ),
    rule(
        "power",
        rf"(?<=[\w)])(?:\^(?=[\w(−-])(\(?[-−]?\w{{1,4}}\)?)|([⁻]?[{_SUPERSCRIPTS}]{{1,4}}))",
        _read_power,
        {"10^6": "ten to the sixth", "x²": "x squared", "2³": "two cubed"},
        f"^{_SUPERSCRIPTS}",
    ),
    rule("root", r"√ ?(?=[\w(])", "the square root of ", {"√2": "the square root of two"}, "√"),
    rule("plus after a number", r"(?<=\d)\+(?![\w+])", " plus", {"50+": "fifty plus"}, "+"),
    rule(
        "division",
        r"(?<=[\w)]) ?÷ ?(?=[\w(])|(?<=\d) / (?=\d)",
        " divided by ",
        {"12 ÷ 4": "twelve divided by four", "8 / 2": "eight divided by two"},
        "÷/",
    ),
    rule(
        "multiplication",
        r"(?<=[\d)]) ?[×*] ?(?=[\d(])|(?<=\w) [×*] (?=\w)|×(?=\d)",
        " times ",
        {"7 × 8": "seven times eight"},
        "×*",
    ),
    rule(
        "subtraction of variables",
        rf"({_OPERAND}) [-−] (?={_OPERAND}[^=.!?]{{0,20}}=)",
        r"\1 minus ",
        {"y - x = 3": "y minus x equals three"},
        "-−",
    ),
    rule(
        "plus", r"(?<=[\w)]) ?\+ ?(?=[\w(√])|(?<![\w+])\+(?=\d)", " plus ", {"x=3+4": "x equals three plus four"}, "+"
    ),
    rule("equals", r" ?=+ ?", " equals ", {"a = b": "a equals b"}, "="),
    rule("plus or minus", r" ?± ?", " plus or minus ", {"±3": "plus or minus three"}, "±"),
    rule("infinity", "∞", " infinity ", {"∞": "infinity"}, "∞"),
    rule("pi", r"(?<![^\W\d_])π(?![^\W\d_])", " pi ", {"2π": "two pi"}, "π"),
)

SIGN_RULES: tuple[Rule, ...] = (
    rule("section sign", "§+ ?", "section ", {"§ 5": "section five"}, "§"),
    rule("copyright", "© ?", "copyright ", {"© 2024": "copyright twenty twenty-four"}, "©"),
    rule("ampersand", " ?& ?", " and ", {"A & B": "A and B"}, "&"),
    rule("at sign", "@", " at ", {"2 @ 5": "two at five"}, "@"),
    rule("degree", "°", " degrees ", {"a few ° more": "a few degrees more"}, "°"),
    rule("slash between words", r"(?<=[^\W\d_])/(?=[^\W\d_])", " ", {"and/or": "and or"}, "/"),
    rule("silent signs", r"[_*~^<>|\\]+", " ", {"*really*": "really"}, "_*~^<>|\\"),
)
