"""Written text as words that can be read aloud, without digits, signs and invisible characters.

English and Persian have rules of their own, listed here in their order; other languages get their numbers from num2words if it
supports them. What no rule can read stays in the text, so that the tokenizer counts it. No text raises an error.

In Persian the marks ، ؛ ؟ stay, because they become pauses, and so does a zero-width non-joiner inside a word. Words that the
rules write, and words before a number that names something, have their ezafe marked.
"""

# ruff: noqa: SIM905 - word lists read best as words
from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable
from decimal import Decimal

from myxtts.text import (
    english_abbreviations,
    english_dates,
    english_quantities,
    english_signs,
    persian_dates,
    persian_quantities,
    persian_signs,
    persian_words,
)
from myxtts.text.cleanup import ZWNJ, base_language, clean_text
from myxtts.text.persian_letters import unify_letters
from myxtts.text.rules import LONGEST_NUMBER, Rule, apply_rules, substitute
from myxtts.text.tracing import Trace

NORMALIZER_VERSION = 7
"""Increase it whenever the result for any text changes; caches made with another version are stale."""

ENGLISH_RULES: tuple[Rule, ...] = (
    *english_signs.WEB_RULES,
    *english_signs.COMPARISON_RULES,
    *english_abbreviations.NUMBERED_RULES,
    *english_dates.RULES,
    *english_signs.CODE_RULES,
    *english_quantities.RULES,
    *english_dates.YEAR_RULES,
    *english_signs.MATH_RULES,
    *english_quantities.PLAIN_NUMBERS,
    *english_abbreviations.ROMAN_RULES,
    *english_abbreviations.RULES,
    *english_signs.SIGN_RULES,
)
PERSIAN_RULES: tuple[Rule, ...] = (
    *persian_signs.WEB_RULES,
    *persian_words.JOINT_RULES,
    *persian_words.RULES,
    *persian_dates.RULES,
    *persian_signs.EARLY_RULES,
    *persian_signs.CODE_RULES,
    *persian_quantities.RULES,
    *persian_signs.MATH_RULES,
    *persian_quantities.PLAIN_NUMBERS,
    *persian_signs.SIGN_RULES,
)
"""From the most specific to the plainest; digits are words after `PLAIN_NUMBERS`."""

_SPACES = re.compile(" {2,}")
_SPACE_BEFORE_MARK = {
    "en": re.compile(r" +(?=[,.;:!?](?: |$))"),
    "fa": re.compile(r" +(?=[،؛؟.,;:!)»](?: |$|[)»]))"),
}
_TA_MARBUTA_AS_T = re.compile(r"وة(?![^\W\d_])")
"""As in زكوة and صلوة, which are زکات and صلات today."""
_PERSIAN_SIGNS = str.maketrans(
    dict(zip("۰۱۲۳۴۵۶۷۸۹٠١٢٣٤٥٦٧٨٩", "0123456789" * 2, strict=True))
    | {"٫": ".", "٬": ",", "٪": "%", "−": "-", "–": "-"}
)
_ZWNJ_RUN = re.compile(f"{ZWNJ}{{2,}}")

_NUMBER = re.compile(r"(?<![\d.,])\d+(?:[.,]\d+)*")
_POINT_LANGUAGES = frozenset("en zh cmn yue ja ko th he hi bn te kn ms am".split())
"""Where 3.5 is a decimal number and 1,000 a thousand; elsewhere it is the other way round."""
_PERCENT = {
    "es": "por ciento", "fr": "pour cent", "de": "Prozent", "it": "per cento", "pt": "por cento", "nl": "procent",
    "ru": "процентов", "uk": "відсотків", "pl": "procent", "sv": "procent", "da": "procent", "nb": "prosent", "no": "prosent",
    "cs": "procent", "fi": "prosenttia", "ro": "la sută", "hu": "százalék", "ca": "per cent", "id": "persen",
    "ar": "بالمئة", "eo": "procentoj",
}  # fmt: skip
_PERCENT_SIGN = re.compile(r"(?<=\d)\s?[%٪]")
_CONVERTER_OF = {"nb": "no", "nn": "no", "kk": "kz", "iw": "he"}
_UNUSABLE_CONVERTERS = frozenset({"am"})
"""num2words 0.5.14 never returns for 1234567 in Amharic, and fails for 1234; espeak-ng reads Amharic digits itself."""


def normalize_text(
    text: str, language: str, report: Callable[[Rule, str], None] | None = None, trace: Trace | None = None
) -> str:
    """The words of a text in one language (`en`, `fa`, `fr-be`), in Unicode NFC, with single spaces.

    Args:
        report: receives each rule of English or Persian that changed the text, and the changed text.
        trace: of this text; it follows every step.
    """
    cleaned = clean_text(text, language)
    if trace is not None:
        trace.clean(cleaned, lambda word: clean_text(word, language))
    normalized = unicodedata.normalize("NFC", _in_words(cleaned, language, report, trace))
    if trace is not None:
        trace.rewrite(normalized)
    return normalized


