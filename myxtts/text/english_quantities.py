"""English money, measures, fractions, ranges and plain numbers in words."""

from __future__ import annotations

import re

from myxtts.text import english_numbers as say
from myxtts.text.english_numbers import (
    CURRENCIES,
    CURRENCY_CODES,
    DOLLARS,
    MAGNITUDES,
    PER_UNITS,
    UNITS,
    VULGAR_FRACTIONS,
)
from myxtts.text.rules import DIGITS, Rule, SpokenPart, alternatives, rule, spoken

_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\d,])|\d+(?:\.\d+)?"
_SIGN_CLASS = f"[{re.escape(''.join(CURRENCIES))}]"
_MAGNITUDE = rf"(?: ?({alternatives(MAGNITUDES)})(?![^\W_]))?"
_SCORE_CUES = re.compile(
    r"\b(?:won|wins?|beat|beats|lost|loses?|leads?|led|scor\w+|defeat\w*|draw|drew|tied|victory|final|match|game|sets?"
    r"|ahead)\b",
    re.I,
)
_OPENING_QUOTE = re.compile(r'(?<!\d)"')
_NEAR = 60
"""Characters around a match that are searched for a word that decides its meaning."""


def number_in_words(written: str) -> str:
    """`1,234.5` in words."""
    whole, point, fraction = written.replace(",", "").partition(".")
    return say.decimal(whole, fraction) if point else say.integer(whole)


def _around(match: re.Match[str]) -> str:
    return match.string[max(0, match.start() - _NEAR) : match.end() + _NEAR]


_BEFORE_PRICE = re.compile(r"(?i:\b(?:a|an|the|this|that|another|each|every|his|its|their|our|my|your|new)) $")
_PRICED = re.compile(
    r" (?!(?:a|an|the|in|to|for|of|and|or|at|on|from|by|per|with|as|if|is|are|was|were|has|had|have|that|which|who|he|she|they"
    r"|it|i|we|you|will|would|can|could|may|more|less|each|after|before|last|this|so|but|than|when|while)\b)[a-z]{3}"
)
"""A noun that an amount describes: a $5 bill."""


def _read_money(match: re.Match[str]) -> str:
    country, symbol, written, magnitude = match["country"], match["sign"], match["number"], match["magnitude"]
    one, many, cent, cents = CURRENCIES[symbol]
    kind = f"{DOLLARS[country]} " if country else ""
    if _BEFORE_PRICE.search(match.string[: match.start()][-12:]) and _PRICED.match(match.string, match.end()):
        many = one
    whole, point, fraction = written.replace(",", "").partition(".")
    number, sign = match.span("number"), match.span("sign")
    if magnitude:
        amount = [(number_in_words(written), number), " ", (MAGNITUDES[magnitude], match.span("magnitude"))]
        return spoken(*amount, " ", (f"{kind}{many}", sign))
    if not point or len(fraction) != 2 or not cent:
        name = f"{kind}{one if whole == '1' and not point else many}"
        return spoken((number_in_words(written), number), " ", (name, sign))
    parts: list[SpokenPart] = []
    if int(whole) or not int(fraction):
        parts += [(say.integer(whole), number), " ", (f"{kind}{one if int(whole) == 1 else many}", sign)]
    if int(fraction):
        parts += [" and "] if parts else []
        parts += [(say.cardinal(int(fraction)), number), " ", (cent if int(fraction) == 1 else cents, sign)]
    return spoken(*parts)


def _read_money_range(match: re.Match[str]) -> str:
    many = CURRENCIES[match[1]][1]
    first, last = (
        [(number_in_words(match[number]), match.span(number))]
        + ([" ", (MAGNITUDES[match[magnitude]], match.span(magnitude))] if match[magnitude] else [])
        for number, magnitude in ((2, 3), (4, 5))
    )
    return spoken(*first, " to ", *last, " ", (many, match.span(1)))


def _read_money_code(match: re.Match[str]) -> str:
    number, magnitude, code = (1, 2, 3) if match[3] else (5, 6, 4)
    one, many = CURRENCY_CODES[match[code]]
    amount: list[SpokenPart] = [(number_in_words(match[number]), match.span(number)), " "]
    if match[magnitude]:
        amount += [(MAGNITUDES[match[magnitude]], match.span(magnitude)), " "]
    return spoken(*amount, (one if match[number] == "1" and not match[magnitude] else many, match.span(code)))


def _read_unit(match: re.Match[str]) -> str:
    written, joint, unit, per = match[1], match[2], match[3], match[4]
    one, many = UNITS[unit]
    if joint == "-":
        return f"{number_in_words(written)}-{one}"
    words = (one if written == "1" else many) + (f" per {PER_UNITS[per]}" if per else "")
    return spoken((number_in_words(written), match.span(1)), " ", (words, (match.start(3), match.end())))


