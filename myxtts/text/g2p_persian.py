"""Persian text to phonemes: lexicon, homographs by rules and context, a letter tagger for the rest, ezafe, stress by rule."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from myxtts.text.cleanup import ZWNJ
from myxtts.text.g2p_model import LetterTagger
from myxtts.text.homographs import HomographModel, find_rule
from myxtts.text.persian_ezafe import DAY_PARTS, EzafeModel, Place, may_have_ezafe, must_have_ezafe
from myxtts.text.persian_letters import (
    AFFRICATES,
    HAMZA,
    KASRA,
    MARKS,
    PAUSE,
    PERSIAN_VOWELS,
    TANVIN,
    VERB_PREFIX,
    Line,
    Word,
    add_ezafe,
    read_line,
)
from myxtts.text.persian_numbers import is_cardinal, is_inside_number

_UNSTRESSED = frozenset("و از به در با که تا را بر برای یا اگر چون ولی اما هم رو".split())  # noqa: SIM905
_CLITIC = re.compile(rf"(?<!\Aسی){ZWNJ}(?:ام|ات|اش|ای|ایم|اید|اند|م|ت|ش|مان|تان|شان|هایی|است)$")
"""Endings after which the stress stays on the syllable before; سی‌اُم is an ordinal."""
_FINAL_GEMINATE = re.compile(rf"(?<=([^{PERSIAN_VOWELS}]))\1$")
"""Heard before a vowel only: hæqq-e man, but in hæq."""
_PLURALS = {"ها": "hɑ", "های": "hɑje", "هایی": "hɑʔi"}
_NEARBY = 6
_ERAS = frozenset("هجری شمسی قمری خورشیدی میلادی".split())  # noqa: SIM905


@dataclass(frozen=True)
class PersianG2P:
    """The parts of the model; see `read_words`.

    Attributes:
        tagger: letters of a word → chunks of phonemes; over a whole sentence its end scores are the ezafe.
        lexicon: word without diacritics → phonemes, for words of one reading.
        homographs: words whose reading depends on the words around them.
        ezafe: log odds by the words around, added to the tagger's end score.
    """

    tagger: LetterTagger
    lexicon: Mapping[str, str]
    homographs: HomographModel
    ezafe: EzafeModel | None

    def read_words(self, text: str) -> list[str]:
        """IPA of each word of a normalized text, with stress; punctuation separates phrases but gives no word."""
        line = read_line(text)
        if not line.words:
            return []
        texts = words_and_pauses(line)
        places = [place for place, text in enumerate(texts) if text != PAUSE]
        listed = [self._listed(line, word, texts, place) for word, place in zip(line.words, places, strict=True)]
        unlisted = [word for word, phonemes in zip(line.words, listed, strict=True) if phonemes is None]
        ends, read = self._by_letters(line, unlisted)
        readings = []
        for word, known, has_ezafe in zip(line.words, listed, self.find_ezafe(line, ends), strict=True):
            letters = line.text_of(word)
            phonemes = next(read) if known is None else known
            if line.marks[word.end - 1] & 1 << TANVIN and not phonemes.endswith("æn"):
                phonemes = phonemes.rstrip("ɑæ") + "æn"
            phonemes = _as_written(letters, phonemes)
            if not has_ezafe:
                phonemes = _FINAL_GEMINATE.sub("", phonemes)
            elif not _ends_in_ezafe(letters, phonemes):
                phonemes = add_ezafe(phonemes)
            readings.append(_in_inventory(_stressed(letters, phonemes, has_ezafe)))
        return readings

    def spoken(self, word: str) -> str:
        """IPA of a word of the lexicon alone, with stress; nothing if the lexicon does not have it."""
        phonemes = self.lexicon.get(word)
        return _in_inventory(_stressed(word, phonemes, has_ezafe=False)) if phonemes else ""

    def _by_letters(self, line: Line, words: Sequence[Word]) -> tuple[np.ndarray, Iterator[str]]:
        """The end scores of the line, (letters,), and the phonemes of some of its words.

        The words are read alone: on the dev sentences 81.7 % of them are right then, with the sentence in view 79.5 %.
        """
        rows, marks = self.tagger.encode(line.letters), mark_array(line)
        spans = [slice(0, len(rows)), *(slice(word.start, word.end) for word in words)]
        (_, ends), *scores = self.tagger.run_each([rows[span] for span in spans], [marks[span] for span in spans])
        return ends, iter([self.tagger.best_tags(each) for each, _ in scores])

    def _listed(self, line: Line, word: Word, texts: Sequence[str], place: int) -> str | None:
        """The reading of a word that the lexicon has. With diacritics other than tanvin and a final ezafe, it must have them.

        Args:
            texts: words and pauses of the line; texts[place] is the word.
        """
        letters, written = texts[place], line.written_form(word)
        if written != letters and not line.marks[word.end - 1] & 1 << TANVIN:
            return self.lexicon.get(written)
        if letters not in self.lexicon and letters.partition(ZWNJ)[2] in _PLURALS:
            return self._plural_of_homograph(texts, place)
        rule = find_rule("fa", texts, place)
        if letters in self.homographs.readings and not (rule and rule.conditions):
            return self.homographs.choose(texts, place, rule.phonemes if rule else None).phonemes
        if rule:
            return rule.phonemes
        if letters == "و":
            before, after, second = (_at(texts, place + offset) for offset in (-1, 1, 2))
            return "o" if is_inside_number(before, after, second) else "væ"
        return self.lexicon.get(letters)

    def _plural_of_homograph(self, texts: Sequence[str], place: int) -> str | None:
        """The plural of a word that the rules of homographs have: گل‌ها, not read by its letters."""
        stem, _, ending = texts[place].partition(ZWNJ)
        rule = find_rule(
            "fa", [*texts[:place][-_NEARBY:], stem, *texts[place + 1 : place + 1 + _NEARBY]], min(place, _NEARBY)
        )
        return rule.phonemes + _PLURALS[ending] if rule else None

    def find_ezafe(self, line: Line, ends: np.ndarray) -> list[bool]:
        """Whether each word has an ezafe. Written marks decide; before a pause and on verbs with می there is none.

        Args:
            ends: the tagger's end scores, (letters,).
        """
        scores = np.array([ends[word.end - 1] for word in line.words])
        if self.ezafe is not None:
            scores = scores + self.tagger.extra["ezafe_weight"] * self.ezafe.scores(line)
        texts = words_and_pauses(line)
        places = [place for place, text in enumerate(texts) if text != PAUSE]
        classes = self.ezafe.classes if self.ezafe is not None else {}
        decisions, names_something = [], False
        for word, index, score in zip(line.words, places, scores, strict=True):
            place = _place(texts, index, names_something, classes)
            is_certain = bool(line.marks[word.end - 1] & (1 << KASRA | 1 << HAMZA))
            is_certain |= is_cardinal(place.word) and (
                place.after in _ERAS or (names_something and place.after in DAY_PARTS)
            )
            is_certain |= must_have_ezafe(place)
            is_possible = bool(place.after) and may_have_ezafe(place)
            decisions.append(is_certain or (is_possible and score > self.tagger.extra["ezafe_threshold"]))
            if place.word != "و" and not is_cardinal(place.word):
                names_something = decisions[-1]
        return decisions


def _place(texts: Sequence[str], index: int, names_something: bool, classes: Mapping[str, str]) -> Place:
    after, second, third = (_at(texts, index + offset) for offset in (1, 2, 3))
    if not after:  # words after a pause belong to another phrase
        second = ""
    if not second:
        third = ""
    return Place(texts[index], _at(texts, index - 1), after, second, third, names_something, classes)


def _at(texts: Sequence[str], place: int) -> str:
    """The word at a place; nothing at a pause or beyond an end."""
    return texts[place] if 0 <= place < len(texts) and texts[place] != PAUSE else ""


def _as_written(letters: str, phonemes: str) -> str:
    """A reading by the letters with the glide of -āyi (صدایی) and the ending of the present (می‌خواند mixɑnæd)."""
    if letters.endswith("ایی") and phonemes.endswith("ɑi"):
        return f"{phonemes[:-1]}ji"
    if VERB_PREFIX.match(letters) and letters.endswith("اند") and phonemes.endswith("ɑnd"):
        return f"{phonemes[:-1]}æd"
    return phonemes


def _ends_in_ezafe(letters: str, phonemes: str) -> bool:
    """Whether a reading has a final -e that no letter writes (مثل mesle), or one with a written glide (برای)."""
    return phonemes.endswith("je") if letters[-1] == "ی" else phonemes.endswith("e") and letters[-1] != "ه"


def words_and_pauses(line: Line) -> list[str]:
    """Words without diacritics and pauses, in order."""
    items: list[str] = []
    for word in line.words:
        items.append(line.text_of(word))
        if word.end < len(line.letters) and line.letters[word.end] == PAUSE:
            items.append(PAUSE)
    return items


def mark_array(line: Line) -> np.ndarray:
    """(letters, marks) bool."""
    bits = np.array(line.marks, np.int64)[:, None]
    return (bits >> np.arange(len(MARKS))) & 1 == 1


def _stressed(letters: str, phonemes: str, has_ezafe: bool) -> str:
    """Stress on the last syllable before ezafe and clitics, or on the prefix of a verb; none on particles."""
    if letters in _UNSTRESSED:
        return phonemes
    places = [place for place, phoneme in enumerate(phonemes) if phoneme in PERSIAN_VOWELS]
    if not places:
        return phonemes
    if VERB_PREFIX.match(letters):
        place = places[0]
    else:
        skipped = int(has_ezafe) + int(bool(_CLITIC.search(letters)))
        place = places[max(0, len(places) - 1 - skipped)]
    return f"{phonemes[:place]}ˈ{phonemes[place:]}"


def _in_inventory(phonemes: str) -> str:
    for symbol, pair in AFFRICATES.items():
        phonemes = phonemes.replace(symbol, pair)
    return phonemes
