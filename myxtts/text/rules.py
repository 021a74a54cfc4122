"""A normalizer as a list of small rules, and the rules that English and Persian share.

A rule is a pattern, its replacement and examples of what it is for. To add one, write it where it belongs in the list of its
language, with at least one example. A test normalizes every example and checks that the rule took part. Patterns must read each
character a bounded number of times.

Shared are addresses, Roman numerals, superscripts and initials with an ampersand.
"""

# ruff: noqa: SIM905 - word lists read best as words
from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from myxtts.text.tracing import Trace

Replacement = str | Callable[[re.Match[str]], str]
DIGITS = "0123456789"
LONGEST_NUMBER = 15
"""Digits; longer strings are read digit by digit, in every language."""


@dataclass(frozen=True)
class Rule:
    """One step of a normalizer.

    Attributes:
        name: what the rule reads, for `myxtts text --rules`.
        source: the pattern of where it applies.
        replacement: a template for `re.sub`, or a function of the match.
        examples: written text → what the whole normalizer makes of it.
        needs: characters of which the text must contain one; otherwise the rule is skipped, which saves time.
    """

    name: str
    source: str
    replacement: Replacement
    examples: Mapping[str, str]
    needs: frozenset[str]
    flags: int

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        """Compiled at first use: the patterns of both languages were half of the time to import `normalize`."""
        return re.compile(self.source, self.flags)


def rule(
    name: str, pattern: str, replacement: Replacement, examples: Mapping[str, str], needs: str = "", flags: int = 0
) -> Rule:
    """A rule; `needs` as one string."""
    return Rule(name, pattern, replacement, examples, frozenset(needs), flags)


class SpokenReplacement(str):
    """A replacement that says which characters of the text each of its parts comes from."""

    parts: tuple[tuple[str, tuple[int, int] | None], ...]


SpokenPart = str | tuple[str, tuple[int, int]]


def spoken(*parts: SpokenPart) -> SpokenReplacement:
    """The parts of a replacement, joined.

    Args:
        parts: a text and the span that it comes from (`match.span(group)`), or a text that stands for nothing written.
    """
    pairs = tuple((part, None) if isinstance(part, str) else part for part in parts)
    joined = SpokenReplacement("".join(text for text, _ in pairs))
    joined.parts = pairs
    return joined


def apply_rules(
    text: str,
    rules: Sequence[Rule],
    report: Callable[[Rule, str], None] | None = None,
    trace: Trace | None = None,
) -> str:
    """The text after every rule in order.

    Args:
        report: receives each rule that changed the text, and the changed text.
        trace: follows the text.
    """
    characters = set(text)
    for each in rules:
        if each.needs and each.needs.isdisjoint(characters):
            continue
        changed, count = substitute(each.pattern, each.replacement, text, trace)
        if count and changed != text:
            text, characters = changed, set(changed)
            if report is not None:
                report(each, text)
    return text


def substitute(
    pattern: re.Pattern[str], replacement: Replacement, text: str, trace: Trace | None = None
) -> tuple[str, int]:
    """`pattern.subn`, followed by a trace if there is one."""
    return pattern.subn(replacement, text) if trace is None else trace.substitute(pattern, replacement)


def alternatives(words: Sequence[str] | Mapping[str, object]) -> str:
    """A pattern that matches any of the words, the longest first."""
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


_DOMAINS = (
    "com org net edu gov mil int info biz io ir uk de fr ai dev app eu tv co us ca au jp cn ru ch nl se me xyz "
    "online site shop"
).split()
_FILE_TYPES = (
    "pdf txt py exe jpg jpeg png gif svg doc docx xls xlsx ppt zip tar gz mp3 mp4 wav html htm csv json xml yaml md"
).split()
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,62}[A-Za-z0-9])?"
_TAIL = r"(?:/(?:[\w./?=&%#~+-]*[\w/])?|(?=[^\w/@-]|\Z))"

