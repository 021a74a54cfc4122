"""Training of the Persian pronunciation model from its public sources to the file that is used at run time.

The log-linear ezafe model is trained first and labels the ezafe of the raw sentences where it is confident; then the letter
tagger learns from all sentences and from single words.
"""

# ruff: noqa: SIM905 - word lists read best as words
from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from myxtts.text.context_models import EzafeModel, HomographModel, Reading
from myxtts.text.g2p_files import G2PModel
from myxtts.text.g2p_persian import words_and_pauses
from myxtts.text.letter_tagger import LetterTagger
from myxtts.text.persian_letters import ALPHABET, KASRA, MARKS, VOWELS, Line, read_line
from myxtts.training.g2p import IGNORED, Labeled, Report, TaggerSettings, build_tagger, initial_weights, train_tagger
from myxtts.training.g2p_context_models import HomographExample, train_ezafe, train_homographs, with_likely_ezafe
from myxtts.training.g2p_persian_labels import (
    Example,
    WordReader,
    align_gold,
    label_homographs,
    label_sentences,
    readings_of,
    usual_readings,
    without_spelled_ezafe,
    word_examples,
)
from myxtts.training.g2p_persian_sources import (
    DEV_SENTENCES,
    read_classes,
    read_gold,
    read_homographs,
    read_ipa_dict,
    read_raw_sentences,
)

PERSIAN_SETTINGS = TaggerSettings(epochs=12, dropout=0.05)
_PER_EPOCH = {"raw": 4_500, "rewritten": 2_000, "listed_words": 12_000}
"""Examples of a source that are drawn in an epoch; of other sources all."""
_GOLD_REPEATS, _MISREAD_REPEATS = 2, 2
_MISREAD_EVERY = 2
"""Epochs after which misread words are searched again; reading all words takes half as long as an epoch."""
_FURTHER_LEARNING_RATE = 1e-3
"""For a tagger that was trained before."""
EZAFE_WEIGHT, EZAFE_THRESHOLD = 2.5, 0.0
"""Of the log-linear model next to the tagger's end score; the sum above which there is an ezafe. Chosen on the dev sentences."""
_USUAL_SENTENCES = 12
"""Raw sentences per homograph."""
_PHONEMES = frozenset("pbtdkɡqʔfvszʃʒxhmnlrjʧʤæɑeoiu")
_FUNCTION_WORDS = {"و": "væ", "به": "be", "برای": "bærɑje"}
"""Words at whose borders the alignment of sentences is unreliable."""
_IRREGULAR_WORDS = {
    word: phonemes
    for word, _, phonemes in (
        pair.partition(":")
        for pair in (
            "حتی:hættɑ الله:ællɑh عبدالله:æbdollɑh عیسی:isɑ موسی:musɑ یحیی:jæhjɑ مصطفی:mostæfɑ مرتضی:mortezɑ کبری:kobrɑ "
            "صغری:soqrɑ طه:tɑhɑ رحمن:ræhmɑn اسحق:eshɑq لکن:lɑken هذا:hɑzɑ بالاخره:belæxære تمبر:tæmr متوجه:motevæʤʤe "
            "شجاعت:ʃoʤɑʔæt انشاءالله:enʃɑllɑh ماشاءالله:mɑʃɑllɑh حضار:hozzɑr مطمئن:motmæʔen منتظر:montæzer محبت:mohæbbæt"
        ).split()
    )
}
"""Words that are not read as they are written, or whose chunks FarsDat does not have."""
_TANVIN = "\u064b"


@dataclass(frozen=True)
class PersianExamples:
    """Labeled texts by source; see `g2p_persian`."""

    gold: list[Example]
    raw: list[Example]
    rewritten: list[Example]
    homographs: list[Example]
    words: list[Example]
    """Every word of the sentences and of ipa-dict, alone."""
    listed_words: list[Example]
    """Words of Lilak."""
    classes: dict[str, str]
    allowed: dict[str, set[str]]
    lexicon: dict[str, str]
    adverbs: list[Line]
    homograph_readings: dict[str, list[Reading]]


def prepare_persian(folder: Path, report: Report) -> PersianExamples:
    """Read and align the sources."""
    report("Aligning letters and phonemes of FarsDat.")
    sentences = read_gold(folder / "ge2pe" / "FarsDat.csv")[:-DEV_SENTENCES]
    gold, aligner = align_gold(sentences)
    allowed: dict[str, set[str]] = defaultdict(set)
    for example in gold:
        for letter, chunk in zip(example.line.letters, example.chunks, strict=True):
            if chunk is not None:
                allowed[letter].add(chunk)
    listed = read_ipa_dict(folder / "ipa-dict-fa.txt")
    homographs = read_homographs(folder / "homorich-homographs.json")
    reader = WordReader(readings_of(gold), listed, homographs, aligner, allowed)
    raw = read_raw_sentences(folder / "common-voice")
    report(f"Reading {len(raw):,} raw sentences.")
    rewritten = [each for each in map(without_spelled_ezafe, raw) if each is not None]
    classes = read_classes(folder / "lilak-lexicon.txt")
    lines = [read_line(sentence) for sentence in raw]
    seen = {line.text_of(word) for line in lines for word in line.words} | set(listed)
    return PersianExamples(
        gold=gold,
        raw=label_sentences(raw, reader),
        rewritten=label_sentences([text for text, _ in rewritten], reader, [known for _, known in rewritten]),
        homographs=label_homographs(homographs, reader),
        words=word_examples(reader.read_many(sorted(seen))),
        listed_words=word_examples(reader.read_many(sorted(set(classes) - seen))),
        classes=classes,
        allowed=dict(allowed),
        lexicon=build_lexicon(reader),
        adverbs=marked_adverbs([*raw, *(sentence.text for sentence in sentences)]),
        homograph_readings=build_homograph_readings(homographs, reader),
    )


