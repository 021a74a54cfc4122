"""Normalized English and Persian texts to IPA by our own models, without espeak-ng and without TensorFlow.

Words in the other script are read by the other language's model, in the phonemes of the text's language. Punctuation
becomes pauses as everywhere (`myxtts.text.pauses`). The models are files of `myxtts/assets/g2p`, or of a voice that was made
with other ones, loaded at first use. Readings that were checked by hand (`fa_reviewed.tsv`, `en_reviewed.tsv`) take
precedence over every model: like the rules of the normalizers they belong to the program, not to the voice.

Both languages have one inventory of IPA symbols, to which espeak-ng's symbols of both map. Every symbol is one code point in
Unicode NFD, so that a voice may mix sources and Piper and sherpa-onnx can read its symbols. Affricates are two symbols (t ʃ),
diphthongs two (a ɪ). Length is not written: it distinguishes nothing in either language here.
"""

# ruff: noqa: SIM905 - tables read best as words
from __future__ import annotations

import functools
import hashlib
import lzma
import re
import unicodedata
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from myxtts.text.cleanup import base_language
from myxtts.text.g2p_english import VOWELS, EnglishG2P
from myxtts.text.g2p_model import load_model
from myxtts.text.g2p_persian import PersianG2P
from myxtts.text.homographs import rules_path
from myxtts.text.languages import READABLE_SIGNS, is_foreign
from myxtts.text.lexicon import Lexicon
from myxtts.text.pauses import Pause, Segmenter, Span
from myxtts.text.persian_letters import LETTERS, WORD_PATTERN

MODEL_FOLDER = Path(__file__).parents[1] / "assets" / "g2p"
WORDS_PATH = MODEL_FOLDER / "en_words.txt.xz"
"""Written by `benchmarks/frequent_words.py`."""
LANGUAGES = ("en", "fa")
_CODES = {"en": "en", "en-us": "en", "fa": "fa"}
"""Languages that are read here. Other varieties of English have other sounds."""

_TOKEN = re.compile(rf"{WORD_PATTERN}|[^\W\d_](?:[^\W\d_]|['\u0300-\u036f])*|\d+")
_INITIALISM = re.compile(r"(?<![\w.])(?:[A-Za-z]\.)+[A-Za-z](?![\w])")
_ACRONYMS = frozenset("RAM ROM SIM VAR PIN LAN WAN".split())
"""Capitals that Persians read as a word; other capitals they spell (IT, US, WHO)."""
_STAND_IN = "تهران"
"""Stands for a foreign word in the Persian context: a name, before which an ezafe is possible."""
_ENGLISH_AS_PERSIAN = tuple(
    (old, new)
    for old, _, new in (
        pair.partition(":")
        for pair in (
            "eɪ:ej aɪ:ɑj oʊ:o aʊ:ɑʔu ɔɪ:oj θ:s ð:z w:v ŋk:nk ŋɡ:nɡ ŋ:nɡ ɹ:r ɪ:i ɛ:e ʌ:ɑ ə:e ɚ:er ɝ:er ɔ:o ʊ:u a:æ ˌ:"
        ).split()
    )
)
_PERSIAN_AS_ENGLISH = (("q", "ɡ"), ("x", "h"), ("ʔ", ""), ("r", "ɹ"), ("ej", "eɪ"), ("e", "ɛ"), ("o", "oʊ"))


CONSONANTS = "pbtdkɡqʔfvθðszʃʒxhmnŋlrɹjw"
"""q is Persian ق and غ; r Persian, ɹ English."""
STRESS = "ˈˌ"
INVENTORY = frozenset(CONSONANTS + VOWELS + STRESS)

_ESPEAK_COMMON = {"ː": "", "ˑ": "", "g": "ɡ", "̩": "", "̃": "", "ʲ": "", "ʰ": ""}
_ESPEAK_ENGLISH = {
    "l̩": "əl", "n̩": "ən", "m̩": "əm", "ɜː": "ɝ", "ɜ": "ɝ", "ɐ": "ə", "ᵻ": "ɪ", "ɾ": "t", "ʔ": "t", "ɬ": "l", "r": "ɹ",
    "x": "k", "ɒ": "ɑ", "y": "u", "ç": "h", "ɡʲ": "ɡ", "ɲ": "n", "ɣ": "ɡ", "β": "v", "ɹ̩": "ɚ", "ʍ": "w",
    "ɫ": "l",
}  # fmt: skip
_ESPEAK_PERSIAN = {
    "a": "æ", "ɒ": "ɑ", "ɾ": "r", "ɹ": "r", "ɣ": "q", "ɢ": "q", "¹": "", "²": "", "ə": "e", "ɛ": "e", "ɪ": "i", "ʊ": "u",
    "ɔ": "o", "w": "v", "ʌ": "æ", "ŋ": "n", "χ": "x", "θ": "s", "ð": "z", "ɐ": "æ", "y": "u", "ħ": "h", "ʕ": "ʔ",
    "c": "k", "ɟ": "ɡ", "β": "v", "ɚ": "er", "ɜ": "e", "ɲ": "n",
}  # fmt: skip
_FROM_ESPEAK = {"en": _ESPEAK_COMMON | _ESPEAK_ENGLISH, "fa": _ESPEAK_COMMON | _ESPEAK_PERSIAN}
_PATTERNS = {
    language: re.compile("|".join(map(re.escape, sorted(table, key=len, reverse=True))))
    for language, table in _FROM_ESPEAK.items()
}


