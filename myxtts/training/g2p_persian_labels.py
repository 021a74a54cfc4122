"""Labels for the Persian letter tagger: the phonemes of each letter and the ezafe of each word.

FarsDat's sentences are aligned with their phonemes. Raw sentences get the readings of their words from FarsDat, otherwise from
espeak-ng. A letter whose phonemes are uncertain and a word whose ezafe is uncertain have no label.
"""

# ruff: noqa: SIM905 - word lists read best as words
from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from myxtts.text import phonemes as espeak
from myxtts.text.cleanup import ZWNJ
from myxtts.text.g2p import from_espeak
from myxtts.text.homographs import Reading
from myxtts.text.normalize import normalize_text
from myxtts.text.persian_letters import HAMZA, KASRA, LETTERS, PAUSE, PERSIAN_VOWELS, Line, Word, read_line
from myxtts.training.g2p_persian_sources import GoldSentence
from myxtts.training.g2p_tagger import Aligner

_HINTS = {
    letter: sounds + "æeo"
    for letter, sounds in (
        pair.split(":")
        for pair in (
            "آ:ʔɑ أ:ʔ ؤ:ʔ ئ:ʔji ء:ʔ ا:ɑʔ ب:b پ:p ت:t ث:s ج:ʤ چ:ʧ ح:h خ:x د:d ذ:z ر:r ز:z ژ:ʒ س:s ش:ʃ ص:s ض:z ط:t ظ:z "
            "ع:ʔ غ:q ف:f ق:q ک:k گ:ɡ ل:l م:m ن:n و:vu ه:h ی:ji"
        ).split()
    )
}
"""Where the alignment starts from: the usual consonants and long vowels of each letter, and any short vowel."""
_SHORT_VOWELS = "æeo"
_EZAFE = "E"
"""The vowel of the ezafe while sentences are aligned."""
_RAREST_CHUNK, _RAREST_SILENCE = 3, 0.01
"""A chunk seen less often with a letter in FarsDat, and silence below this fraction, are taken for errors of the alignment."""
_CERTAIN = 0.7
"""Below this fraction of its occurrences, the most frequent reading of a word is not taken for certain."""
_DOMINANT, _FREQUENT = 0.9, 10
"""The same for words that HomoRich lists as homographs, and how often they must occur («به» is nearly always *be*)."""
UNKNOWN = -1


@dataclass(frozen=True)
class Example:
    """A line with its labels.

    Attributes:
        chunks: phonemes of each letter, None where unknown.
        ezafe: 1, 0 or UNKNOWN for each word.
    """

    line: Line
    chunks: tuple[str | None, ...]
    ezafe: tuple[int, ...]


def align_gold(sentences: Sequence[GoldSentence]) -> tuple[list[Example], Aligner]:
    """Labels for every letter of sentences with phonemes, and the aligner that was estimated from them."""
    aligner = Aligner(_HINTS)
    aligner.fit([_gold_pair(sentence) for sentence in sentences], iterations=3)
    return _without_rare_chunks(align_with(aligner, sentences)), aligner


def align_with(aligner: Aligner, sentences: Sequence[GoldSentence]) -> list[Example]:
    """Labels for sentences with phonemes by an aligner; sentences that it cannot align are left out."""
    aligned = [(read_line(sentence.text), aligner.align(*_gold_pair(sentence))) for sentence in sentences]
    return [_example_from_chunks(line, chunks) for line, chunks in aligned if chunks is not None]


def _gold_pair(sentence: GoldSentence) -> tuple[str, str]:
    """Letters and phonemes, with the vowel of the ezafe as a symbol of its own."""
    spoken = "".join(
        word[:-1] + _EZAFE if index in sentence.ezafe and word.endswith("e") else word
        for index, word in enumerate(sentence.words)
    )
    return read_line(sentence.text).letters, spoken


