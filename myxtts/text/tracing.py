"""Which written words a normalized text comes from: a `Trace` follows a text through the steps that rewrite it.

An origin is the first and the last written word, as indices, that a character comes from; None where there is none (a space, a
foreign sign). Rules that put words in another order, or that read several written words at once, name the span of each part
(`myxtts.text.rules.spoken`). Where a replacement names none, its words that stay as they are show what belongs together; what is
left belongs to all of the words that it replaces, so an origin is at worst too wide.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import NamedTuple

from myxtts.text.pauses import PAUSE_SYMBOLS, WORD_BOUNDARY
from myxtts.text.rules import Replacement, SpokenReplacement

Origin = tuple[int, int] | None

_TOKEN = re.compile(r"[\w\u0300-\u036f\u064b-\u065f\u200c]+|[^\w\s]")
_PUNCTUATION = ",.;:()[]'\"،؛«»"
"""Signs that no word is spoken for."""


class SpokenWord(NamedTuple):
    """A word as it is read aloud, or several that are spoken as one, and the written words that it comes from."""

    text: str
    origin: Origin

    @classmethod
    def joined(cls, words: Sequence[tuple[str, Origin]]) -> SpokenWord:
        """Several words as one."""
        return cls(" ".join(text for text, _ in words), _union(origin for _, origin in words))


@dataclass(frozen=True)
class TracedText:
    """How a text is read: its written words, its spoken words in the order of speech, and the symbols of each."""

    written: tuple[str, ...]
    spoken: list[SpokenWord]
    symbols: list[str]
    word_of: list[int | None]
    """For each symbol the index of its spoken word; None for boundaries and pauses."""


class Trace:
    """The origins of the characters of one text; each method takes one step that gave a new text."""

    def __init__(self, text: str):
        self.words = tuple(text.split())
        self._text = " ".join(self.words)
        self._origins: list[Origin] = []
        for index, word in enumerate(self.words):
            self._origins += [*([None] if index else []), *[(index, index)] * len(word)]

    def clean(self, cleaned: str, clean: Callable[[str], str]) -> None:
        """The text was cleaned, by a function that treats words alike wherever they are, unless markup spans several."""
        alone = [clean(word) for word in self.words]
        if " ".join(filter(None, alone)) == cleaned:
            origins: list[Origin] = []
            for index, word in enumerate(alone):
                if word:
                    origins += [*([None] if origins else []), *[(index, index)] * len(word)]
            self._text, self._origins = cleaned, origins
        else:
            self.rewrite(cleaned)

    def rewrite(self, changed: str) -> None:
        """The text was changed inside its words: as many words as before, or words that are mostly the same."""
        if changed == self._text:
            return
        old, new = self.words_and_origins(), changed.split()
        if len(old) == len(new):
            origins = [origin for _, origin in old]
        else:
            matcher = SequenceMatcher(None, [word for word, _ in old], new, autojunk=False)
            origins = []
            for kind, start, end, new_start, new_end in matcher.get_opcodes():
                found = [origin for _, origin in old[start:end]]
                origins += found if kind == "equal" else [_union(found)] * (new_end - new_start)
        spread: list[Origin] = []
        words = iter(origins)
        for part in re.findall(r"\S+|\s+", changed):
            spread += [None if part.isspace() else next(words)] * len(part)
        self._text, self._origins = changed, spread

    def substitute(self, pattern: re.Pattern[str], replacement: Replacement) -> tuple[str, int]:
        """What `pattern.subn(replacement, text)` gives."""
        matches: list[tuple[re.Match[str], str]] = []

        def replace(match: re.Match[str]) -> str:
            matches.append((match, replacement(match) if callable(replacement) else match.expand(replacement)))
            return matches[-1][1]

        changed, count = pattern.subn(replace, self._text)
        origins: list[Origin] = []
        position = 0
        for match, replaced in matches:
            origins += self._origins[position : match.start()]
            origins += self._replaced(match, replaced)
            position = match.end()
        self._text, self._origins = changed, [*origins, *self._origins[position:]]
        return changed, count

    def words_and_origins(self) -> list[tuple[str, Origin]]:
        """The words of the text as it is now, and the origin of each."""
        return [
            (match[0], _union(self._origins[match.start() : match.end()])) for match in re.finditer(r"\S+", self._text)
        ]

    def _replaced(self, match: re.Match[str], replaced: str) -> list[Origin]:
        own = self._origins[match.start() : match.end()]
        if replaced == match[0]:
            return own
        if isinstance(replaced, SpokenReplacement):
            return self._spoken(replaced)
        whole = _union(own)
        if whole is None:  # a space, or nothing: what is put there belongs to the word next to it
            before, after = self._origins[: match.start()][-1:], self._origins[match.end() :][:1]
            return [next(filter(None, (*before, *after)), None)] * len(replaced)
        if whole[0] == whole[1]:
            return [whole] * len(replaced)
        return _anchored(match[0], own, replaced)

    def _spoken(self, replaced: SpokenReplacement) -> list[Origin]:
        """A part that names no span belongs to the part before it, the first one to the part after it."""
        known = [None if span is None else self._copied(text, *span) for text, span in replaced.parts]
        first = next((_last(own[:1]) for own in known if own), None)
        origins: list[Origin] = []
        for (text, _), own in zip(replaced.parts, known, strict=True):
            origins += [_last(origins) or first] * len(text) if own is None else own
        return origins

    def _copied(self, text: str, start: int, end: int) -> list[Origin]:
        own = self._origins[start:end]
        return own if text == self._text[start:end] else [_union(own)] * len(text)


def _last(origins: Sequence[Origin]) -> Origin:
    return next(filter(None, reversed(origins)), None)


def _union(origins: Iterable[Origin]) -> Origin:
    found = [origin for origin in origins if origin is not None]
    return (min(first for first, _ in found), max(last for _, last in found)) if found else None


def _anchored(written: str, own: Sequence[Origin], replaced: str) -> list[Origin]:
    """Origins of a replacement for several words: those of the words that stay, and between them those of what they replace.

    If a word is missing in one place and another is added elsewhere, the order may have changed: everything belongs together.
    """
    old, new = list(_TOKEN.finditer(written)), list(_TOKEN.finditer(replaced))
    steps = SequenceMatcher(None, [each[0] for each in old], [each[0] for each in new], autojunk=False).get_opcodes()
    is_moved = any(
        kind == "delete" and any(each[0] not in _PUNCTUATION for each in old[a:b]) for kind, a, b, _, _ in steps
    )
    if is_moved and any(kind != "equal" and after > before for kind, _, _, before, after in steps):
        return [_union(own)] * len(replaced)
    origins: list[Origin] = [None] * len(replaced)
    for kind, start, end, new_start, new_end in steps:
        for offset, token in enumerate(new[new_start:new_end]):
            source = old[start + offset : start + offset + 1] if kind == "equal" else old[start:end]
            origin = _union(each for match in source for each in own[match.start() : match.end()])
            origins[token.start() : token.end()] = [origin] * len(token[0])
    return origins


def group_symbols(symbols: Sequence[str]) -> list[tuple[int, int]]:
    """Start and end of the symbols of each spoken word."""
    groups, position = [], 0
    for is_between, found in groupby(symbols, lambda each: each == WORD_BOUNDARY or each in PAUSE_SYMBOLS):
        count = len(list(found))
        if not is_between:
            groups.append((position, position + count))
        position += count
    return groups


def align_words(groups: Sequence[str], alone: Sequence[Sequence[str]]) -> list[list[int]]:
    """The words that each group of a text's symbols belongs to, by their symbols when each is spoken alone.

    espeak-ng joins some words ("of the") and reads some in another way in context: there the symbols that agree decide.
    """
    owners = [word for word, own in enumerate(alone) for _ in own]
    if len(owners) == len(groups):
        return [[word] for word in owners]
    whole, apart = "".join(groups), "".join(each for own in alone for each in own)
    group_at = [group for group, text in enumerate(groups) for _ in text]
    word_at = [word for word, own in enumerate(alone) for _ in "".join(own)]
    shared = Counter(
        (group_at[first + offset], word_at[second + offset])
        for first, second, size in SequenceMatcher(None, whole, apart, autojunk=False).get_matching_blocks()
        for offset in range(size)
    )
    members: list[list[int]] = []
    for group in range(len(groups)):
        found = {word: count for (own, word), count in shared.items() if own == group}
        lengths = {word: len("".join(alone[word])) for word in found}
        best = max(found, key=lambda word: (found[word], -word), default=members[-1][-1] if members else 0)
        members.append(sorted({best, *(word for word in found if 2 * found[word] >= lengths[word])}))
    return members if alone else [[] for _ in groups]
