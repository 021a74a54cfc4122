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
