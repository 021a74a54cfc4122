"""Training of the Persian pronunciation model from its public sources to the file that is used at run time.

The log-linear ezafe model is trained first and labels the ezafe of the raw sentences where it is confident; then the letter
tagger learns from all sentences and from single words.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from myxtts.text.g2p import reviewed_readings
from myxtts.text.g2p_model import G2PModel, LetterTagger
from myxtts.text.g2p_persian import mark_array, words_and_pauses
from myxtts.text.homographs import HomographModel, Reading
from myxtts.text.persian_ezafe import EzafeModel
from myxtts.text.persian_letters import ALPHABET, KASRA, MARKS, PERSIAN_VOWELS, Line, read_line
from myxtts.training.g2p_context_models import HomographExample, train_ezafe, train_homographs, with_likely_ezafe
from myxtts.training.g2p_persian_labels import (
    Example,
    WordReader,
    align_gold,
    align_with,
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
from myxtts.training.g2p_tagger import IGNORED, Labeled, TaggerSettings, build_tagger, initial_weights
from myxtts.training.g2p_task import TaggerData, TaggerRun, train_tagger

PERSIAN_SETTINGS = TaggerSettings(epochs=12, dropout=0.05)
_PER_EPOCH = {"raw": 4_500, "rewritten": 2_000, "listed_words": 12_000}
"""Examples of a source that are drawn in an epoch; of other sources all."""
_GOLD_REPEATS, _MISREAD_REPEATS = 2, 2
_FURTHER_LEARNING_RATE = 1e-3
"""For a tagger that was trained before."""
EZAFE_WEIGHT, EZAFE_THRESHOLD = 2.5, 0.0
"""Weight of the log-linear model next to the tagger's end score, and the sum above which there is an ezafe. Chosen on the dev
sentences."""
_WORDS_AT_ONCE = 256
_USUAL_SENTENCES = 12
"""Raw sentences per homograph."""
_PHONEMES = frozenset("pbtdkɡqʔfvszʃʒxhmnlrjʧʤæɑeoiu")


@dataclass(frozen=True)
class PersianExamples:
    """Labeled texts by source; see `g2p_persian`."""

    gold: list[Example]
    held_out: list[Example]
    """FarsDat's last sentences."""
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
    homograph_readings: dict[str, list[Reading]]


def prepare_persian(folder: Path, report: Callable[[str], None]) -> PersianExamples:
    """Read and align the sources."""
    report("Aligning letters and phonemes of FarsDat.")
    sentences = read_gold(folder / "ge2pe" / "FarsDat.csv")
    gold, aligner = align_gold(sentences[:-DEV_SENTENCES])
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
        held_out=align_with(aligner, sentences[-DEV_SENTENCES:]),
        raw=label_sentences(raw, reader),
        rewritten=label_sentences([text for text, _ in rewritten], reader, [known for _, known in rewritten]),
        homographs=label_homographs(homographs, reader),
        words=word_examples(reader.read_many(sorted(seen))),
        listed_words=word_examples(reader.read_many(sorted(set(classes) - seen))),
        classes=classes,
        allowed=dict(allowed),
        lexicon=build_lexicon(reader),
        homograph_readings=build_homograph_readings(homographs, reader),
    )


def train_persian(folder: Path, run: TaggerRun, start: LetterTagger | None = None) -> G2PModel:
    """The whole Persian model from the sources in `folder`; the tagger is trained from `start` or from random weights."""
    report = run.display.line
    examples = prepare_persian(folder, report)
    report("Training the ezafe model.")
    ezafe = train_persian_ezafe(examples)
    report("Training the homographs.")
    homographs = train_persian_homographs(folder, examples)
    if start is not None:
        run = replace(run, settings=further_settings(run.settings, start))
    tagger = train_tagger(persian_tagger_data(examples, ezafe, run.settings, start), run)
    lexicon = {word: phonemes for word, phonemes in examples.lexicon.items() if word not in homographs.readings}
    return G2PModel(tagger, lexicon, homographs, ezafe)


def further_settings(settings: TaggerSettings, start: LetterTagger) -> TaggerSettings:
    """For training a tagger further: its own size, and a lower learning rate."""
    channels = len(start.weights["norm_out"])
    return replace(settings, channels=channels, dilations=start.dilations, learning_rate=_FURTHER_LEARNING_RATE)