def _read_fraction(match: re.Match[str]) -> str:
    whole, numerator, denominator = match[1], int(match[2]), int(match[3])
    if not (numerator and 2 <= denominator <= 100 and numerator < denominator):
        return f"{whole + ' ' if whole else ''}{match[2]} over {match[3]}"
    words = say.fraction(numerator, denominator)
    if whole:
        words = f"{say.cardinal(int(whole))} and {'a ' + words.partition(' ')[2] if numerator == 1 else words}"
    return words


def _read_idiom(match: re.Match[str]) -> str:
    """24/7, 9/11, perfect vision, and parts of a hundred."""
    is_idiom = match[0] in ("24/7", "9/11", "20/20") or int(match[1]) + int(match[2]) == 100
    return f"{match[1]} {match[2]}" if is_idiom else match[0]


def _read_coordinate(match: re.Match[str]) -> str:
    names = {"N": "north", "S": "south", "E": "east", "W": "west"}
    parts = [f"{number_in_words(match[1])} degrees"]
    if match[2]:
        parts.append(f"{number_in_words(match[2])} minutes")
    if match[3]:
        parts.append(f"{number_in_words(match[3])} seconds")
    return " ".join([*parts, names.get(match[4] or "", "")]).strip()


def _read_inches(match: re.Match[str]) -> str:
    is_quoted = len(_OPENING_QUOTE.findall(match.string[max(0, match.start() - 200) : match.start()])) % 2 == 1
    if is_quoted and match[2] == '"':
        return match[0]
    return f"{match[1]} {'inch' if match[1] == '1' else 'inches'}"


def _read_subtraction(match: re.Match[str]) -> str:
    return f"{match[1]} to " if _SCORE_CUES.search(_around(match)) else f"{match[1]} minus "


def _read_cardinal(match: re.Match[str]) -> str:
    if match[1]:
        return number_in_words(match[1])
    if match[2]:
        return f"point {say.digits(match[2])}"
    return say.integer(match[0])


