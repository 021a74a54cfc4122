"""Texts to token ids: `FrontEnd` gives the symbols of a text, `SymbolTable` encodes them, `Tokenizer` does both.

Token 0 is padding and token 1 the blank that the model inserts; a tokenizer emits neither. A symbol that the table lacks is
counted in `Encoded.unknown` and left out of the ids; a text in which nothing can be spoken gives no ids at all.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib.metadata
import json
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from myxtts.errors import TextError
from myxtts.text import g2p, phonemes
from myxtts.text.lexicon import Lexicon, load_lexicon
from myxtts.text.normalize import NORMALIZER_VERSION, normalize_text
from myxtts.text.pauses import PAUSE_SYMBOLS, WORD_BOUNDARY, Segmenter, is_sound, is_speakable
from myxtts.text.tracing import SpokenWord, Trace, TracedText, align_words, group_symbols

PADDING_SYMBOL, BLANK_SYMBOL = "<pad>", "<blank>"
FRONT_END_VERSION = 2
"""Raise it whenever the symbols of any text change; a cache made with another version is stale."""
MOST_SYMBOLS = 65_536

Kind = Literal["phonemes", "graphemes"]
Phonemizer = Literal["espeak", "myxtts"]
"""Who phonemizes: espeak-ng, or our own G2P for the languages that it covers and espeak-ng for others."""


@dataclass(frozen=True)
class SymbolTable:
    """The numbered symbols of a model; a symbol's id is its index, and never changes."""

    symbols: tuple[str, ...] = (PADDING_SYMBOL, BLANK_SYMBOL, WORD_BOUNDARY, *PAUSE_SYMBOLS)
    id_of: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        problem = _problem_of_symbols(self.symbols)
        if problem:
            raise TextError(f"The table of symbols cannot be used: {problem}")
        object.__setattr__(self, "id_of", {symbol: index for index, symbol in enumerate(self.symbols)})

    def __len__(self) -> int:
        return len(self.symbols)

    def extended_with(self, new_symbols: Iterable[str]) -> SymbolTable:
        """A table with the new symbols appended in sorted order; old ids stay.

        What has no sound (emoji, digits that no rule could read) is not taken in: it stays unknown and is reported.
        """
        added = sorted(symbol for symbol in set(new_symbols) - set(self.symbols) if is_speakable(symbol))
        return SymbolTable((*self.symbols, *added))

    def to_list(self) -> list[str]:
        """For JSON; `from_list` reads it back."""
        return list(self.symbols)

    @classmethod
    def from_list(cls, symbols: Any) -> SymbolTable:
        """A table from JSON that may be untrusted."""
        if not isinstance(symbols, list):
            raise TextError(f"The table of symbols must be a list of texts. Received: {type(symbols).__name__}.")
        return cls(tuple(symbols))


def _problem_of_symbols(symbols: Sequence[Any]) -> str | None:
    if not all(isinstance(symbol, str) for symbol in symbols):
        wrong = next(symbol for symbol in symbols if not isinstance(symbol, str))
        return f"every symbol must be a text. Received: {wrong!r:.60}."
    if tuple(symbols[:2]) != (PADDING_SYMBOL, BLANK_SYMBOL):
        return f"it must begin with {PADDING_SYMBOL}, {BLANK_SYMBOL}. Received: {list(symbols[:2])!r:.60}."
    if len(symbols) > MOST_SYMBOLS:
        return f"it has {len(symbols)} symbols; the maximum is {MOST_SYMBOLS}."
    for symbol, count in Counter(symbols).items():
        if count > 1:
            return f"the symbol {symbol!r:.60} is in it {count} times."
    for symbol in symbols[2:]:
        if not is_speakable(symbol):
            return f"{symbol!r:.60} is not a symbol of speech. Expected: single letters, marks and pauses."
    return None


def resolve_kind(text_symbols: str, language: str = "en") -> Kind:
    """`auto` → phonemes where our G2P covers the language or espeak-ng is installed, otherwise graphemes.

    Phonemes that nothing can make are an error.
    """
    has_phonemes = phonemes.is_installed() or (text_symbols != "espeak" and g2p.covers(language))
    if text_symbols == "auto":
        return "phonemes" if has_phonemes else "graphemes"
    if text_symbols not in ("phonemes", "espeak", "graphemes"):
        raise TextError(f"text_symbols must be auto, phonemes, espeak or graphemes. Received: {text_symbols!r}.")
    if text_symbols != "graphemes" and not has_phonemes:
        raise TextError(
            f"text_symbols: {text_symbols} needs espeak-ng for the language {language!r}, and it is not installed. "
            f"Run {phonemes.INSTALL_LINE} (GPL), or use text_symbols: graphemes."
        )
    return "graphemes" if text_symbols == "graphemes" else "phonemes"