def build_lexicon(reader: WordReader) -> dict[str, str]:
    """word → phonemes: ipa-dict's words, words that have one certain reading in FarsDat, reviewed words.

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
    return lexicon | dict(reviewed_readings("fa"))


def misread_words(tagger: LetterTagger, words: Sequence[Example]) -> list[int]:
    """Indices of the words that the tagger, reading them alone, reads otherwise than their label says."""
    misread = []
    for start in range(0, len(words), _WORDS_AT_ONCE):
        part = words[start : start + _WORDS_AT_ONCE]
        scores = tagger.run_each(
            [tagger.encode(word.line.letters) for word in part], [mark_array(word.line) for word in part]
        )
        misread += [
            start + index
            for index, (word, (own, _)) in enumerate(zip(part, scores, strict=True))
            if tagger.best_tags(own) != "".join(chunk or "" for chunk in word.chunks)
        ]
    return misread


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
        items = tuple(words_and_pauses(line))
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
                items = tuple(words_and_pauses(read_line(sentence)))
                if word in items:
                    examples.append(HomographExample(items, items.index(word), spoken.index(reading.removeprefix("ʔ"))))
    return examples


def persian_tagger_data(
    examples: PersianExamples, ezafe: EzafeModel, settings: TaggerSettings, start: LetterTagger | None = None
) -> TaggerData:
    """What the tagger learns from; unknown ezafe is labeled where the log-linear model is confident."""
    tags = list(start.tags) if start else sorted(set().union(*examples.allowed.values()) | {""})
    allowed = {letter: chunks & set(tags) for letter, chunks in examples.allowed.items()}
    labeled = replace(
        examples,
        raw=[with_likely_ezafe(ezafe, example) for example in examples.raw],
        rewritten=[with_likely_ezafe(ezafe, example) for example in examples.rewritten],
        homographs=[with_likely_ezafe(ezafe, example) for example in examples.homographs],
    )
    extra = {"ezafe_weight": EZAFE_WEIGHT, "ezafe_threshold": EZAFE_THRESHOLD}
    tag_of = {tag: index for index, tag in enumerate(tags)}
    return TaggerData(
        PersianTexts(labeled, tags),
        [_labeled(example, tag_of) for example in examples.held_out],
        len(MARKS),
        start.weights if start else initial_weights(settings, len(ALPHABET), len(tags), len(MARKS)),
        lambda weights: build_tagger(ALPHABET, tags, allowed, weights, settings, extra),
        is_trained=start is not None,
    )


class PersianTexts:
    """Draws the texts of each epoch; words that are misread are drawn more often."""

    def __init__(self, examples: PersianExamples, tags: Sequence[str]):
        tag_of = {tag: index for index, tag in enumerate(tags)}
        self._mark_of = np.array([_mark_of(tag) for tag in tags])
        self._sources = {
            name: [_labeled(example, tag_of) for example in getattr(examples, name)]
            for name in ("gold", "raw", "rewritten", "homographs", "words", "listed_words")
        }
        self._words = [*examples.words, *examples.listed_words]

    def find_misread(self, tagger: LetterTagger) -> np.ndarray:
        """Indices of the misread words."""
        return np.array(misread_words(tagger, self._words), np.int32)

    def draw(self, generator: np.random.Generator, misread: np.ndarray) -> list[Labeled]:
        """All of the small sources and a part of the large ones, with diacritics at random."""
        drawn = list(self._sources["gold"]) * (_GOLD_REPEATS - 1)
        for name, members in self._sources.items():
            order = generator.permutation(len(members))[: _PER_EPOCH.get(name)]
            drawn += [members[index] for index in order]
        words = [*self._sources["words"], *self._sources["listed_words"]]
        drawn += [words[index] for index in misread] * _MISREAD_REPEATS
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
    return "æeo".find(tag[-1]) if len(tag) > 1 and tag[0] not in PERSIAN_VOWELS else -1


def _with_random_marks(example: Labeled, mark_of: np.ndarray, generator: np.random.Generator) -> Labeled:
    """Diacritics removed or added at random, so that the model follows them where they are written and needs none."""
    if example.marks is None:
        return example
    marks = example.marks.copy()
    if generator.random() < 0.5:
        marks[:] = False
    if generator.random() < 0.3:
        chosen = np.flatnonzero((generator.random(len(marks)) < 0.15) & (example.tags >= 0))
        chosen = chosen[mark_of[example.tags[chosen]] >= 0]
        marks[chosen, mark_of[example.tags[chosen]]] = True
        marks[(example.ends == 1) & (generator.random(len(marks)) < 0.2), KASRA] = True
    return replace(example, marks=marks)