RULES: tuple[Rule, ...] = (
    rule(
        "sign of a fraction before a unit",
        rf"(\d?)([{''.join(VULGAR_FRACTIONS)}]) ?({alternatives(UNITS)})(?![^\W_]|[/'])",
        lambda match: f"{match[1]}{match[2]} {UNITS[match[3]][bool(match[1])]}",
        {"¾ tsp": "three quarters teaspoon", "2½ km": "two and one half kilometers"},
        "".join(VULGAR_FRACTIONS),
    ),
    rule(
        "fraction sign",
        rf"(?:(?<=\d) ?)?([{''.join(VULGAR_FRACTIONS)}])",
        lambda match: (
            f" {'and ' if match.start() and match.string[match.start() - 1].isdigit() else ''}{VULGAR_FRACTIONS[match[1]]} "
        ),
        {"2½ cups": "two and one half cups", "¾ of it": "three quarters of it"},
        "".join(VULGAR_FRACTIONS),
    ),
    rule(
        "thousands with spaces",
        r"(?<![\d.,:/+-])(?<!\d )([1-9]\d{0,2})((?: \d{3})+)(?! ?\d|[.,/-]\d)",
        lambda match: match[0].replace(" ", ""),
        {"1 000 000": "one million", "12 500 workers": "twelve thousand five hundred workers"},
        DIGITS,
    ),
    rule(
        "idiom of two numbers",
        r"(?<![\d/.,])(\d\d?)/(\d\d?)(?![\d/]|\.\d| of\b)",
        _read_idiom,
        {
            "24/7": "twenty-four seven",
            "a 50/50 chance": "a fifty fifty chance",
            "the 80/20 rule": "the eighty twenty rule",
        },
        "/",
    ),
    rule(
        "score out of ten",
        r"\b((?:scored?|scores|rated|rating|got|gave|mark|marks|grade|review)(?: of| "
        r"it| a| an| is| was| him| her| them)*:? )(\d{1,3}(?:\.\d)?)/(\d{1,3})(?![\d/])",
        r"\1\2 out of \3",
        {"He scored 9/10 on the quiz.": "He scored nine out of ten on the quiz."},
        "/",
        re.I,
    ),
    rule(
        "stars out of ten",
        r"(?<![\d/.,])(\d{1,2}(?:\.\d)?)/(5|10|100)(?= (?:stars|points|on the|rating|score)\b)",
        r"\1 out of \2",
        {"a 4.5/5 rating": "a four point five out of five rating"},
        "/",
    ),
    rule(
        "coordinate",
        r"(?<![\d.,])(\d{1,3}(?:\.\d+)?)° ?(?:(\d{1,2}(?:\.\d+)?)['′] ?)?(?:(\d{1,2}(?:\.\d+)?)(?:\"|″|'') ?)?([NSEW]\b)",
        _read_coordinate,
        {"41°43′ N": "forty-one degrees forty-three minutes north"},
        "°",
    ),
    rule(
        "feet and inches",
        r"(?<![\w.,])(\d{1,2})['′] ?(\d{1,2})(?:\"|″|''|(?![\w'′]))",
        lambda match: f"{say.integer(match[1])} foot {say.integer(match[2])}",
        {"6'2\" tall": "six foot two tall", "I am 5'6.": "I am five foot six."},
        "'′",
    ),
    rule(
        "inches",
        r"(?<![\d.,])(\d{1,3}(?:\.\d+)?)([\"″])(?=[ x×,.;)-]|$)",
        _read_inches,
        {'8.5"x11"': "eight point five inches by eleven inches"},
        '"″',
    ),
    rule(
        "feet",
        r"(?<![\w.,])(\d{1,3})['′](?= (?:tall|long|wide|high|deep)\b)",
        r"\1 feet",
        {"6' tall": "six feet tall"},
        "'′",
    ),
    rule(
        "inches with a dot",
        r"(?<=\d) in\.(?= [a-z]|,|$)",
        " inches",
        {"12 in. wide": "twelve inches wide"},
        DIGITS,
    ),
    rule(
        "dimensions",
        r"(?<=\d)((?: ?[a-z]{1,2}| inches)?) ?(?:x ?|× ?(?=\d+(?:\.\d+)? ?"
        r"(?:[cmk]?m|ft|feet|foot|in|inch|inches|meters|px|pixels)\b))(?=\d)",
        r"\1 by ",
        {"4x4": "four by four", "3 × 5 m": "three by five meters"},
        "x×",
    ),
    rule("multiple", r"(?<=\d)x(?![\w])", " times", {"1.5x": "one point five times"}, "x"),
    rule(
        "chain of numbers",
        r"(?<![\w.,/-])\d{1,4}(?:-\d{1,4}){2,}(?![\w/-]|[.,]\d)",
        lambda match: " ".join(say.integer(part) for part in match[0].split("-")),
        {"a 4-3-3 formation": "a four three three formation"},
        "-",
    ),
    rule(
        "subtraction",
        r"(\d) [-] (?=\d)",
        _read_subtraction,
        {"10 - 4": "ten minus four", "They won 3 - 1.": "They won three to one."},
        "-",
    ),
    rule("minus between numbers", r"(?<=[\d)]) ?− ?(?=[\d(])", " minus ", {"5−3": "five minus three"}, "−"),
    rule(
        "minus",
        rf"(?<![\w.,)%°'\"-])[-−](?=[\d.]|{_SIGN_CLASS})",
        "minus ",
        {"-5°C": "minus five degrees Celsius", "−10 kg": "minus ten kilograms", "-$5": "minus five dollars"},
        "-−",
    ),
    rule(
        "rial sign",
        rf"ریال ?({_NUMBER})",
        r"\1 rials",
        {"﷼5000": "five thousand rials"},
        "ر",
    ),
    rule("cents after the sign", r"(?<=[$£€])(?=\.\d\d(?!\d))", "0", {"$.99": "ninety-nine cents"}, "$£€"),
    rule(
        "range of money",
        rf"({_SIGN_CLASS})({_NUMBER})(?: ?({alternatives(MAGNITUDES)}))? ?[-–—] ?\1?({_NUMBER}){_MAGNITUDE}",
        _read_money_range,
        {"$5–10 million": "five to ten million dollars", "€7m–€9m": "seven million to nine million euros"},
        "-–—",
    ),
    rule(
        "money",
        rf"(?:\b(?P<country>{alternatives(DOLLARS)})(?=\$))?(?P<sign>{_SIGN_CLASS}) ?(?P<number>{_NUMBER})"
        rf"(?: ?(?P<magnitude>{alternatives(MAGNITUDES)})(?![^\W_]))?",
        _read_money,
        {
            "$3.50": "three dollars and fifty cents",
            "a $50 million project": "a fifty million dollar project",
            "C$750,000": "seven hundred fifty thousand Canadian dollars",
            "€1.2bn": "one point two billion euros",
        },
        "".join(CURRENCIES),
    ),
    rule(
        "sign after the amount",
        rf"(?<![\d.,])(?P<number>{_NUMBER})(?P<country>)(?P<magnitude>) ?(?P<sign>{_SIGN_CLASS})",
        _read_money,
        {"100$": "one hundred dollars"},
        "".join(CURRENCIES),
    ),
    rule(
        "cents",
        r"(?<![\d.,])(\d{1,3}) ?¢",
        lambda match: f"{say.integer(match[1])} cent{'s' if match[1] != '1' else ''}",
        {"99¢": "ninety-nine cents"},
        "¢",
    ),
    rule(
        "currency code",
        rf"(?<![\d.,])({_NUMBER}){_MAGNITUDE} ?({alternatives(CURRENCY_CODES)})(?![^\W_])"
        rf"|(?<![^\W_])({alternatives(CURRENCY_CODES)})\.? ?({_NUMBER}){_MAGNITUDE}",
        _read_money_code,
        {"20 USD": "twenty dollars", "Rs. 500": "five hundred rupees"},
        DIGITS,
    ),
    rule(
        "thousands as k",
        r"(?<=\d)k(?![\w])|(?<=\d)(bn|mn|tn)(?![\w])|(?<=\d\.\d)M(?![\w])",
        lambda match: {"k": " thousand", "bn": " billion", "mn": " million", "tn": " trillion", "M": " million"}[
            match[0]
        ],
        {"50k followers": "fifty thousand followers"},
        "knM",
    ),
    rule(
        "ordinal",
        r"(?<![\d.,])(\d{1,3}(?:,\d{3})+|\d{1,15})(?:st|nd|rd|th)\b",
        lambda match: say.ordinal(int(match[1].replace(",", ""))),
        {"the 21st": "the twenty-first"},
        DIGITS,
        re.I,
    ),
    rule("percent", r"(?<=\d) ?%", " percent", {"3.5 %": "three point five percent"}, "%"),
    rule(
        "number sign",
        r"(?:\bN[or]s?\. ?|(?<![\w&])# ?|№ ?)(?=\d)",
        "number ",
        {"#1 and No. 5": "number one and number five"},
        DIGITS,
    ),
    rule(
        "range",
        r"(?<=\d)(?: ?[–—] ?|-)(?=\d)",
        " to ",
        {"10-20 people": "ten to twenty people", "25-30 °C": "twenty-five to thirty degrees Celsius"},
        "-–—",
    ),
    rule(
        "plural number",
        r"(?<=[A-Z])-(\d{1,4})s\b",
        lambda match: f" {say.plural(say.integer(match[1]))}",
        {"two F-16s": "two F sixteens"},
        DIGITS,
    ),
    rule(
        "fraction of a unit",
        rf"(?<![\d.,/])(\d{{1,3}}/\d{{1,3}}) ?({alternatives(UNITS)})(?![^\W_]|[/'])",
        lambda match: f"{match[1]} {UNITS[match[2]][int.__ge__(*map(int, match[1].split('/')))]}",
        {"1/2 km": "one half kilometer", "120/80 mmHg": "one hundred twenty over eighty millimeters of mercury"},
        "/",
    ),
    rule(
        "unit",
        rf"(?<![\d.,/])({_NUMBER})([ -]?)({alternatives(UNITS)})(?:/({alternatives(PER_UNITS)}))?"
        r"(?![^\W_]|[/'])(?:\.(?= [a-z])|(?<=ft|lb|hr|in)\.(?= \d))?",
        _read_unit,
        {
            "1 km and 16GB": "one kilometer and sixteen gigabytes",
            "5 km/day": "five kilometers per day",
            "a 10-km run": "a ten-kilometer run",
        },
        DIGITS,
    ),
    rule(
        "inches after feet", r"(?<=feet )(\d{1,2}) in\b", r"\1 inches", {"5 ft 10 in": "five feet ten inches"}, DIGITS
    ),
    rule(
        "amount per unit",
        rf"(?<=[a-z])/({alternatives(PER_UNITS)})(?![^\W_])",
        lambda match: f" per {PER_UNITS[match[1]]}",
        {"$15/hour": "fifteen dollars per hour"},
        "/",
    ),
    rule(
        "fraction",
        r"(?:(?<![\d.,/])(\d{1,6}) )?(?<![\d.,/])(\d{1,3})/(\d{1,3})(?![\d/])",
        _read_fraction,
        {"3 1/2": "three and a half", "2/3": "two thirds"},
        "/",
    ),
)

PLAIN_NUMBERS: tuple[Rule, ...] = (
    rule("hyphen before a number", r"(?<=[A-Za-z])-(?=\d)", " ", {"COVID-19": "COVID nineteen"}, "-"),
    rule(
        "letters next to digits",
        r"(?<=\d)(?=[A-Za-z])|(?<=[A-Za-z])(?=\d)",
        " ",
        {"MP3": "MP three", "3D": "three D"},
        DIGITS,
    ),
    rule(
        "number",
        rf"(?<![\d.,])({_NUMBER})|(?<![\d.])(\.\d+)|\d+",
        _read_cardinal,
        {
            "99 of 1,234": "ninety-nine of one thousand two hundred thirty-four",
            ".5": "point five",
            "007": "zero zero seven",
        },
        DIGITS,
    ),
    rule("comma without space", r"(?<=[a-z]),(?=[a-z])", ", ", {"1,2,3": "one, two, three"}, ","),
)
"""Rules that apply after every other one."""
