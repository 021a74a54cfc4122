"""English text to phonemes: CMUdict as lexicon, homographs by context, a letter tagger for all other words."""

# ruff: noqa: SIM905 - word lists read best as words
from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from myxtts.text.g2p_model import LetterTagger
from myxtts.text.homographs import HomographModel, Reading, find_rule

_UNSTRESSED = frozenset(
    "a an the and or but of to in on at by for from with as is are was were be been am has had have do does can could will "
    "would shall should must it its he she we they you i him her them us me my your his our their that than if so".split()
)
_MODALS = frozenset(
    "will would can could shall should may might must cannot won't wouldn't can't couldn't shouldn't don't doesn't didn't "
    "let's they'll we'll you'll i'll he'll she'll it'll".split()
)
_ARTICLES = frozenset("a an the my your his its their our".split())
"""Not "her", which may be an object: let her present it."""
_OBJECTS = frozenset("a an the my your his her its their our this these those it them him us me".split())
_SPELLED = frozenset("US IT UN AI WHO ID ET".split())
"""Capitals that are spelled although they have the letters of a word."""
_ADVERBS = frozenset("not never always also still then soon often".split())
_WITHOUT_STRESS = str.maketrans({"ˈ": None, "ˌ": None, "ʌ": "ə", "ɝ": "ɚ"})
VOWELS = "iɪeɛæaɑɔoʊuʌəɚɝ"
"""Vowels of the inventory of English and Persian."""
_SIBILANTS = ("s", "z", "ʃ", "ʒ")
_VOICELESS = ("p", "t", "k", "f", "θ")


@dataclass(frozen=True)
class EnglishG2P:
    """The parts of the model; see `read_words`.

    Attributes:
        tagger: letters → chunks of phonemes with stress, for words outside the lexicon.
        lexicon: word → IPA.
        homographs: words whose reading depends on the words around them.
    """

    tagger: LetterTagger
    lexicon: Mapping[str, str]
    homographs: HomographModel

    def read_words(self, words: Sequence[str]) -> list[str]:
        """IPA of each word. A mark of punctuation may stand among the words; it gives an empty string."""
        listed = [self._listed(words, index) for index in range(len(words))]
        unlisted = [word.lower().strip("'") for word, phonemes in zip(words, listed, strict=True) if phonemes is None]
        guessed = iter(self._by_letters(unlisted))
        read = [next(guessed) if phonemes is None else phonemes for phonemes in listed]
        for index, word in enumerate(words[:-1]):
            if word.lower() == "the" and read[index + 1].lstrip("ˈˌ")[:1] in VOWELS and read[index + 1]:
                read[index] = "ði"
        return read

    def _listed(self, words: Sequence[str], index: int) -> str | None:
        """The reading of a word without the tagger; None if there is none."""
        written = words[index]
        word = written.lower().strip("'") if written.lower() not in self.lexicon else written.lower()
        if not any(character.isalpha() for character in word):
            return ""
        if len(written) == 1 and written.isupper() and written not in "AI":
            return self.lexicon.get(word, "")
        if written == "A" and (self._is_among_letters(words, index) or _is_letter(words, index)):
            return "ˈeɪ"
        if written in _SPELLED and not _is_shouted(words, index):
            return one_stress_last([self.lexicon.get(letter, "") if letter != "a" else "ˈeɪ" for letter in word])
        if word in self.homographs.readings:
            return self._homograph(words, index, self.homographs.readings[word])
        known = self._known(word)
        if known is not None:
            return known.translate(_WITHOUT_STRESS) if word in _UNSTRESSED else known
        # NHS and HTML, and GPU: three letters are seldom a word that the lexicon does not have, four with a vowel often are.
        if written.isupper() and 1 < len(written) <= (3 if re.search("[AEIOUY]", written) else 5):
            return "".join(self.lexicon.get(letter, "") if letter != "a" else "ˈeɪ" for letter in word)
        return None

    def _homograph(self, words: Sequence[str], index: int, readings: Sequence[Reading]) -> str:
        """The reading by a rule, as the verb of a modal or an infinitive, as the noun of an article, or by the model."""
        rule = find_rule("en", words, index)
        if rule is not None:
            return rule.phonemes
        verbs = [each for each in readings if each.label in ("vrb", "present")]
        if len(verbs) == 1 and (_is_after_modal(words, index) or _is_infinitive(words, index)):
            return verbs[0].phonemes
        others = [each for each in readings if each not in verbs]
        if (
            [each.label for each in verbs] == ["vrb"]
            and len(others) == 1
            and index
            and words[index - 1].lower() in _ARTICLES
        ):
            return others[0].phonemes
        return self.homographs.choose(words, index).phonemes

    def _is_among_letters(self, words: Sequence[str], index: int) -> bool:
        neighbors = [words[place] for place in (index - 1, index + 1) if 0 <= place < len(words)]
        return any(len(word) == 1 and word.isupper() and word not in "AI" for word in neighbors)

    def _known(self, word: str) -> str | None:
        if word in self.lexicon:
            return self.lexicon[word]
        stem = word.removesuffix("s").removesuffix("'")
        if word.endswith(("'s", "s'")) and stem in self.lexicon:
            return with_plural(self.lexicon[stem])
        return None

    def _by_letters(self, words: Sequence[str]) -> list[str]:
        stems = [word.removesuffix("'s") for word in words]
        return [
            with_plural(phonemes) if stem != word else phonemes
            for word, stem, phonemes in zip(words, stems, self.read_letters(stems), strict=True)
        ]

    def read_letters(self, words: Sequence[str]) -> list[str]:
        """Lower-case words by their letters alone."""
        if not words:
            return []
        scores = self.tagger.run_each([self.tagger.encode(word) for word in words])
        return ["".join(one_primary_stress(each, self.tagger.tags)) for each, _ in scores]


