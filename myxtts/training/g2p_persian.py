"""Examples for the Persian letter tagger from public sources: sentences with phonemes, word lists, and raw sentences.

The folder is laid out as follows (sources are MIT or CC0 where nothing else is said):

    ge2pe/FarsDat.csv             sentences with phonemes and ezafe marks, github.com/Sharif-SLPL/GE2PE
    ipa-dict-fa.txt               words with IPA, github.com/open-dict-data/ipa-dict (data/fa.txt)
    common-voice/*.txt            raw sentences, github.com/common-voice/common-voice (server/data/fa)
    homorich-homographs.json      homographs with their readings and sentences, github.com/MahtaFetrat/HomoRich-G2P-Persian
    lilak-lexicon.txt             optional: words with parts of speech, github.com/b00f/lilak (src/data/lexicon; Apache 2.0)

Raw sentences get the readings of their words from FarsDat, else from espeak-ng. A letter whose phonemes are uncertain and a word
whose ezafe is uncertain have no label. GE2PE's Kasre and Homograph sets are for testing and are not read here.
"""

# ruff: noqa: SIM905 - word lists read best as words
from __future__ import annotations

import csv
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from myxtts.errors import TextError
from myxtts.text import phonemes as espeak
from myxtts.text.context_models import Reading as HomographReading
from myxtts.text.g2p import from_espeak
from myxtts.text.normalize import normalize_text
from myxtts.text.persian import ZWNJ
from myxtts.text.persian_letters import HAMZA, KASRA, LETTERS, PAUSE, VOWELS, Line, Word, read_line
from myxtts.training.g2p_alignment import Aligner

_FARSDAT = str.maketrans(
    {"/": "ɑ", "a": "æ", ".": "ʃ", ",": "ʤ", "'": "ʧ", "]": "ʔ", "[": "ʒ", "y": "j", "g": "ɡ", "\\": "", "-": " "}
)
_TEST_SETS = str.maketrans({"a": "ɑ", "/": "æ", "$": "ʃ", "j": "ʤ", "c": "ʧ", "@": "ʔ", ";": "ʒ", "y": "j", "g": "ɡ"})
_HOMORICH = str.maketrans({"A": "ɑ", "a": "æ", "S": "ʃ", "j": "ʤ", "C": "ʧ", "?": "ʔ", "Z": "ʒ", "y": "j", "g": "ɡ"})
_IPA_DICT = str.maketrans(
    {"ː": "", "ɒ": "ɑ", "ɾ": "r", "ɣ": "q", "ɢ": "q", "χ": "x", "g": "ɡ", "͡": "", "ˈ": "", "/": ""}
)
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
_PHONEMES = frozenset("pbtdkɡqʔfvszʃʒxhmnlrjʧʤæɑeoiu")
_SHORT_VOWELS = "æeo"
_EZAFE = "E"
"""The vowel of the ezafe while sentences are aligned."""
_RAREST_CHUNK, _RAREST_SILENCE = 3, 0.01
"""A chunk seen less often with a letter in FarsDat, and silence below this fraction, are taken for errors of the alignment."""
_CERTAIN = 0.7
"""Below this fraction of its occurrences, the most frequent reading of a word is not taken for certain."""
_DOMINANT, _FREQUENT = 0.9, 10
"""The same for words that HomoRich lists as homographs, and how often they must occur («به» is nearly always *be*)."""
DEV_SENTENCES = 100
"""The last sentences of FarsDat, from articles of their own, for choices; never trained on."""

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


@dataclass(frozen=True)
class GoldSentence:
    """A sentence of GE2PE: text and phonemes of its words; ezafe and homographs marked by their index."""

    text: str
    words: tuple[str, ...]
    ezafe: frozenset[int]
    homographs: frozenset[int]


def read_gold(path: Path) -> list[GoldSentence]:
    """GE2PE's sentences. FarsDat writes its phonemes in another alphabet than the test sets."""
    alphabet = _FARSDAT if path.stem == "FarsDat" else _TEST_SETS
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        raise TextError(f"{path} cannot be read ({error.strerror}). Expected GE2PE's Data folder there.") from error
    sentences = []
    for row in rows:
        written = re.sub(r"1(2?)(?=[^\s12])", r"1\1 ", row["Phoneme"]).translate(alphabet).split()
        sentences.append(
            GoldSentence(
                row["Grapheme"].replace("|", PAUSE),  # the test sets write a comma as a bar
                tuple(word.strip("12") for word in written),
                frozenset(index for index, word in enumerate(written) if "1" in word),
                frozenset(index for index, word in enumerate(written) if "2" in word),
            )
        )
    return sentences


