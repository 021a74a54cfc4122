"""A user's pronunciations, read from `word<TAB>phonemes` lines. Its words take precedence over the G2P and espeak-ng."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from myxtts.errors import TextError
from myxtts.runtime.safe_files import read_regular_file
from myxtts.text.persian_letters import unify_letters

LARGEST_BYTES = 64 << 20
"""Largest lexicon file: CMUdict with all its variants has 4 MB."""


@dataclass(frozen=True)
class Lexicon:
    """Words and their phonemes (IPA), looked up without regard to case or letter variants."""

    entries: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self):
        keyed = {lexicon_key(word): "".join(phonemes.split()) for word, phonemes in self.entries.items()}
        object.__setattr__(self, "entries", keyed)

    def __bool__(self) -> bool:
        return bool(self.entries)

    def phonemes_of(self, word: str) -> str | None:
        """The user's phonemes of a word, or None."""
        return self.entries.get(lexicon_key(word))

    def digest(self) -> str:
        """A short text that changes with any entry."""
        content = json.dumps(sorted(self.entries.items()), ensure_ascii=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]


def lexicon_key(word: str) -> str:
    """The form under which a word is looked up."""
    return unify_letters(unicodedata.normalize("NFC", word)).replace("’", "'").casefold()


def load_lexicon(path: str | Path) -> Lexicon:
    """Read a lexicon; every line that cannot be used is named in one error. `#` starts a comment line."""
    content = b""
    try:
        content = read_regular_file(path, LARGEST_BYTES)
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise TextError(
            f"The lexicon cannot be read. Received: {path} ({error.strerror}). "
            "Expected: a text file of `word<TAB>phonemes` lines."
        ) from None
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise TextError(f"The lexicon {path} is not UTF-8 text (line {line}). Save it as UTF-8.") from None
    entries: dict[str, str] = {}
    problems = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        problem = _add_line(entries, line)
        if problem:
            problems.append(f"line {number}: {problem}")
    if problems:
        shown = "\n".join(f"  - {problem}" for problem in problems[:20])
        more = f"\n  and {len(problems) - 20} more" if len(problems) > 20 else ""
        raise TextError(f"The lexicon {path} has lines that cannot be used:\n{shown}{more}")
    return Lexicon(entries)


def _add_line(entries: dict[str, str], line: str) -> str | None:
    word, tab, phonemes = line.partition("\t")
    word, phonemes = word.strip(), "".join(phonemes.split())
    if not tab:
        return f"expected `word<TAB>phonemes`, received no tab: {line[:60]!r}."
    if not word or not phonemes:
        return f"expected a word and its phonemes, received {line[:60]!r}."
    if len(word.split()) > 1:
        return f"expected one word before the tab, received {word[:60]!r}."
    if any(character.isdigit() or unicodedata.category(character)[0] in "CZ" for character in phonemes):
        return f"expected phonemes in IPA, received {phonemes[:60]!r}."
    key = lexicon_key(word)
    if entries.get(key, phonemes) != phonemes:
        return f"{word!r} has different phonemes above ({entries[key]}). Keep one of the two."
    entries[key] = phonemes
    return None