def _in_words(
    cleaned: str, language: str, report: Callable[[Rule, str], None] | None, trace: Trace | None = None
) -> str:
    base = base_language(language)
    if base in ("en", "eng"):
        return normalize_english(cleaned, report, trace)
    if base in ("fa", "fas", "per"):
        return normalize_persian(cleaned, report, trace)
    if base in _PERCENT:
        cleaned, _ = substitute(_PERCENT_SIGN, f" {_PERCENT[base]}", cleaned, trace)
    return _read_numbers(cleaned, language, trace)


def normalize_english(text: str, report: Callable[[Rule, str], None] | None = None, trace: Trace | None = None) -> str:
    """The words of a cleaned English text. `report` receives each rule that changed it."""
    if not text.isascii():
        text = "".join(str(int(c)) if not c.isascii() and c.isdecimal() else c for c in text)
        if trace is not None:
            trace.rewrite(text)
    return _tidied(apply_rules(text, ENGLISH_RULES, report, trace), "en", trace)


def normalize_persian(text: str, report: Callable[[Rule, str], None] | None = None, trace: Trace | None = None) -> str:
    """The words of a cleaned Persian text. `report` receives each rule that changed it."""
    text = unify_letters(_TA_MARBUTA_AS_T.sub("ات", text)).replace("للّه", "لله").translate(_PERSIAN_SIGNS)
    text = _ZWNJ_RUN.sub(ZWNJ, text).strip(ZWNJ)
    if trace is not None:
        trace.rewrite(text)
    return _tidied(apply_rules(text, PERSIAN_RULES, report, trace), "fa", trace)


def _tidied(text: str, language: str, trace: Trace | None = None) -> str:
    text, _ = substitute(_SPACES, " ", text, trace)
    text, _ = substitute(_SPACE_BEFORE_MARK[language], "", text, trace)
    if trace is not None:
        trace.rewrite(text.strip())
    return text.strip()


@functools.cache
def _converter_of(language: str) -> str | None:
    from num2words import CONVERTER_CLASSES  # not at the top: English and Persian never need it

    code = language.strip().replace("-", "_")
    base = base_language(language)
    region = f"{base}_{code.partition('_')[2].upper()}"
    usable = CONVERTER_CLASSES.keys() - _UNUSABLE_CONVERTERS
    return next((name for name in (region, base, _CONVERTER_OF.get(base)) if name in usable), None)


def _read_numbers(text: str, language: str, trace: Trace | None = None) -> str:
    converter = _converter_of(language)
    if converter is None:
        return text
    is_point = base_language(language) in _POINT_LANGUAGES

    def read(match: re.Match[str]) -> str:
        before = " " if match.start() and text[match.start() - 1].isalpha() else ""
        after = " " if match.end() < len(text) and text[match.end()].isalpha() else ""
        return f"{before}{_words(match[0], converter, is_point)}{after}"

    return substitute(_NUMBER, read, text, trace)[0]


def _words(written: str, converter: str, is_point: bool) -> str:
    thousands, decimal = (",", ".") if is_point else (".", ",")
    digits = "".join(str(int(c)) if c.isdigit() else c for c in written if c.isdecimal() or c in ".,")
    if re.fullmatch(rf"\d{{1,3}}(?:{re.escape(thousands)}\d{{3}})+(?:{re.escape(decimal)}\d+)?", digits):
        digits = digits.replace(thousands, "")
    digits = digits.replace(decimal, ".") if digits.count(decimal) == 1 and thousands not in digits else digits
    if re.fullmatch(r"\d+(?:\.\d+)?", digits) and len(digits) <= LONGEST_NUMBER and not re.match(r"0\d", digits):
        spoken = _cached_words(digits, converter)
        if spoken is not None:
            return spoken
    spoken_digits = [_cached_words(c, converter) or c if c.isdigit() else c for c in digits]
    return " ".join(spoken_digits)


@functools.lru_cache(maxsize=65_536)
def _cached_words(number: str, converter: str) -> str | None:
    """num2words' reading, or None where it has none for this number."""
    from num2words import num2words

    try:
        value = Decimal(number) if "." in number else int(number)
        if converter == "ja":  # in kana, because espeak-ng cannot read kanji
            return num2words(value, lang="ja", reading=True)
        return " ".join(num2words(value, lang=converter).split())
    except (NotImplementedError, OverflowError, TypeError, ValueError, KeyError, IndexError, AttributeError):
        return None  # its converters fail in many ways on what they lack; the digits then stay and are reported