def from_espeak(symbols: str, language: str) -> str:
    """espeak-ng's IPA of an English or Persian text in the symbols of the inventory; pauses and spaces stay."""
    table = _FROM_ESPEAK[language]
    return _PATTERNS[language].sub(lambda match: table[match[0]], symbols)


def espeak_symbols(language: str) -> dict[str, str]:
    """espeak-ng's IPA symbols of one code point that are written otherwise here → symbols of the inventory, or nothing."""
    return {symbol: ours for symbol, ours in _FROM_ESPEAK[language].items() if len(symbol) == 1}


def covers(language: str) -> bool:
    """Whether texts of a language are read by a model of ours."""
    code = _CODES.get(language.strip().lower().replace("_", "-"))
    return code is not None and model_path(code).is_file()


def model_path(code: str) -> Path:
    """The file of a language's model."""
    return MODEL_FOLDER / f"{code}.npz"


@functools.cache
def model_sha256(code: str) -> str:
    """The hash of a language's model."""
    return hashlib.sha256(model_path(code).read_bytes()).hexdigest()


def reviewed_path(code: str) -> Path:
    """The file of a language's readings that were checked by hand."""
    return MODEL_FOLDER / f"{code}_reviewed.tsv"


@functools.cache
def reviewed_readings(code: str) -> Mapping[str, str]:
    """word → phonemes as the lexicon of a language's model has them; a Persian word may have diacritics."""
    rows = reviewed_path(code).read_text(encoding="utf-8").splitlines()
    pairs = (row.split("\t")[:2] for row in rows if row and not row.startswith("#"))
    return {word: phonemes for word, phonemes in pairs}  # noqa: C416 - dict() of lists of two has no type


def frequent_english_words() -> list[list[str]]:
    """The 30,000 most frequent English words, the next 70,000, and 40,000 more, as each is usually written, without readings."""
    bands = lzma.decompress(WORDS_PATH.read_bytes()).decode().split("\n\n")
    return [band.split() for band in bands]


@functools.cache
def model_digest(code: str) -> str:
    """A short text that changes with the model, the reviewed readings and the rules of homographs, for fingerprints."""
    paths = [model_path(code), reviewed_path(code), rules_path(code)]
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:16]


def phonemize(
    texts: Sequence[str], language: str, lexicon: Lexicon | None = None, files: Mapping[str, Path] | None = None
) -> list[str]:
    """IPA of each normalized text with stress, spaces between words and pause symbols.

    Args:
        texts: normalized texts.
        language: of all of them.
        lexicon: the user's words; they take precedence over the model.
        files: models by language that replace those of the package.
    """
    segmenter = _segmenter(base_language(language))
    return [_joined(text, segmenter, _sounds(text, language, lexicon, files)) for text in texts]


def phonemize_and_count(
    text: str, language: str, lexicon: Lexicon | None = None, files: Mapping[str, Path] | None = None
) -> tuple[str, list[int]]:
    """IPA of a normalized text as `phonemize` gives it, and how many of its words belong to each word of the text."""
    sounds = _sounds(text, language, lexicon, files)
    segmenter = _segmenter(base_language(language))
    num_spoken = iter([len(sound.split()) for sound in sounds])
    counts = [len(_text_tokens(word, segmenter)) for word in text.split()]
    return _joined(text, segmenter, sounds), [sum(islice(num_spoken, count)) for count in counts]


def _sounds(text: str, language: str, lexicon: Lexicon | None, files: Mapping[str, Path] | None) -> list[str]:
    """The sounds of each word, read all at once."""
    reader = _WordReader(files or {})
    read = reader.read_persian if base_language(language) == "fa" else reader.read_english
    tokens = _text_tokens(text, _segmenter(base_language(language)), has_pauses=True)
    own = [lexicon.phonemes_of(token) if lexicon else None for token in tokens]
    sounds = [given if given is not None else sound for given, sound in zip(own, read(tokens), strict=True)]
    return [sound for token, sound in zip(tokens, sounds, strict=True) if _is_word(token)]


def _joined(text: str, segmenter: Segmenter, sounds: Sequence[str]) -> str:
    """The sounds between the pauses of their text."""
    remaining = iter(sounds)
    return segmenter.to_symbols(text, lambda span: " ".join(filter(None, (next(remaining) for _ in _tokens(span)))))