def _example_from_chunks(line: Line, chunks: list[str]) -> Example:
    labels: list[str | None] = [""] * len(line.letters)
    ezafe = []
    for word in line.words:
        own = chunks[word.start : word.end]
        after = chunks[word.end] if word.end < len(chunks) else ""
        if after.strip("j" + _EZAFE):  # something of the next word was aligned with the space
            labels[word.start : word.end] = [None] * len(own)
            ezafe.append(UNKNOWN)
            continue
        has_ezafe = (own[-1] + after).endswith(_EZAFE)
        own[-1] += after
        labels[word.start : word.end] = _canonical(line.text_of(word), own, has_ezafe)
        ezafe.append(int(has_ezafe))
    return Example(line, tuple(labels), tuple(ezafe))


def _canonical(letters: str, chunks: Sequence[str], has_ezafe: bool) -> list[str]:
    """Short vowels with the consonant before them, no glottal stop at the start, the ezafe removed from the last letter."""
    chunks = list(chunks)
    if has_ezafe:
        chunks[-1] = chunks[-1].removesuffix(_EZAFE)
        glide_is_written = letters[-1] == "ی" and letters[-2:-1] in "اوآ"
        if chunks[-1].endswith("j") and not glide_is_written:
            chunks[-1] = chunks[-1][:-1]
    chunks = [chunk.replace(_EZAFE, "e") for chunk in chunks]
    for index in range(1, len(chunks)):
        before, chunk = chunks[index - 1], chunks[index]
        if (
            len(chunk) > 1
            and chunk[0] in _SHORT_VOWELS
            and chunk[1] not in PERSIAN_VOWELS
            and before
            and before[-1] not in PERSIAN_VOWELS
        ):
            chunks[index - 1], chunks[index] = before + chunk[0], chunk[1:]
    chunks[0] = chunks[0].removeprefix("ʔ")
    return chunks


def _without_rare_chunks(examples: Sequence[Example]) -> list[Example]:
    counts: Counter[tuple[str, str]] = Counter()
    for example in examples:
        counts.update(
            (letter, chunk)
            for letter, chunk in zip(example.line.letters, example.chunks, strict=True)
            if chunk is not None
        )
    totals = Counter()
    for (letter, _), count in counts.items():
        totals[letter] += count

    def is_rare(letter: str, chunk: str) -> bool:
        count = counts[letter, chunk]
        return count < _RAREST_CHUNK or (not chunk and count < _RAREST_SILENCE * totals[letter])

    cleaned = []
    for example in examples:
        chunks, ezafe = list(example.chunks), list(example.ezafe)
        for word in example.line.words:
            span = slice(word.start, word.end)
            pairs = zip(example.line.letters[span], chunks[span], strict=True)
            if any(chunk is None or is_rare(letter, chunk) for letter, chunk in pairs):
                chunks[span] = [None] * (word.end - word.start)
        cleaned.append(replace(example, chunks=tuple(chunks), ezafe=tuple(ezafe)))
    return cleaned


Chunks = tuple[str, ...]
"""One chunk per letter of a word, ezafe removed."""


def readings_of(examples: Iterable[Example]) -> dict[str, Counter[Chunks]]:
    """word → how often it was read how."""
    readings: dict[str, Counter[Chunks]] = defaultdict(Counter)
    for example in examples:
        for word in example.line.words:
            chunks = example.chunks[word.start : word.end]
            if None not in chunks:
                readings[example.line.text_of(word)][tuple(str(chunk) for chunk in chunks)] += 1
    return readings