def _is_after_modal(words: Sequence[str], index: int) -> bool:
    """Whether a word is the verb of a modal: will read, may never desert."""
    before = [word.lower() for word in words[max(0, index - 2) : index]]
    if len(before) == 2 and (before[1] in _ADVERBS or before[1].endswith("ly")):
        before.pop()
    return bool(before) and before[-1] in _MODALS


def _is_letter(words: Sequence[str], index: int) -> bool:
    """Whether a capital A inside a sentence is the letter: vitamin A is …, but once upon A Time."""
    before, after = (words[place] if 0 <= place < len(words) else "" for place in (index - 1, index + 1))
    return before[-1:].isalpha() and not after[:1].isupper()


def _is_shouted(words: Sequence[str], index: int) -> bool:
    """Whether the words next to a word are in capitals too: IT IS."""
    around = [words[place] for place in (index - 1, index + 1) if 0 <= place < len(words)]
    return any(len(word) > 1 and word.isupper() and word not in _SPELLED for word in around)


def one_stress_last(names: Sequence[str]) -> str:
    """Names of letters as one word, stressed on the last one."""
    return "".join(name.replace("ˈ", "ˌ") for name in names[:-1]) + names[-1]


def _is_infinitive(words: Sequence[str], index: int) -> bool:
    """Whether a word stands between "to" and an object: to record the song."""
    around = [words[place].lower() if 0 <= place < len(words) else "" for place in (index - 1, index + 1)]
    return around[0] == "to" and around[1] in _OBJECTS


def with_plural(phonemes: str) -> str:
    """Phonemes of a noun with the ending -s: s, z or ɪz by its last sound."""
    if phonemes.endswith(_SIBILANTS):
        return phonemes + "ɪz"
    return phonemes + ("s" if phonemes.endswith(_VOICELESS) else "z")


def one_primary_stress(scores: np.ndarray, tags: Sequence[str]) -> list[str]:
    """The best tags of a word under the condition that exactly one of them has the primary stress.

    Args:
        scores: (letters, tags).
    """
    is_primary = np.array(["ˈ" in tag for tag in tags])
    plain = np.where(is_primary, -np.inf, scores)
    stressed = np.where(is_primary, scores, -np.inf)
    gain = stressed.max(axis=-1) - plain.max(axis=-1)
    place = int(np.argmax(gain))
    best = plain.argmax(axis=-1)
    if np.isfinite(gain[place]):
        best[place] = int(stressed[place].argmax())
    return [tags[int(tag)] for tag in best]