def _text_tokens(text: str, segmenter: Segmenter, has_pauses: bool = False) -> list[str]:
    tokens: list[str] = []
    for piece in segmenter.pieces(text):
        if isinstance(piece, Span):
            tokens += _tokens(piece.text)
        elif isinstance(piece, Pause) and has_pauses:
            tokens.append(piece.symbol)
    return tokens


def _tokens(span: str) -> list[str]:
    span = _INITIALISM.sub(lambda match: match[0].upper(), span)
    return [match[0] for match in _TOKEN.finditer(span) if _is_word(match[0])]


def _is_word(token: str) -> bool:
    return any(character.isalnum() for character in token)


def _is_persian(token: str) -> bool:
    return any(character in LETTERS for character in token)


class _WordReader:
    """Reads words by the models of both languages."""

    def __init__(self, files: Mapping[str, Path]):
        self._files = files

    def read_persian(self, tokens: Sequence[str]) -> list[str]:
        """Sounds of each token; pauses give none."""
        is_latin = [_is_word(token) and not _is_persian(token) for token in tokens]
        sounds = [""] * len(tokens)
        if any(is_latin):
            latin = [token if own else "," for token, own in zip(tokens, is_latin, strict=True)]
            sounds = [_replaced(sound, _ENGLISH_AS_PERSIAN) for sound in self._latin_sounds(latin)]
            known = persian_model(self._files.get("fa")).spoken
            sounds = [
                known(token.lower()) or self._spelled(token) or sound if own else ""
                for token, sound, own in zip(tokens, sounds, is_latin, strict=True)
            ]
        if any(map(_is_persian, tokens)):
            context = [_STAND_IN if own else token for token, own in zip(tokens, is_latin, strict=True)]
            read = iter(self._read_letters(" ".join(context)))
            for index, token in enumerate(tokens):
                if _is_word(token):
                    own = next(read)
                    sounds[index] = sounds[index] if is_latin[index] else own
        return sounds

    def _spelled(self, token: str) -> str:
        """A Latin letter, or two or three capitals, as the names of letters; otherwise nothing."""
        if not re.fullmatch("[A-Za-z]|[A-Z]{2,3}", token) or token in _ACRONYMS:
            return ""
        lexicon = english_model(self._files.get("en")).lexicon  # it has the word `a` for the letter
        names = ["ˈeɪ" if letter == "a" else lexicon[letter] for letter in token.lower()]
        names = [_replaced(name, _ENGLISH_AS_PERSIAN) for name in names]
        return "".join(name.replace("ˈ", "") for name in names[:-1]) + names[-1]

    def read_english(self, tokens: Sequence[str]) -> list[str]:
        """Sounds of each token; pauses give none."""
        sounds = self._latin_sounds(tokens)
        for index, token in enumerate(tokens):
            if _is_persian(token):
                sounds[index] = _replaced("".join(self._read_letters(token)), _PERSIAN_AS_ENGLISH)
        return sounds

    def _read_letters(self, text: str) -> list[str]:
        return persian_model(self._files.get("fa")).read_words(text)

    def _latin_sounds(self, tokens: Sequence[str]) -> list[str]:
        plain = [_without_accents(token) if not token.isascii() else token for token in tokens]
        sounds = english_model(self._files.get("en")).read_words(plain)
        return [token if token.isdigit() else sound for token, sound in zip(tokens, sounds, strict=True)]


def _without_accents(token: str) -> str:
    decomposed = unicodedata.normalize("NFKD", token.replace("ß", "ss").replace("æ", "ae").replace("ø", "o"))
    return "".join(character for character in decomposed if character.isascii())


def _replaced(phonemes: str, pairs: Sequence[tuple[str, str]]) -> str:
    for old, new in pairs:
        phonemes = phonemes.replace(old, new)
    return phonemes


@functools.cache
def _segmenter(language: str) -> Segmenter:
    def has_no_sound(character: str) -> bool:
        if re.fullmatch(WORD_PATTERN, character):
            return False
        return is_foreign(language, character) or character in READABLE_SIGNS

    return Segmenter(language, has_no_sound)


@functools.lru_cache(maxsize=8)
def persian_model(path: Path | None = None) -> PersianG2P:
    """The Persian model of a file (None: the bundled one), with the reviewed readings."""
    model = load_model(path or model_path("fa"))
    return PersianG2P(model.tagger, {**model.lexicon, **reviewed_readings("fa")}, model.homographs, model.ezafe)


@functools.lru_cache(maxsize=8)
def english_model(path: Path | None = None) -> EnglishG2P:
    """The English model of a file (None: the bundled one), with the reviewed readings."""
    model = load_model(path or model_path("en"))
    return EnglishG2P(model.tagger, {**model.lexicon, **reviewed_readings("en")}, model.homographs)
