"""A normalizer as a list of small rules, and what the rules of both languages share: web addresses and Roman numerals.

A rule is a pattern, its replacement and examples of what it is for. To add one, write it where it belongs in the list of its
language, with at least one example. A test normalizes every example and checks that the rule took part. Patterns must read each
character a bounded number of times.
"""

# ruff: noqa: SIM905 - word lists read best as words
from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Replacement = str | Callable[[re.Match[str]], str]
DIGITS = "0123456789"


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
        """Compiled at first use: all patterns of both languages take 50 ms."""
        return re.compile(self.source, self.flags)


def rule(
    name: str, pattern: str, replacement: Replacement, examples: Mapping[str, str], needs: str = "", flags: int = 0
) -> Rule:
    """A rule; `needs` as one string."""
    return Rule(name, pattern, replacement, examples, frozenset(needs), flags)


def apply_rules(text: str, rules: Sequence[Rule], report: Callable[[Rule, str], None] | None = None) -> str:
    """The text after every rule in order. `report` receives each rule that changed the text, and the changed text."""
    characters = set(text)
    for each in rules:
        if each.needs and each.needs.isdisjoint(characters):
            continue
        changed, count = each.pattern.subn(each.replacement, text)
        if count and changed != text:
            text, characters = changed, set(changed)
            if report is not None:
                report(each, text)
    return text


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