EMAIL = rf"(?<![\w.+-])[A-Za-z0-9_](?:[\w.+-]{{0,63}}\w)?@(?:{_HOST}\.){{1,5}}[A-Za-z]{{2,12}}(?![\w@])"
URL = (
    rf"(?<![\w@./-])(?:(?:https?|ftp)://(?:{_HOST}\.){{1,6}}[A-Za-z]{{2,12}}|www\.(?:{_HOST}\.){{1,6}}[A-Za-z]{{2,12}}"
    rf"|(?:{_HOST}\.){{1,6}}(?:{alternatives(_DOMAINS)})(?![\w-]|\.\w)){_TAIL}"
)
FILE_NAME = rf"(?<![\w./-])[A-Za-z_][\w-]{{0,60}}\.(?:{alternatives(_FILE_TYPES)})(?![\w])"
UNIX_PATH = r"(?<![\w/.<~])~?(?:/[A-Za-z_.][\w.-]{0,60}){2,12}/?(?![\w/])"
WINDOWS_PATH = r"(?<![\w\\])[A-Za-z]:(?:\\[\w.-]{1,60}){1,12}"
_SCHEME = re.compile(r"(https?|ftp)://")
_COUNTRIES = "ir|uk|de|fr|us|eu|io|tv|ca|jp|cn|ru|nl"
"""Ends of web addresses that are read as letters."""


def address_rules(read: Replacement, *examples: Mapping[str, str]) -> tuple[Rule, ...]:
    """Rules for e-mail addresses, web addresses, paths and file names, in this order, with the examples of each."""
    of_email, of_web, of_path, of_file = examples
    return (
        rule("e-mail address", EMAIL, read, of_email, "@"),
        rule("web address", URL, read, of_web, "."),
        rule("file path", f"{UNIX_PATH}|{WINDOWS_PATH}", read, of_path, "/\\"),
        rule("file name", FILE_NAME, read, of_file, "."),
    )


def read_address(address: str, names: Mapping[str, str], *, is_scheme_read: bool) -> str:
    """Each sign of an address as its name, words and digits apart.

    Args:
        names: sign → word; the key `://` is read after the scheme.
    """
    scheme = _SCHEME.match(address)
    prefix = ""
    if scheme:
        address = address[scheme.end() :]
        prefix = f"{scheme[1]} {names['://']} " if is_scheme_read else ""
    spoken = "".join(f" {names[sign]} " if sign in names else sign for sign in address.rstrip("/"))
    letters = rf"\Awww(?= )|(?<= {names['.']} )(?:{_COUNTRIES})(?![^ ])"
    spoken = re.sub(letters, lambda match: ".".join(match[0].upper()), spoken)
    return f" {prefix}{spoken} "


_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
_NUMERAL = re.compile(r"M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")
_OTHER_ABBREVIATIONS = frozenset(
    "CD DC MD MC MM CC CM DM XL XXL XXXL DL CV MI LL ML DI LI MIX DIV CI CL CCD LCD".split()
)
ROMAN_PATTERN = r"[IVXLCDM]{1,12}"


def roman_value(written: str) -> int | None:
    """XIV → 14; None for what is no numeral, or is far more often something else (`DC`, `CD`, `XL`)."""
    if not written or written in _OTHER_ABBREVIATIONS or not _NUMERAL.fullmatch(written):
        return None
    values = [_VALUES[letter] for letter in written]
    return sum(
        -value if value < following else value for value, following in zip(values, [*values[1:], 0], strict=True)
    )


SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
FROM_SUPERSCRIPT = str.maketrans(SUPERSCRIPTS + "⁻", "0123456789-")


def letters_with_ampersand() -> Rule:
    """Initials around an ampersand are letters in both languages."""
    return rule(
        "letters joined by an ampersand",
        r"(?<![\w&])([A-Z]{1,3})&([A-Z]{1,3})(?![\w&])",
        lambda match: f"{' '.join(match[1])} and {' '.join(match[2])}",
        {"AT&T": "A T and T"},
        "&",
    )