def text_symbols_of(front_end: Mapping[str, Any]) -> str:
    """The setting `data.text_symbols` that gives the symbols of a saved front end again."""
    if front_end["kind"] == "phonemes" and front_end.get("phonemizer", "espeak") == "espeak":
        return "espeak"
    return front_end["kind"]


@dataclass(frozen=True)
class FrontEnd:
    """From written text to symbols of speech. Holds no library, so it can be sent to worker processes."""

    kind: Kind
    lexicon: Lexicon | None = None
    phonemizer: Phonemizer = "espeak"
    g2p_files: Mapping[str, Path] = field(default_factory=dict, compare=False)
    """Models of a voice, by language, that replace those of the package."""

    def __post_init__(self):
        if self.phonemizer not in ("espeak", "myxtts"):
            raise TextError(f"phonemizer must be espeak or myxtts. Received: {self.phonemizer!r:.100}.")
        if self.kind not in ("phonemes", "graphemes"):
            raise TextError(f"The kind of a front end must be phonemes or graphemes. Received: {self.kind!r}.")
        if self.kind == "graphemes" and self.lexicon:
            raise TextError(
                "A lexicon has phonemes, but the text is read as graphemes. "
                f"Leave the lexicon out, or use phonemes: {phonemes.INSTALL_LINE}."
            )

    def symbols_of(self, texts: Sequence[str], language: str) -> list[list[str]]:
        """The symbols of each text; every symbol is one character, a combining mark is a symbol of its own."""
        return self._symbols([normalize_text(text, language) for text in texts], language)

    def _is_own(self, language: str) -> bool:
        return self.kind == "phonemes" and self.phonemizer == "myxtts" and g2p.covers(language)

    def _symbols(self, normalized: Sequence[str], language: str) -> list[list[str]]:
        if self.kind == "phonemes":
            if self._is_own(language):
                symbols = g2p.phonemize(normalized, language, self.lexicon, self.g2p_files)
            else:
                symbols = phonemes.phonemize_with_espeak(normalized, language, self.lexicon)
            return [list(each) for each in symbols]
        segmenter = _grapheme_segmenter(language)
        speak = _turkish_graphemes if language.split("-")[0] in ("tr", "az") else _graphemes
        return [list(segmenter.to_symbols(text, speak)) for text in normalized]

    def trace(self, text: str, language: str) -> TracedText:
        """The symbols of a text as `symbols_of` gives them, each with the word that it belongs to."""
        trace = Trace(text)
        normalized = normalize_text(text, language, trace=trace)
        words = trace.words_and_origins()
        counts: list[int] = []
        if self._is_own(language):
            phonemes, counts = g2p.phonemize_and_count(normalized, language, self.lexicon, self.g2p_files)
            symbols = list(phonemes)
        else:
            symbols = self._symbols([normalized], language)[0]
        groups = group_symbols(symbols)
        if counts and sum(counts) == len(groups):
            members = [[index] for index, count in enumerate(counts) for _ in range(count)]
        else:
            alone = [
                ["".join(symbols[start:end]) for start, end in group_symbols(symbols)]
                for symbols in self._symbols([word for word, _ in words], language)
            ]
            members = align_words(["".join(symbols[start:end]) for start, end in groups], alone)
        spoken: list[SpokenWord] = []
        word_of: list[int | None] = [None] * len(symbols)
        previous: list[int] = []
        for (start, end), own in zip(groups, members, strict=True):
            if own != previous:
                spoken.append(SpokenWord.joined([words[index] for index in own]))
            word_of[start:end] = [len(spoken) - 1] * (end - start)
            previous = own
        return TracedText(trace.words, spoken, symbols, word_of)

    def fingerprint(self) -> str:
        """A text that changes when anything changes that the symbols depend on."""
        parts = {
            "kind": self.kind,
            "front_end": FRONT_END_VERSION,
            "normalizer": NORMALIZER_VERSION,
            "num2words": importlib.metadata.version("num2words"),
            "unicode": unicodedata.unidata_version,
            "lexicon": self.lexicon.digest() if self.lexicon else None,
            "espeak": _espeak_version() if self.kind == "phonemes" and self.phonemizer == "espeak" else None,
        }
        if self.phonemizer == "myxtts":
            parts["g2p"] = {code: g2p.model_digest(code) for code in g2p.LANGUAGES if g2p.covers(code)}
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]

    def to_dict(self) -> dict[str, Any]:
        """For JSON (a voice carries its front end); `from_dict` reads it back."""
        content: dict[str, Any] = {"kind": self.kind, "lexicon": dict(self.lexicon.entries) if self.lexicon else {}}
        return content | ({"phonemizer": self.phonemizer} if self.kind == "phonemes" else {})

    @classmethod
    def from_dict(cls, content: Any) -> FrontEnd:
        """A front end from JSON that may be untrusted."""
        lexicon = content.get("lexicon") if isinstance(content, dict) else None
        is_lexicon = isinstance(lexicon, dict) and all(isinstance(value, str) for value in lexicon.values())
        if not is_lexicon or set(content) - {"phonemizer"} != {"kind", "lexicon"}:
            raise TextError(
                f"Expected a front end with a kind and a lexicon (word: phonemes). Received: {content!r:.100}."
            )
        phonemizer = content.get("phonemizer", "espeak")  # front ends of version 0.1 do not name it
        return cls(content["kind"], Lexicon(lexicon) if lexicon else None, phonemizer)