class WordReader:
    """Readings of single words: FarsDat's, otherwise espeak-ng's where ipa-dict does not contradict it; None for homographs."""

    def __init__(
        self,
        gold: dict[str, Counter[Chunks]],
        ipa_dict: dict[str, set[str]],
        homographs: Iterable[str],
        aligner: Aligner,
        allowed: dict[str, set[str]],
    ):
        self.gold, self.ipa_dict, self.homographs = gold, ipa_dict, frozenset(homographs)
        self._aligner, self._allowed = aligner, allowed

    def read_many(self, words: Sequence[str]) -> dict[str, Chunks | None]:
        """The reading of each word, None where it is uncertain."""
        readings: dict[str, Chunks | None] = {}
        rest = []
        for word in words:
            if word in self.gold:
                readings[word] = self.certain_reading(word)
            elif word in self.homographs:
                readings[word] = None
            else:
                rest.append(word)
        for word, spoken in zip(rest, espeak.phonemize_with_espeak(rest, "fa"), strict=True):
            readings[word] = self._checked(word, _espeak_reading(spoken))
        return readings

    def certain_reading(self, word: str) -> Chunks | None:
        """FarsDat's reading of a word, if nearly all its occurrences have it; glottal stops make no difference."""
        if word not in self.gold:
            return None
        counts: Counter[str] = Counter()
        for reading, count in self.gold[word].items():
            counts["".join(reading).replace("ʔ", "")] += count
        sound, count = counts.most_common(1)[0]
        total = counts.total()
        is_certain = (
            count >= _DOMINANT * total and total >= _FREQUENT if word in self.homographs else count > _CERTAIN * total
        )
        if not is_certain:
            return None
        return next(each for each, _ in self.gold[word].most_common() if "".join(each).replace("ʔ", "") == sound)

    def _checked(self, word: str, spoken: str) -> Chunks | None:
        listed = self.ipa_dict.get(word)
        if listed and _folded(spoken) not in map(_folded, listed):
            return None
        return self.align(word, spoken)

    def align(self, word: str, spoken: str) -> Chunks | None:
        """A word's phonemes as chunks; None where they do not fit its letters."""
        if not spoken:
            return None
        chunks = self._aligner.align(word, spoken if spoken[0] not in PERSIAN_VOWELS else f"ʔ{spoken}")
        if chunks is None:
            return None
        chunks = _canonical(word, chunks, has_ezafe=False)
        if any(chunk not in self._allowed.get(letter, ()) for letter, chunk in zip(word, chunks, strict=True)):
            return None
        return tuple(chunks)


def _espeak_reading(spoken: str) -> str:
    """espeak-ng's phonemes in ours, with the glide that it omits between i and another vowel."""
    plain = re.sub("[ˈˌ ,.]", "", from_espeak(spoken, "fa")).replace("tʃ", "ʧ").replace("dʒ", "ʤ")
    return re.sub(f"i(?=[{PERSIAN_VOWELS}])", "ij", plain)


def _folded(phonemes: str) -> str:
    return re.sub(r"ʔ|(.)(?=\1)", "", phonemes)


_WRITTEN_GLIDE = f"ه{ZWNJ}ی"
"""The ezafe after a silent ه as many people write it."""
_NEVER_AFTER_EZAFE = frozenset(
    "و را از به با که است بود شد نیست هست اند هم تا یا اما اگر چون ولی باشد شده بودند شدند کرد کردند "
    "می‌شود می‌کند".split()
)
"""Before these words nothing has an ezafe."""


def certain_ezafe(line: Line) -> list[int]:
    """The ezafe of words where the spelling shows it: 1, 0 or UNKNOWN."""
    labels = []
    for index, word in enumerate(line.words):
        text = line.text_of(word)
        following = line.text_of(line.words[index + 1]) if index + 1 < len(line.words) else ""
        marks = line.marks[word.end - 1]
        is_never = following in _NEVER_AFTER_EZAFE or following.startswith(("می" + ZWNJ, "نمی" + ZWNJ))
        if marks >> KASRA & 1 or marks >> HAMZA & 1 or text.endswith(_WRITTEN_GLIDE):
            labels.append(1)
        elif not following or line.letters[word.end] == PAUSE or is_never or text.endswith("ها"):
            labels.append(0)
        elif text.endswith("های"):
            labels.append(1)
        else:
            labels.append(UNKNOWN)
    return labels


