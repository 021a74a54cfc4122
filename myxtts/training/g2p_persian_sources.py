"""Public sources for the Persian G2P as they are read from their files.

The folder is laid out as follows (sources are MIT or CC0 where nothing else is said):

    ge2pe/FarsDat.csv             sentences with phonemes and ezafe marks, github.com/Sharif-SLPL/GE2PE
    ipa-dict-fa.txt               words with IPA, github.com/open-dict-data/ipa-dict (data/fa.txt)
    common-voice/*.txt            raw sentences, github.com/common-voice/common-voice (server/data/fa)
    homorich-homographs.json      homographs with their readings and sentences, github.com/MahtaFetrat/HomoRich-G2P-Persian
    lilak-lexicon.txt             optional: words with parts of speech, github.com/b00f/lilak (src/data/lexicon; Apache 2.0)

GE2PE's Kasre and Homograph sets are for testing; nothing is trained on them.
"""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from myxtts.errors import TextError
from myxtts.text.normalize import normalize_text
from myxtts.text.persian_letters import PAUSE, PERSIAN_VOWELS, read_line

_FARSDAT = str.maketrans(
    {"/": "ɑ", "a": "æ", ".": "ʃ", ",": "ʤ", "'": "ʧ", "]": "ʔ", "[": "ʒ", "y": "j", "g": "ɡ", "\\": "", "-": " "}
)
_TEST_SETS = str.maketrans({"a": "ɑ", "/": "æ", "$": "ʃ", "j": "ʤ", "c": "ʧ", "@": "ʔ", ";": "ʒ", "y": "j", "g": "ɡ"})
_HOMORICH = str.maketrans({"A": "ɑ", "a": "æ", "S": "ʃ", "j": "ʤ", "C": "ʧ", "?": "ʔ", "Z": "ʒ", "y": "j", "g": "ɡ"})
_IPA_DICT = str.maketrans(
    {"ː": "", "ɒ": "ɑ", "ɾ": "r", "ɣ": "q", "ɢ": "q", "χ": "x", "g": "ɡ", "͡": "", "ˈ": "", "/": ""}
)
DEV_SENTENCES = 100
"""The last sentences of FarsDat, from articles of their own, for choices; never trained on."""


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


def read_ipa_dict(path: Path) -> dict[str, set[str]]:
    """word → its pronunciations in our symbols."""
    words: dict[str, set[str]] = defaultdict(set)
    for row in path.read_text(encoding="utf-8").splitlines():
        word, _, listed = row.partition("\t")
        line = read_line(normalize_text(word, "fa"))
        if len(line.words) == 1:
            for each in listed.split(","):
                spoken = each.strip().translate(_IPA_DICT).replace("tʃ", "ʧ").replace("dʒ", "ʤ")
                words[line.letters].add(re.sub(f"i(?=[{PERSIAN_VOWELS}])", "ij", spoken.replace("ow", "o")))
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
