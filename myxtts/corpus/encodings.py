"""The encoding of a text file that may be older than UTF-8: `detect_encoding` gives the name of a codec.

UTF-8 and byte order marks are certain. UTF-16 without a mark and Windows code pages are guesses, so they are taken only where the
text then looks like text (one script, plausible capitals), and callers report them.
"""

# ruff: noqa: SIM905 - lists of codes read best as words
from __future__ import annotations

import codecs
import itertools
import re
import unicodedata
from collections.abc import Iterator

from myxtts.text.cleanup import base_language
from myxtts.text.languages import script_of

UTF8 = "utf-8"
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark is its beginning
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SAMPLED_BYTES = 4096
"""Bytes at the beginning of a file in which NUL bytes are counted."""
_MANY_NULS = 0.3
"""Fraction of the high bytes from which NULs alone prove UTF-16; Latin text has nearly only these. Chosen; not
measured."""
_FEWEST_NULS = 0.05
"""Fraction in alphabets such as Arabic, where only spaces, digits and line ends have a NUL byte. Chosen; not
measured."""
_LAST_ALPHABET = 0x20
"""High byte up to which Unicode has its alphabets and punctuation; ASCII letters, misread as high bytes, are above it."""
_CODE_PAGES = {
    "cp1256": ("ARABIC", "ar fa ur ug ps sd ku ckb"),
    "cp1251": ("CYRILLIC", "ru uk be bg mk sr kk ky tt ba tg"),
    "cp1253": ("GREEK", "el"),
    "cp1255": ("HEBREW", "he yi"),
    "cp1250": ("LATIN", "cs pl sk hu sl hr ro bs sq"),
    "cp1254": ("LATIN", "tr az"),
    "cp1257": ("LATIN", "lt lv et"),
    "cp1252": ("LATIN", ""),
}
"""Windows code page → its script and the languages that it is for; cp1252 is for all others."""
_GUESSED = ("cp1252", "cp1256", "cp1251")
"""Tried where the code page of the language does not fit: each has a script of its own, so they cannot be confused."""
_SAMPLED_LINES = 2000
"""The first lines beyond ASCII, by which an encoding is judged. Chosen; not measured."""
_DAMAGED = 0.1
"""Fraction of the lines beyond ASCII from which valid UTF-8 means: UTF-8 with damaged lines. Chosen; not measured."""
_PLAUSIBLE = 0.9
"""Fraction of the words that must look like words. Chosen; not measured."""
_FEWEST_WORDS = 3
"""Words beyond ASCII from which a code page is guessed that is not the one of the language."""
_WORD = re.compile(r"[^\W\d_]+")
_HIGH_RUN = 3
"""Letters beyond ASCII in a row that hardly any word of a Western language has."""
_USUAL_SIGNS = frozenset("…•¿¡°©®™€£،؛؟·")
_USUAL_CATEGORIES = frozenset("Pi Pf Pd Zs Cf Mn No".split())


def detect_encoding(content: bytes, language: str) -> str:
    """The codec of a text in `language`; UTF-8 also where no codec is plausible, so that single lines can be rejected."""
    wide = marked_encoding(content) or unmarked_utf16(content)
    if wide is not None:
        return wide
    if _can_decode(content, UTF8):
        return UTF8
    lines = [line for line in re.split(rb"[\r\n]+", content) if not line.isascii()][:_SAMPLED_LINES]
    if sum(_can_decode(line, UTF8) for line in lines) > _DAMAGED * len(lines):
        return UTF8
    own = code_page_of(language)
    if _is_plausible(lines, own):
        return own
    others = [codec for codec in _GUESSED if codec != own and _is_plausible(lines, codec, is_guess=True)]
    return others[0] if len(others) == 1 else UTF8


def marked_encoding(content: bytes) -> str | None:
    """The codec that a byte order mark names, or None."""
    return next((codec for mark, codec in _MARKS if content.startswith(mark)), None)


def unmarked_utf16(content: bytes) -> str | None:
    """The codec of UTF-16 text without a byte order mark, by the NUL bytes of its ASCII characters; None for other text."""
    sample = content[:_SAMPLED_BYTES]
    sample = sample[: len(sample) // 2 * 2]
    halves = {"utf-16-be": sample[::2], "utf-16-le": sample[1::2]}
    codec = max(halves, key=lambda name: halves[name].count(0))
    nuls, most = halves[codec].count(0), len(halves[codec])
    other_nuls = min(half.count(0) for half in halves.values())
    is_alphabet = sum(byte <= _LAST_ALPHABET for byte in halves[codec]) >= _PLAUSIBLE * most
    if nuls <= (_FEWEST_NULS if is_alphabet else _MANY_NULS) * most or other_nuls > nuls / 10:
        return None
    is_text = all(each.isprintable() or each.isspace() for each in _visible(sample.decode(codec, "ignore")))
    return codec if is_text else None


def _visible(text: str) -> Iterator[str]:
    """Characters other than marks of direction and joining, which no font prints."""
    return (character for character in text if unicodedata.category(character) != "Cf")


def code_page_of(language: str) -> str:
    """The Windows code page of a language."""
    base = base_language(language)
    return next((codec for codec, (_, languages) in _CODE_PAGES.items() if base in languages.split()), "cp1252")


def encoding_label(codec: str) -> str:
    """The usual name of a codec: cp1256 → Windows-1256."""
    return codec.replace("cp", "Windows-") if codec.startswith("cp") else codec.upper().removesuffix("-SIG")


def _can_decode(content: bytes, codec: str) -> bool:
    try:
        content.decode(codec)
    except UnicodeDecodeError:
        return False
    return True


def _is_plausible(lines: list[bytes], codec: str, is_guess: bool = False) -> bool:
    """Whether almost everything beyond ASCII is a word of the code page's script or a usual sign."""
    content = b"\n".join(lines)
    if not _can_decode(content, codec):
        return False
    text = content.decode(codec)
    script = _CODE_PAGES[codec][0]
    words = [word for word in _WORD.findall(text) if not word.isascii()]
    odd_signs = sum(not character.isascii() and _is_odd(character) for character in text)
    good = sum(_looks_like_a_word(word, script, codec) for word in words)
    if is_guess and len(words) < _FEWEST_WORDS:
        return False
    if is_guess and script == "CYRILLIC" and not any(word[0].isupper() for word in words):
        return False  # Hebrew bytes are lower-case Cyrillic ones
    if script != "LATIN" and not any(len(word) > 1 for word in words):  # quotes and single letters prove nothing
        return False
    return good >= _PLAUSIBLE * (len(words) + odd_signs)


def _is_odd(character: str) -> bool:
    is_usual = character.isalpha() or character in _USUAL_SIGNS or unicodedata.category(character) in _USUAL_CATEGORIES
    return not is_usual


def _looks_like_a_word(word: str, script: str, codec: str) -> bool:
    if any(script_of(character) not in (script, "FEMININE", "MASCULINE") for character in word):
        return False
    if any(before.islower() and after.isupper() for before, after in itertools.pairwise(word)):
        return False
    longest_run = max(len(list(run)) for is_ascii, run in itertools.groupby(word, str.isascii) if not is_ascii)
    return codec != "cp1252" or longest_run < _HIGH_RUN
