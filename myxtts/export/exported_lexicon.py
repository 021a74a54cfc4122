"""The lexicon of an export: `word p1 p2 …` per line, for programs that have no other way from text to phonemes.

They leave out words that they do not find, so the list is long; our own front end reads every word of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice, product
from pathlib import Path

from myxtts.errors import VoiceError
from myxtts.runtime.progress import open_progress
from myxtts.synthesis.reader import open_tokenizer
from myxtts.synthesis.voice_folder import VoiceDescription
from myxtts.text import g2p
from myxtts.text.cleanup import base_language
from myxtts.text.english_numbers import cardinal
from myxtts.text.pauses import WORD_BOUNDARY
from myxtts.text.rules import roman_value
from myxtts.text.tokenizer import Tokenizer

WORDS_AT_ONCE = 2000
"""Words that are phonemized before progress is reported."""
CONSONANTS = frozenset("bcdfghjklmnpqrstvwxz")
CONTRACTIONS = ("n't", "'re", "'ve", "'ll", "'d", "'m")
ROMAN_NUMERALS = "ii iii iv vi vii viii ix xi xii xiii xiv xv xvi xvii xviii xix xx xxi"
TITLES = {"dr": "doctor"}
"""CMUdict reads it "drive"; before a name it is the title."""


def exported_lexicon(description: VoiceDescription, folder: Path, language: str, words: Sequence[str] = ()) -> str:
    """The lexicon of a voice of phonemes; words that it cannot speak are left out.

    Args:
        description: of the voice.
        folder: of the voice.
        language: in which the words are read.
        words: as they are written; by default `frequent_words`.
    """
    given = {_key(word): word for word in words if len(word.split()) == 1} or frequent_words(language)
    if not given:
        raise VoiceError(
            f"This voice reads phonemes, so it needs a lexicon, and MyXTTS has no word list for {language!r}. Give one: "
            "--words FILE, one word per line."
        )
    tokenizer = open_tokenizer(description, folder)
    lines, pairs, done = [], iter(given.items()), 0
    with open_progress() as progress:
        while part := dict(islice(pairs, WORDS_AT_ONCE)):
            lines += _lines(tokenizer, part, language)
            done += len(part)
            progress("phonemizing words", done, len(given))
    return "".join(lines)


def frequent_words(language: str) -> dict[str, str]:
    """Words of a language, in small letters, with the text that is read for each; none without a pronunciation model of ours.

    English: CMUdict, and what it lacks: the words of `g2p.frequent_english_words`, possessives, strings of two or three
    consonants, which are read letter by letter ("NHS"), Roman numerals, and contractions without their apostrophe.
    """
    code = base_language(language)
    if not g2p.covers(code):
        return {}
    known = (g2p.english_model() if code == "en" else g2p.persian_model()).lexicon
    words = {word: word for word in known if not any(character.isspace() for character in word)}
    if code == "en":
        first, *others = g2p.frequent_english_words()
        more = {word.lower(): word for band in (first, *others) for word in band}
        names = [word for word in others[0] if word.istitle()]
        more |= {f"{word.lower()}'s": f"{word}'s" for word in (*first, *names) if not word.lower().endswith("s")}
        more |= {
            "".join(letters): "".join(letters).upper()
            for count in (2, 3)
            for letters in product(CONSONANTS, repeat=count)
        }
        more |= {word.replace("'", ""): word for word in words if word.endswith(CONTRACTIONS)}
        values = {numeral: roman_value(numeral.upper()) for numeral in ROMAN_NUMERALS.split()}
        more |= {numeral: cardinal(value) for numeral, value in values.items() if value is not None}
        words = more | words | TITLES
    return dict(sorted(words.items()))


def _key(word: str) -> str:
    return word.strip().lower().replace("’", "'")


def _lines(tokenizer: Tokenizer, words: Mapping[str, str], language: str) -> list[str]:
    """A word with an apostrophe has two lines: these programs find it only as it is written, and phones write it’s."""
    names = tokenizer.symbols.symbols
    spelled = [[names[each] for each in encoded.ids] for encoded in tokenizer.encode_many([*words.values()], language)]
    return [
        f"{form} {' '.join(sounds)}\n"
        for word, symbols in zip(words, spelled, strict=True)
        if (sounds := [each for each in symbols if each != WORD_BOUNDARY])
        for form in dict.fromkeys((word, word.replace("'", "’")))
    ]