def train_persian(
    folder: Path, settings: TaggerSettings, report: Report, start: LetterTagger | None = None
) -> G2PModel:
    """The whole Persian model; the tagger is trained from `start` or from random weights."""
    examples = prepare_persian(folder, report)
    ezafe = train_persian_ezafe(examples)
    tagger = train_persian_tagger(examples, ezafe, settings, report, start)
    lexicon = adverb_readings(tagger, examples.adverbs) | examples.lexicon
    lexicon = {word: phonemes for word, phonemes in lexicon.items() if word not in examples.homograph_readings}
    return G2PModel(tagger, lexicon, train_persian_homographs(folder, examples), ezafe)


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


def adverb_readings(tagger: LetterTagger, adverbs: Iterable[Line]) -> dict[str, str]:
    """The tagger's readings of marked adverbs, for the same adverbs written without the mark."""
    readings = {}
    for line in adverbs:
        phonemes = _read_alone(tagger, line)
        readings[line.letters] = phonemes if phonemes.endswith("æn") else phonemes.rstrip("ɑæ") + "æn"
    return readings


def misread_words(tagger: LetterTagger, words: Iterable[Example]) -> list[int]:
    """Indices of the words that the tagger reads otherwise than their label says."""
    return [
        index
        for index, word in enumerate(words)
        if _read_alone(tagger, word.line) != "".join(chunk or "" for chunk in word.chunks)
    ]


def _read_alone(tagger: LetterTagger, line: Line) -> str:
    scores, _ = tagger.run(tagger.encode(line.letters), mark_array(line))
    return "".join(tagger.tags[tag] for tag in scores.argmax(axis=-1))


def train_persian_ezafe(examples: PersianExamples) -> EzafeModel:
    """The log-linear ezafe model; sources whose labels are less certain count less.

    A first model labels raw sentences for the second (self-training).
    """
    certain = [(examples.gold, 1.0), (examples.rewritten, 0.5)]
    first = train_ezafe([*certain, (examples.raw[::3], 0.2)], examples.classes)
    labeled = [with_likely_ezafe(first, example) for example in [*examples.raw[::2], *examples.homographs]]
    return train_ezafe([*certain, (labeled, 0.15)], examples.classes)


def build_homograph_readings(
    homographs: dict[str, dict[str, list[str]]], reader: WordReader
) -> dict[str, list[Reading]]:
    """word → its readings, for homographs without one dominant reading."""
    readings = {}
    for word, listed in homographs.items():
        aligned = {"".join(each) for each in (reader.align(word, spoken) for spoken in listed) if each is not None}
        if len(aligned) > 1 and reader.certain_reading(word) is None:
            readings[word] = [Reading(phonemes, "") for phonemes in sorted(aligned)]
    return readings


def train_persian_homographs(folder: Path, examples: PersianExamples) -> HomographModel:
    """The homograph model from HomoRich's sentences, and from raw sentences with the usual reading.

    HomoRich has as many sentences for a rare reading as for the usual one; the raw sentences restore what is usual.
    """
    homographs = read_homographs(folder / "homorich-homographs.json")
    readings = examples.homograph_readings
    sentences = persian_homograph_examples(homographs, readings)
    usual = usual_homograph_examples([example.line for example in examples.raw], readings)
    return train_homographs([*sentences, *usual], readings)


def usual_homograph_examples(
    lines: Iterable[Line], readings: Mapping[str, Sequence[Reading]]
) -> list[HomographExample]:
    """Raw sentences with homographs in the reading that espeak-ng gives them, which is the most frequent one."""
    default = usual_readings(readings)
    examples = []
    counts: Counter[str] = Counter()
    for line in lines:
        items = tuple(item for item, _ in words_and_pauses(line))
        for index, item in enumerate(items):
            if item in default and counts[item] < _USUAL_SENTENCES:
                counts[item] += 1
                examples.append(HomographExample(items, index, default[item]))
    return examples


def persian_homograph_examples(
    homographs: Mapping[str, Mapping[str, Sequence[str]]], readings: Mapping[str, Sequence[Reading]]
) -> list[HomographExample]:
    """HomoRich's sentences for the homograph model."""
    examples = []
    for word, by_reading in homographs.items():
        spoken = [reading.phonemes for reading in readings.get(word, ())]
        for reading, sentences in by_reading.items():
            if reading.removeprefix("ʔ") not in spoken:
                continue
            for sentence in sentences:
                items = tuple(item for item, _ in words_and_pauses(read_line(sentence)))
                if word in items:
                    examples.append(HomographExample(items, items.index(word), spoken.index(reading.removeprefix("ʔ"))))
    return examples


