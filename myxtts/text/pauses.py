"""Punctuation as pauses: which marks change the speech, and the spans of words between them.

A normalized text becomes `Span`s (words to speak), `Pause`s (one of `PAUSE_SYMBOLS`) and `Foreign` characters, in order.
Both kinds of symbols, phonemes and graphemes, see punctuation in the same way because both come through here.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import NamedTuple

from myxtts.text.cleanup import ZWNJ

PAUSE_SYMBOLS = (",", ".", "?", "!", ";", ":", "—", "…")
WORD_BOUNDARY = " "

_STRENGTH = "?!.…;:—,"
"""Marks by strength: of several in a row the strongest is kept. The end of a sentence, and its kind, matter most."""

_MARKS = {
    ",": ",،、，()[]{}（）【】〔〕፣၊᠂",
    ".": ".。．।॥۔։።။᠃｡",
    "?": "?？؟⸮፧\u037e",
    "!": "!！՜",
    ";": ";；؛፤",
    ":": ":：",
    "—": "—–―‒",
    "…": "…⋯",
}
_SILENT = '"“”„‟«»‹›「」『』《》〈〉‘‚‛`´¿¡|\\'
_APOSTROPHES = "'’ʼ＇"

MARK_OF = {character: mark for mark, characters in _MARKS.items() for character in characters}
MARK_OF_GREEK = MARK_OF | {";": "?", "\u037e": "?", "·": ";"}

_FOREIGN = "\x02"
_PIECES = re.compile(
    rf"({_FOREIGN}.|[{re.escape(''.join(PAUSE_SYMBOLS))}\s]*[{re.escape(''.join(PAUSE_SYMBOLS))}]"
    rf"[{re.escape(''.join(PAUSE_SYMBOLS))}\s]*)",
    re.DOTALL,
)
_INSIDE_WORD = re.compile(r"(?<=\d)[.,:](?=\d)|(?<=[\dA-Za-zÀ-ɏͰ-ӿ])\.(?=[\dA-Za-zÀ-ɏͰ-ӿ])")
_PROTECTED = {".": "\x03", ",": "\x04", ":": "\x05"}
_RESTORED = {ord(held): mark for mark, held in _PROTECTED.items()}
_DASHES = re.compile(r"(?<!\S)-+(?!\S)|--+")
_DOTS = re.compile(r"\.\.+")


class Span(NamedTuple):
    """Words between two pauses."""

    text: str


class Pause(NamedTuple):
    """One of `PAUSE_SYMBOLS`."""

    symbol: str


class Foreign(NamedTuple):
    """A character that cannot be spoken in this language (an emoji, a letter of another script)."""

    character: str


class _MarkTable(dict):
    """A `str.translate` table that decides about each character once."""

    def __init__(self, marks: dict[str, str], is_foreign: Callable[[str], bool]):
        super().__init__()
        self._marks, self._is_foreign = marks, is_foreign

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if character in self._marks:
            replacement = self._marks[character]
        elif character in _SILENT or unicodedata.category(character) in ("Cc", "Cs"):
            replacement = " "
        elif character in _APOSTROPHES:
            replacement = "'"
        else:
            replacement = _FOREIGN + character if self._is_foreign(character) else character
        self[code] = replacement
        return replacement


class Segmenter:
    """Cuts texts of one language into spans, pauses and foreign characters, in linear time."""

    def __init__(self, language: str, is_foreign: Callable[[str], bool]):
        self._table = _MarkTable(MARK_OF_GREEK if language.startswith("el") else MARK_OF, is_foreign)

    def pieces(self, text: str) -> Iterator[Span | Pause | Foreign]:
        """The pieces of a text in order; a mark inside a word or number (`3.5`, `U.S`, `10:30`) belongs to its span."""
        marked = _INSIDE_WORD.sub(lambda match: _PROTECTED[match[0]], text.translate(self._table))
        marked = _DOTS.sub("…", _DASHES.sub("—", marked))
        for piece in _PIECES.split(marked):
            if piece.startswith(_FOREIGN):
                yield Foreign(piece[1:])
            elif piece[:1] in PAUSE_SYMBOLS or piece.strip()[:1] in PAUSE_SYMBOLS:
                yield Pause(strongest_pause(piece))
            elif piece.strip():
                yield Span(piece.translate(_RESTORED).strip())

    def to_symbols(self, text: str, speak: Callable[[str], str]) -> str:
        """The symbols of a text: `speak(span)` for every span, a pause symbol after it, one space between words.

        Foreign characters stay in the result as they are, so that the caller, who looks symbols up, can count them.
        """
        symbols: list[str] = []
        pause, is_speaking = "", False
        for piece in self.pieces(text):
            if isinstance(piece, Foreign):
                symbols.append(piece.character)
            elif isinstance(piece, Pause):
                pause = strongest_pause(pause + piece.symbol) if is_speaking else ""
            elif sound := speak(piece.text):
                if is_speaking:
                    symbols.append(pause + WORD_BOUNDARY)
                symbols.append(sound)
                pause, is_speaking = "", True
        return "".join([*symbols, pause])


def strongest_pause(marks: str) -> str:
    """The mark of a run that decides how it sounds: `?!` → `?`."""
    return min((mark for mark in marks if mark in _STRENGTH), key=_STRENGTH.index)


def is_speakable(symbol: str) -> bool:
    """Whether a symbol may be in a table of symbols: a letter, mark, stress, tone, pause or word boundary.

    Digits and emoji may not: they have no certain sound, so they are counted as unknown instead.
    """
    if len(symbol) != 1:
        return False
    is_sign = symbol in PAUSE_SYMBOLS or symbol in (WORD_BOUNDARY, "'", ZWNJ) or symbol in TONES
    return is_sign or unicodedata.category(symbol)[0] in "LM"


def is_sound(symbol: str) -> bool:
    """Whether a symbol alone has a sound: a letter, not a pause, mark or boundary."""
    return symbol not in ("ˈ", "ˌ", "ː", "<pad>", "<blank>") and unicodedata.category(symbol[0])[0] == "L"


TONES = "⁰¹²³⁴⁵⁶⁷⁸⁹"
"""espeak-ng writes tones as digits; they are kept as superscripts, apart from digits of the text."""