_SPELLED = re.compile(
    rf"(?<![{LETTERS}{ZWNJ}])(?:([{LETTERS}]{{2,}}[^اویهآ\W]){ZWNJ}?(ها|های)|([{LETTERS}{ZWNJ}]+ه)(?:{ZWNJ}ی|\u0654))"
    rf"(?= [{LETTERS}])"
)


def without_spelled_ezafe(text: str) -> tuple[str, dict[int, int]] | None:
    """A sentence rewritten so that its spelling no longer shows the ezafe of some words, and the ezafe of those words.

    «کتاب‌های من» becomes «کتاب من» and «خانه‌ی من» becomes «خانه من», with an ezafe; «کتاب‌ها را» becomes «کتاب را», without.
    """
    pieces, labels, position = [], {}, 0
    for match in _SPELLED.finditer(text):
        pieces += [text[position : match.start()], match[1] or match[3]]
        labels[len(read_line("".join(pieces)).words) - 1] = int(match[2] != "ها")
        position = match.end()
    if not labels:
        return None
    return "".join([*pieces, text[position:]]), labels


def label_sentences(
    sentences: Sequence[str], reader: WordReader, known: Sequence[dict[int, int]] | None = None
) -> list[Example]:
    """Raw sentences with the readings of their words and the ezafe where it is certain (or `known`, by index of the word)."""
    lines = [read_line(sentence) for sentence in sentences]
    words = {line.text_of(word) for line in lines for word in line.words}
    words = sorted(words | {word[:-2] for word in words if word.endswith(_WRITTEN_GLIDE)})
    readings = reader.read_many(words)
    examples = []
    for index, line in enumerate(lines):
        if not line.words:
            continue
        chunks: list[str | None] = [""] * len(line.letters)
        for word in line.words:
            text = line.text_of(word)
            reading = readings[text]
            if text.endswith(_WRITTEN_GLIDE):
                stem = readings.get(text[:-2])
                reading = (*stem, "", "j") if stem is not None else None
            chunks[word.start : word.end] = reading if reading is not None else [None] * (word.end - word.start)
        ezafe = certain_ezafe(line)
        for position, label in (known[index] if known else {}).items():
            ezafe[position] = label
        for word, label in zip(line.words, ezafe, strict=True):
            if (
                label == 1 and chunks[word.end - 1] == "je"
            ):  # espeak-ng speaks the ezafe of some words with a written glide
                chunks[word.end - 1] = "j"
        examples.append(Example(line, tuple(chunks), tuple(ezafe)))
    return examples


def label_homographs(homographs: dict[str, dict[str, list[str]]], reader: WordReader) -> list[Example]:
    """HomoRich's sentences with the reading of their homograph."""
    examples = []
    for word, readings in homographs.items():
        for spoken, sentences in readings.items():
            own = reader.align(word, spoken)
            if own is None:
                continue
            for example in label_sentences([normalize_text(sentence, "fa") for sentence in sentences], reader):
                chunks = list(example.chunks)
                for place in example.line.words:
                    if example.line.text_of(place) == word:
                        chunks[place.start : place.end] = own
                examples.append(replace(example, chunks=tuple(chunks)))
    return examples


def word_examples(readings: Mapping[str, Chunks | None]) -> list[Example]:
    """Single words as examples; their ezafe is unknown."""
    return [
        Example(Line(word, (0,) * len(word), (Word(0, len(word)),)), reading, (UNKNOWN,))
        for word, reading in readings.items()
        if reading is not None
    ]


def usual_readings(readings: Mapping[str, Sequence[Reading]]) -> dict[str, int]:
    """word → index of the reading that espeak-ng gives it; words that it reads in no listed way are left out."""
    words = sorted(readings)
    usual = {}
    for word, spoken in zip(words, espeak.phonemize_with_espeak(words, "fa"), strict=True):
        heard = _folded(_espeak_reading(spoken))
        listed = [_folded(reading.phonemes) for reading in readings[word]]
        if heard in listed:
            usual[word] = listed.index(heard)
    return usual
