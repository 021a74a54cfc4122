"""English web addresses, signs, telephone numbers, card numbers, codes, versions and model numbers in words."""

from __future__ import annotations

import re

from myxtts.text import english_numbers as say
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
    ".": "dot", "/": "slash", "@": "at", "-": "dash", "_": "underscore", "\\": "backslash", ":": "colon",
    "?": "question mark", "=": "equals", "&": "and", "%": "percent", "#": "hash", "~": "tilde", "+": "plus",
    "://": "colon slash slash",
}  # fmt: skip
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_OPERAND = r"(?:\d[\d.,]*|(?<![^\W_])[A-Za-z](?![^\W_]))"
_RELATIONS = {
    ">": "is greater than", "<": "is less than", "≥": "is greater than or equal to",
    ">=": "is greater than or equal to", "≤": "is less than or equal to", "<=": "is less than or equal to",
    "≠": "is not equal to", "!=": "is not equal to", "≈": "is approximately", "==": "equals",
}  # fmt: skip
_GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "θ": "theta", "λ": "lambda", "μ": "mu", "π": "pi",
    "ρ": "rho", "σ": "sigma", "φ": "phi", "χ": "chi", "ω": "omega", "Δ": "delta", "Σ": "sigma", "Ω": "omega",
}  # fmt: skip
"""Alone; a Greek word is no formula."""
_LIMITS = {">": "more than ", "<": "less than ", "≥": "at least ", "≤": "at most ", ">=": "at least ", "<=": "at most "}


def _read_address(match: re.Match[str]) -> str:
    return read_address(match[0], _ADDRESS_SIGNS, is_scheme_read=False)


def _read_power(match: re.Match[str]) -> str:
    exponent = (match[1] or match[2]).translate(FROM_SUPERSCRIPT).replace("−", "-").strip("()")
    if exponent in ("2", "3"):
        return " squared" if exponent == "2" else " cubed"
    if exponent.startswith("-"):
        return f" to the minus {say.integer(exponent[1:])}"
    return f" to the {say.ordinal(int(exponent))}" if exponent.isdigit() else f" to the {exponent}"