def train_persian_tagger(
    examples: PersianExamples,
    ezafe: EzafeModel,
    settings: TaggerSettings,
    report: Report,
    start: LetterTagger | None = None,
) -> LetterTagger:
    """The tagger, trained from `start` or from random weights.

    After each epoch the words that it still misreads are found; the next epoch repeats them.
    """
    tags = list(start.tags) if start else sorted(set().union(*examples.allowed.values()) | {""})
    if start is not None:
        settings = replace(
            settings,
            channels=len(start.weights["norm_out"]),
            dilations=start.dilations,
            learning_rate=_FURTHER_LEARNING_RATE,
        )
    weights = start.weights if start else initial_weights(settings, len(ALPHABET), len(tags), len(MARKS))
    report("Labeling the ezafe of the raw sentences.")
    labeled = replace(
        examples,
        raw=[with_likely_ezafe(ezafe, example) for example in examples.raw],
        rewritten=[with_likely_ezafe(ezafe, example) for example in examples.rewritten],
        homographs=[with_likely_ezafe(ezafe, example) for example in examples.homographs],
    )
    extra = {"ezafe_weight": EZAFE_WEIGHT, "ezafe_threshold": EZAFE_THRESHOLD}
    allowed = {letter: chunks & set(tags) for letter, chunks in examples.allowed.items()}
    epochs = _PersianEpochs(labeled, tags)

    def find_misread(weights: Mapping[str, np.ndarray]) -> None:
        if epochs.count % _MISREAD_EVERY == 0:
            epochs.find_misread(build_tagger(ALPHABET, tags, allowed, weights, settings, extra))
            report(f"{len(epochs.misread):,} words are misread.")

    if start is not None:
        find_misread(start.weights)
    report("Training the letter tagger.")
    weights = train_tagger(epochs.draw, weights, settings, report, find_misread)
    return build_tagger(ALPHABET, tags, allowed, weights, settings, extra)


def mark_array(line: Line) -> np.ndarray:
    """(letters, marks) bool."""
    return (np.array(line.marks, np.int64)[:, None] >> np.arange(len(MARKS))) & 1 == 1


class _PersianEpochs:
    """Draws the examples of each epoch."""

    def __init__(self, examples: PersianExamples, tags: Sequence[str]):
        tag_of = {tag: index for index, tag in enumerate(tags)}
        self._mark_of = np.array([_mark_of(tag) for tag in tags])
        self._sources = {
            name: [_labeled(example, tag_of) for example in getattr(examples, name)]
            for name in ("gold", "raw", "rewritten", "homographs", "words", "listed_words")
        }
        self._words = [*examples.words, *examples.listed_words]
        self.misread: list[int] = []
        self.count = 0

    def find_misread(self, tagger: LetterTagger) -> None:
        self.misread = misread_words(tagger, self._words)

    def draw(self, generator: np.random.Generator) -> list[Labeled]:
        self.count += 1
        drawn = list(self._sources["gold"]) * (_GOLD_REPEATS - 1)
        for name, members in self._sources.items():
            order = generator.permutation(len(members))[: _PER_EPOCH.get(name)]
            drawn += [members[index] for index in order]
        words = [*self._sources["words"], *self._sources["listed_words"]]
        drawn += [words[index] for index in self.misread] * _MISREAD_REPEATS
        return [_with_random_marks(each, self._mark_of, generator) for each in drawn]


def _labeled(example: Example, tag_of: Mapping[str, int]) -> Labeled:
    line = example.line
    ends = np.full(len(line.letters), IGNORED, np.float32)
    for word, label in zip(line.words, example.ezafe, strict=True):
        ends[word.end - 1] = label
    return Labeled(
        rows=np.array([ALPHABET.index(letter) + 1 for letter in line.letters], np.int32),
        tags=np.array([IGNORED if chunk is None else tag_of.get(chunk, IGNORED) for chunk in example.chunks], np.int32),
        ends=ends,
        marks=mark_array(line),
    )


def _mark_of(tag: str) -> int:
    """The diacritic that writes a chunk's short vowel, or -1."""
    return "æeo".find(tag[-1]) if len(tag) > 1 and tag[0] not in VOWELS else -1


def _with_random_marks(example: Labeled, mark_of: np.ndarray, generator: np.random.Generator) -> Labeled:
    """Diacritics removed or added at random, so that the model follows them where they are written and needs none."""
    assert example.marks is not None
    marks = example.marks.copy()
    if generator.random() < 0.5:
        marks[:] = False
    if generator.random() < 0.3:
        chosen = np.flatnonzero((generator.random(len(marks)) < 0.15) & (example.tags >= 0))
        chosen = chosen[mark_of[example.tags[chosen]] >= 0]
        marks[chosen, mark_of[example.tags[chosen]]] = True
        marks[(example.ends == 1) & (generator.random(len(marks)) < 0.2), KASRA] = True
    return replace(example, marks=marks)