def align_gold(sentences: Sequence[GoldSentence]) -> tuple[list[Example], Aligner]:
    """Labels for every letter of sentences with phonemes, and the aligner that found them."""
    pairs = []
    for sentence in sentences:
        spoken = "".join(
            word[:-1] + _EZAFE if index in sentence.ezafe and word.endswith("e") else word
            for index, word in enumerate(sentence.words)
        )
        pairs.append((read_line(sentence.text).letters, spoken))
    aligner = Aligner(_HINTS)
    aligner.fit(pairs, iterations=3)
    aligned = [
        (read_line(sentence.text), aligner.align(*pair)) for sentence, pair in zip(sentences, pairs, strict=True)
    ]
    examples = [_example_from_chunks(line, chunks) for line, chunks in aligned if chunks is not None]
    return _without_rare_chunks(examples), aligner


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
            and chunk[1] not in VOWELS
            and before
            and before[-1] not in VOWELS
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


Reading = tuple[str, ...]
"""One chunk per letter of a word, ezafe removed."""


def readings_of(examples: Iterable[Example]) -> dict[str, Counter[Reading]]:
    """word → how often it was read how."""
    readings: dict[str, Counter[Reading]] = defaultdict(Counter)
    for example in examples:
        for word in example.line.words:
            chunks = example.chunks[word.start : word.end]
            if None not in chunks:
                readings[example.line.text_of(word)][tuple(str(chunk) for chunk in chunks)] += 1
    return readings


class WordReader:
    """Readings of single words: FarsDat's, else espeak-ng's where ipa-dict does not contradict it; None for homographs."""

    def __init__(
        self,
        gold: dict[str, Counter[Reading]],
        ipa_dict: dict[str, set[str]],
        homographs: Iterable[str],
        aligner: Aligner,
        allowed: dict[str, set[str]],
    ):
        self.gold, self.ipa_dict, self.homographs = gold, ipa_dict, frozenset(homographs)
        self._aligner, self._allowed = aligner, allowed

    def read_many(self, words: Sequence[str]) -> dict[str, Reading | None]:
        """The reading of each word, None where it is uncertain."""
        readings: dict[str, Reading | None] = {}
        rest = []
        for word in words:
            if word in self.gold:
                readings[word] = self.certain_reading(word)
            elif word in self.homographs:
                readings[word] = None
            else:
                rest.append(word)
        for word, spoken in zip(rest, espeak.phonemize(rest, "fa"), strict=True):
            readings[word] = self._checked(word, _espeak_reading(spoken))
        return readings

    def certain_reading(self, word: str) -> Reading | None:
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

    def _checked(self, word: str, spoken: str) -> Reading | None:
        listed = self.ipa_dict.get(word)
        if listed and _folded(spoken) not in map(_folded, listed):
            return None
        return self.align(word, spoken)

    def align(self, word: str, spoken: str) -> Reading | None:
        """A word's phonemes as chunks; None where they do not fit its letters."""
        if not spoken:
            return None
        chunks = self._aligner.align(word, spoken if spoken[0] not in VOWELS else f"ʔ{spoken}")
        if chunks is None:
            return None
        chunks = _canonical(word, chunks, has_ezafe=False)
        if any(chunk not in self._allowed.get(letter, ()) for letter, chunk in zip(word, chunks, strict=True)):
            return None
        return tuple(chunks)


def _espeak_reading(spoken: str) -> str:
    """espeak-ng's phonemes in ours, with the glide that it omits between i and another vowel."""
    plain = re.sub("[ˈˌ ,.]", "", from_espeak(spoken, "fa")).replace("tʃ", "ʧ").replace("dʒ", "ʤ")
    return re.sub(f"i(?=[{VOWELS}])", "ij", plain)


def _folded(phonemes: str) -> str:
    return re.sub(r"ʔ|(.)(?=\1)", "", phonemes)


def read_ipa_dict(path: Path) -> dict[str, set[str]]:
    """word → its pronunciations in our symbols."""
    words: dict[str, set[str]] = defaultdict(set)
    for row in path.read_text(encoding="utf-8").splitlines():
        word, _, listed = row.partition("\t")
        line = read_line(normalize_text(word, "fa"))
        if len(line.words) == 1:
            for each in listed.split(","):
                spoken = each.strip().translate(_IPA_DICT).replace("tʃ", "ʧ").replace("dʒ", "ʤ")
                words[line.letters].add(re.sub(f"i(?=[{VOWELS}])", "ij", spoken.replace("ow", "o")))
    return words


def read_homographs(path: Path) -> dict[str, dict[str, list[str]]]:
    """HomoRich: word → reading in our symbols → sentences."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return {
        read_line(word).letters: {
            reading.translate(_HOMORICH): sentences
            for reading, sentences in readings.items()
            if reading.isascii() and " " not in reading
        }
        for word, readings in content.items()
    }


def read_raw_sentences(folder: Path) -> list[str]:
    """Every different sentence of Common Voice's text files, normalized."""
    sentences = {
        row.strip() for path in sorted(folder.glob("*.txt")) for row in path.read_text(encoding="utf-8").splitlines()
    }
    return [normalize_text(sentence, "fa") for sentence in sorted(sentences) if sentence]


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


