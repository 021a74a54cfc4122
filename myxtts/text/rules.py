"""A normalizer as a list of small rules.

A rule is a pattern, its replacement and examples of what it is for. To add one, write it where it belongs in the list of its
language, with at least one example. A test normalizes every example and checks that the rule took part. Patterns must read each
character a bounded number of times.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

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