def _espeak_version() -> str:
    """The version for the fingerprint of a corpus, which can also be prepared without espeak-ng; a voice cannot be changed."""
    try:
        return phonemes.espeak_version()
    except phonemes.EspeakLoadError as error:
        raise TextError(f"{error} Or set data.text_symbols: graphemes to train on letters.") from error


def letters_notices(text_symbols: str, kind: Kind) -> tuple[str, ...]:
    """A warning where `auto` fell back to letters because the extra is missing; none where letters were asked for."""
    if text_symbols != "auto" or kind != "graphemes":
        return ()
    return (
        "Warning: espeak-ng is not installed, so the voice learns from letters instead of phonemes and will mispronounce more "
        f"words. Run {phonemes.INSTALL_LINE} (GPL). To use letters without this warning, set data.text_symbols: graphemes.",
    )


def build_front_end(text_symbols: str, lexicon: str | Path | None = None, language: str | None = None) -> FrontEnd:
    """The front end that the configuration asks for (`data.text_symbols`, `data.lexicon`, `data.language`, default en)."""
    language = language or "en"
    kind = resolve_kind(text_symbols, language)
    is_own = kind == "phonemes" and text_symbols != "espeak" and g2p.covers(language)
    entries = load_lexicon(lexicon) if lexicon is not None else None
    return FrontEnd(kind, entries, "myxtts" if is_own else "espeak")


@functools.cache
def _grapheme_segmenter(language: str) -> Segmenter:
    return Segmenter(language, lambda character: not is_speakable(character) and character not in "-‐‑/_")


def _graphemes(span: str) -> str:
    """Lower-case letters, marks and apostrophes; what joins words (hyphen, slash, inner dot) parts them."""
    lowered = unicodedata.normalize("NFC", span.lower())
    return " ".join("".join(" " if c in "-‐‑/_.,:" else c for c in lowered).split())


def _turkish_graphemes(span: str) -> str:
    return _graphemes(span.replace("I", "ı").replace("İ", "i"))


@dataclass(frozen=True)
class Encoded:
    """A text as token ids, and the symbols of it that the table lacks."""

    ids: list[int]
    unknown: Counter[str]


@dataclass(frozen=True)
class Tokenizer:
    """What a cache, a model and a voice share: the same text always gives the same ids."""

    symbols: SymbolTable
    front_end: FrontEnd

    def encode(self, text: str, language: str) -> Encoded:
        """One text. No ids if nothing in it can be spoken."""
        return self.encode_many([text], language)[0]

    def encode_many(self, texts: Sequence[str], language: str) -> list[Encoded]:
        """Many texts of one language; much faster than one by one."""
        return [self.number(symbols) for symbols in self.front_end.symbols_of(texts, language)]

    def trace(self, text: str, language: str) -> TracedText:
        """The symbols of the ids that `encode` gives, each with the word that it belongs to."""
        reading = self.front_end.trace(text, language)
        known = [index for index, symbol in enumerate(reading.symbols) if symbol in self.symbols.id_of]
        if not any(is_sound(reading.symbols[index]) for index in known):
            known = []
        return dataclasses.replace(
            reading,
            symbols=[reading.symbols[index] for index in known],
            word_of=[reading.word_of[index] for index in known],
        )

    def number(self, symbols: Sequence[str]) -> Encoded:
        """Ids of symbols that the front end gave."""
        id_of = self.symbols.id_of
        known = [symbol for symbol in symbols if symbol in id_of]
        unknown = Counter(symbol for symbol in symbols if symbol not in id_of)
        if not any(is_sound(symbol) for symbol in known):
            return Encoded([], unknown)
        return Encoded([id_of[symbol] for symbol in known], unknown)