WEB_RULES: tuple[Rule, ...] = (
    *address_rules(
        _read_address,
        {"john.doe@example.com": "john dot doe at example dot com"},
        {
            "www.bbc.co.uk": "W.W.W dot bbc dot co dot U.K",
            "https://news.site.org/world": "news dot site dot org slash world",
        },
        {"/path/to": "slash path slash to"},
        {"open setup.py": "open setup dot py"},
    ),
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
    letters_with_ampersand(),
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
        rf"(?<=[\w)])(?:\^(?=[\w(−-])(\(?[-−]?\w{{1,4}}\)?)|([⁻]?[{SUPERSCRIPTS}]{{1,4}}))",
        _read_power,
        {"10^6": "ten to the sixth", "x²": "x squared", "2³": "two cubed"},
        f"^{SUPERSCRIPTS}",
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
    rule(
        "Greek letter",
        rf"(?<![^\W\d_])([{''.join(_GREEK)}])(?![^\W\d_])",
        lambda match: f" {_GREEK[match[1]]} ",
        {"2π": "two pi", "α = 0.05": "alpha equals zero point zero five"},
        "".join(_GREEK),
    ),
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


_STATES = (
    "A[KLRZ]|C[AOT]|D[CE]|FL|GA|HI|I[ADLN]|K[SY]|LA|M[ADEINOST]|N[CDEHJMVY]|O[HKR]|PA|RI|S[CD]|T[NX]|UT|V[AT]|W[AIVY]"
)


def _digit_groups(match: re.Match[str]) -> str:
    parts: list[SpokenPart] = []
    for group in re.compile(r"\d+").finditer(match.string, *match.span()):
        parts += [", "] if parts else []
        parts.append((say.digits(group[0]), group.span()))
    return spoken(*(["plus "] if match[0].startswith("+") else []), *parts)


def _read_iban(match: re.Match[str]) -> str:
    """Letters stay, digits are read one by one."""
    return re.sub(r"\d+", lambda part: f" {say.digits(part[0])} ", match[0])


def _read_aircraft(match: re.Match[str]) -> str:
    words = f"{match[1] or ''}{say.cardinal(int(match[2][0]))} {say.cardinal(int(match[2][1:]))}"
    words += f" {say.integer(match[3])}" if match[3] else ""
    return say.plural(words) if match[4] else words


CODE_RULES: tuple[Rule, ...] = (
    rule(
        "very long number",
        rf"\d{{{LONGEST_NUMBER + 1},}}",
        lambda match: f" {say.digits(match[0])} ",
        {"1234567890123456": "one two three four five six seven eight nine zero one two three four five six"},
        DIGITS,
    ),
    rule(
        "card number",
        r"(?<![\w.,/-])\d{4}(?:[ -]\d{4}){3}(?![\w/-]|[.,]\d)",
        _digit_groups,
        {"4111 1111 2222 3333": "four one one one, one one one one, two two two two, three three three three"},
        DIGITS,
    ),
    rule(
        "telephone number",
        r"(?<![\w.,/-])(?:\+?\d{1,3}[ .-])?(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4}(?![\w/-]|[.,]\d)"
        r"|(?<![\w.,/-])\d{3}-\d{4}(?![\w/-]|[.,]\d)|(?<![\w.,/-])\+\d{7,15}(?!\d)"
        r"|(?<![\w.,/-])(?:0\d{2,4}|\(0\d{2,4}\)|\+\d{1,3}(?: \d{1,4})?) \d{3,4} \d{3,4}(?![\w/-]|[.,]\d)",
        _digit_groups,
        {
            "(555) 123-4567": "five five five, one two three, four five six seven",
            "020 7946 0018": "zero two zero, seven nine four six, zero zero one eight",
            "+1 555 123 4567": "plus one, five five five, one two three, four five six seven",
        },
        DIGITS,
    ),
    rule(
        "emergency number",
        r"\b((?:call(?:ed|ing|s)?|dial(?:ed|led|ing)?|phone|text|ring) )(\d{3})((?:,? or \d{3})?)"
        r"(?![\d.,:/-]\d|\d| ?%)(?! [a-z]+s\b| people)",
        lambda match: match[1] + re.sub(r"\d{3}", lambda number: say.digits(number[0]), match[2] + match[3]),
        {"Call 911.": "Call nine one one.", "Dial 112 or 999.": "Dial one one two or nine nine nine."},
        DIGITS,
        re.I,
    ),
    rule(
        "911",
        r"(?<![\w.,:/$£€#+-])911(?![\w%°]|[.,:/-]\d| (?:[a-z]+s|people|percent)\b)",
        lambda match: "nine eleven" if match.string[: match.start()].endswith("Porsche ") else say.digits(match[0]),
        {"a 911 call": "a nine one one call", "a Porsche 911": "a Porsche nine eleven"},
        DIGITS,
    ),
    rule(
        "postal code with four more digits",
        r"(?<![\w.,/-])(\d{5})-(\d{4})(?![\w/-]|[.,]\d)",
        _digit_groups,
        {"10001-2345": "one zero zero zero one, two three four five"},
        DIGITS,
    ),
    rule(
        "postal code after a state",
        rf"\b((?:{_STATES}) )(\d{{5}})(?![\w/-]|[.,]\d)",
        lambda match: match[1] + say.digits(match[2]),
        {"Beverly Hills, CA 90210": "Beverly Hills, CA nine zero two one zero"},
        DIGITS,
    ),
    rule(
        "bank account number",
        r"\b([A-Z]{2})(\d\d)((?: [A-Z0-9]{4}){3,7}(?: [A-Z0-9]{1,3})?)\b",
        _read_iban,
        {"GB29 NWBK 6016 1331": "GB two nine NWBK six zero one six one three three one"},
        DIGITS,
    ),
    rule(
        "code",
        r"\b((?:PIN|code|ZIP|OTP|passcode|password)(?: is| was| number)?:? )(\d{3,12})(?![\d%]|[.,:/-]\d)",
        lambda match: match[1] + say.digits(match[2]),
        {"The ZIP code is 90210.": "The ZIP code is nine zero two one zero."},
        DIGITS,
        re.I,
    ),
    rule(
        "book number",
        r"\b(ISBN(?:-1[03])?:? )(\d[\d-]{8,16}\d)(?!\d)",
        lambda match: match[1] + ", ".join(map(say.digits, match[2].split("-"))),
        {"ISBN 0-306-40615-2": "ISBN zero, three zero six, four zero six one five, two"},
        "N",
    ),
    rule(
        "aircraft",
        r"(\bBoeing(?:'s)? )(7\d7)(?:-(\d{1,3}))?(s)?(?![\w-]|[.,]\d)",
        _read_aircraft,
        {
            "A Boeing 747 landed.": "A Boeing seven forty-seven landed.",
            "Boeing's 747s": "Boeing's seven forty-sevens",
        },
        "7",
    ),
    rule(
        "aircraft with its series",
        r"(?<![\w.,$-])()(7\d7)(?:-(\d{3})(?![\d/-])|(?=s\b))(s)?(?!\w)",
        _read_aircraft,
        {"a 737-800": "a seven thirty-seven eight hundred", "two 747s": "two seven forty-sevens"},
        "7",
    ),
    rule(
        "wireless standard",
        r"(?<![\d.,])802\.(\d{1,2})([a-z]{0,2})\b",
        lambda match: f"eight oh two dot {say.integer(match[1])} {' '.join(match[2].upper())}",
        {"802.11ac": "eight oh two dot eleven A C"},
        ".",
    ),
    rule(
        "IP address",
        r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.]\d|\d)",
        lambda match: " dot ".join(map(say.integer, match[0].split("."))),
        {"192.168.1.1": "one hundred ninety-two dot one hundred sixty-eight dot one dot one"},
        ".",
    ),
    rule(
        "version",
        r"(?:(?<![\w.])(v) ?|(?<![\w.]))(\d{1,5}(?:\.\d{1,5}){2,})(?!\d)",
        lambda match: f"{'version ' if match[1] else ''}{' point '.join(map(say.integer, match[2].split('.')))}",
        {"version 1.2.3": "version one point two point three", "v2.0.1": "version two point zero point one"},
        ".",
    ),
)
