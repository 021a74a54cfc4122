"""Persian letters: one form of each, and text as the letter tagger sees it, with diacritics apart and words marked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from myxtts.text.cleanup import ZWNJ

_VARIANTS = str.maketrans(
    {
        "ي": "ی", "ى": "ی", "ې": "ی", "ے": "ی", "ۍ": "ی", "ك": "ک", "ڪ": "ک", "ڬ": "ک", "ګ": "گ",
        "ہ": "ه", "ھ": "ه", "ە": "ه", "ۂ": "هٔ", "ة": "ه", "ۀ": "هٔ", "ٱ": "ا", "إ": "ا",
        "ۇ": "و", "ۆ": "و", "ۋ": "و", "ڤ": "و", "ـ": None, "ٰ": None, "¬": ZWNJ,
    }
)  # fmt: skip
LETTERS = "ءآأؤئابتثجحخدذرزسشصضطظعغفقلمنهوپچژکگی"
PAUSE = "،"
BOUNDARY = " "
ALPHABET = LETTERS + ZWNJ + PAUSE + BOUNDARY
MARKS = "\u064e\u0650\u064f\u0651\u064b\u0652\u0654\u064d\u064c"
"""fatha, kasra, damma, shadda, fathatan, sukun, hamza above, kasratan, dammatan."""
KASRA, HAMZA, TANVIN = MARKS.index("\u0650"), MARKS.index("\u0654"), MARKS.index("\u064b")

AFFRICATES = {"ʧ": "tʃ", "ʤ": "dʒ"}
"""One symbol per phoneme inside the model, two in the inventory."""
PERSIAN_VOWELS = "æɑeoiu"
VERB_PREFIX = re.compile(f"ن?می{ZWNJ}")
WORD_PATTERN = rf"[{LETTERS}{MARKS}{ZWNJ}]+"
_WORD = re.compile(WORD_PATTERN)


def unify_letters(text: str) -> str:
    """Arabic and Persian variants of a letter as one letter."""
    return text.translate(_VARIANTS).replace("یٔ", "ئ")


class Word(NamedTuple):
    """A word's letters: from `start` up to `end` in the line."""

    start: int
    end: int


@dataclass(frozen=True)
class Line:
    """Letters of one text with their diacritics.

    Attributes:
        letters: characters of ALPHABET.
        marks: for each letter the set of MARKS after it, as a bit mask.
        words: in order.
    """

    letters: str
    marks: tuple[int, ...]
    words: tuple[Word, ...]

    def text_of(self, word: Word) -> str:
        """The letters of a word, without diacritics."""
        return self.letters[word.start : word.end]

    def written_form(self, word: Word) -> str:
        """A word with its diacritics, without those of an ezafe at its end."""
        bits = list(self.marks[word.start : word.end])
        bits[-1] &= ~(1 << KASRA | 1 << HAMZA)
        letters = zip(self.text_of(word), bits, strict=True)
        return "".join(
            letter + "".join(mark for index, mark in enumerate(MARKS) if own >> index & 1) for letter, own in letters
        )


def read_line(text: str) -> Line:
    """Cut normalized Persian text into letters and words. Any other character is a pause between words."""
    letters: list[str] = []
    marks: list[int] = []
    words: list[Word] = []
    text = unify_letters(text)
    position = 0
    for match in _WORD.finditer(text):
        word = match[0].strip(ZWNJ)
        if not any(character in LETTERS for character in word):
            continue
        if words:
            gap = text[position : match.start()]
            letters.append(BOUNDARY if not gap.strip() else PAUSE)
            marks.append(0)
        start = len(letters)
        for character in word:
            if character in MARKS:
                if len(letters) > start:
                    marks[-1] |= 1 << MARKS.index(character)
            else:
                letters.append(character)
                marks.append(0)
        words.append(Word(start, len(letters)))
        position = match.end()
    return Line("".join(letters), tuple(marks), tuple(words))


def add_ezafe(phonemes: str) -> str:
    """A word's phonemes with the ezafe: -e after a consonant, -je after a vowel."""
    return phonemes + ("je" if phonemes[-1:] in PERSIAN_VOWELS else "e")