_FUNCTION_WORDS = {"و": "væ", "به": "be", "برای": "bærɑje"}
"""Words at whose borders the alignment of sentences is unreliable."""
_IRREGULAR_WORDS = dict(
    pair.split(":")
    for pair in (
        "حتی:hættɑ الله:ællɑh عبدالله:æbdollɑh عیسی:isɑ موسی:musɑ یحیی:jæhjɑ مصطفی:mostæfɑ مرتضی:mortezɑ کبری:kobrɑ صغری:soɡrɑ "
        "طه:tɑhɑ رحمن:ræhmɑn اسحق:eshɑq لکن:lɑken هذا:hɑzɑ بالاخره:belæxære تمبر:tæmr متوجه:motevæʤʤe شجاعت:ʃoʤɑʔæt "
        "انشاءالله:enʃɑllɑh ماشاءالله:mɑʃɑllɑh حضار:hozzɑr مطمئن:motmæʔen منتظر:montæzer محبت:mohæbbæt"
    ).split()
)
"""Words that are not read as they are written, or whose chunks FarsDat does not have."""
_TANVIN = "\u064b"


def build_lexicon(reader: WordReader) -> dict[str, str]:
    """word → phonemes: ipa-dict's words, words that have one certain reading in FarsDat, irregular words.

    espeak-ng's readings are labels for training and are not copied here.
    """
    lexicon = {}
    for word, listed in reader.ipa_dict.items():
        spoken = next(iter(listed)).removeprefix("ʔ")
        has_ezafe = spoken.endswith("e") and word[-1] not in "هی"
        if len(listed) == 1 and word not in reader.homographs and not has_ezafe and set(spoken) <= _PHONEMES:
            lexicon[word] = spoken
    for word in reader.gold:
        reading = reader.certain_reading(word)
        if reading is not None:
            lexicon[word] = "".join(reading)
        else:
            lexicon.pop(word, None)
    for word, spoken in lexicon.items():
        if word.endswith(("ای", "وی")) and spoken.endswith("je"):
            lexicon[word] = spoken[:-1]
    return lexicon | _FUNCTION_WORDS | _IRREGULAR_WORDS


def marked_adverbs(raw: Iterable[str]) -> list[Line]:
    """Adverbs in ‑an that some sentence writes with the mark (معمولاً); many people write them without it (معمولا)."""
    return [
        read_line(word)
        for word in sorted({each for row in raw for each in row.split()})
        if word.endswith("ا" + _TANVIN)
    ]


def build_homograph_readings(
    homographs: dict[str, dict[str, list[str]]], reader: WordReader
) -> dict[str, list[HomographReading]]:
    """word → its readings, for homographs without one dominant reading."""
    readings = {}
    for word, listed in homographs.items():
        aligned = {"".join(each) for each in (reader.align(word, spoken) for spoken in listed) if each is not None}
        if len(aligned) > 1 and reader.certain_reading(word) is None:
            readings[word] = [HomographReading(phonemes, "") for phonemes in sorted(aligned)]
    return readings


_CLASSES = {
    "verb": "v", "noun_singular": "n", "noun_plural": "N", "adjective": "a", "adverb": "d", "pronoun": "p", "numeral": "u",
    "adposition": "r", "conjunction": "c", "adjective_comparative": "A", "adjective_superlative": "S",
}  # fmt: skip


def read_classes(path: Path) -> dict[str, str]:
    """Lilak: word → its parts of speech, one letter each; empty if the file is missing."""
    if not path.is_file():
        return {}
    classes: dict[str, set[str]] = defaultdict(set)
    for row in path.read_text(encoding="utf-8").splitlines():
        word, _, rest = row.partition(",")
        line = read_line(word)
        if len(line.words) == 1 and not row.startswith("#"):
            classes[line.letters].add(_CLASSES.get(rest.partition(",")[0], "o"))
    return {word: "".join(sorted(letters)) for word, letters in classes.items()}


def word_examples(readings: Mapping[str, Reading | None]) -> list[Example]:
    """Single words as examples; their ezafe is unknown."""
    return [
        Example(Line(word, (0,) * len(word), (Word(0, len(word)),)), reading, (UNKNOWN,))
        for word, reading in readings.items()
        if reading is not None
    ]


def usual_readings(readings: Mapping[str, Sequence[HomographReading]]) -> dict[str, int]:
    """word → index of the reading that espeak-ng gives it; words that it reads in no listed way are left out."""
    words = sorted(readings)
    usual = {}
    for word, spoken in zip(words, espeak.phonemize(words, "fa"), strict=True):
        heard = _folded(_espeak_reading(spoken))
        listed = [_folded(reading.phonemes) for reading in readings[word]]
        if heard in listed:
            usual[word] = listed.index(heard)
    return usual
