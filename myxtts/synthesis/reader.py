"""From a text with its marks to pieces of symbols: sentences, pauses, phonemes given by the caller.

`open_tokenizer` gives a voice the pronunciation models that it was made with.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from myxtts.errors import TextError, VoiceError
from myxtts.runtime.safe_files import read_regular_file
from myxtts.synthesis.markup import Break, Mark, Part, SpokenText, Style
from myxtts.synthesis.voice_folder import VoiceDescription
from myxtts.text import g2p
from myxtts.text.pauses import MARK_OF, PAUSE_SYMBOLS, WORD_BOUNDARY
from myxtts.text.sentences import cut_first_clause, split_sentences
from myxtts.text.tokenizer import Tokenizer
from myxtts.text.tracing import SpokenWord, TracedText

SENTENCE_ENDS = ".?!…"
LARGEST_MODEL = 64 << 20
"""Bytes of a pronunciation model."""
LONGEST_SYMBOLS = 384
"""Symbols of one piece: a long sentence. Attention costs their square."""


class Source(NamedTuple):
    """A text whose symbols are in a piece."""

    text: str
    language: str
    is_phonemes: bool
    start: int
    """Index in the piece of its first symbol; negative if that is in a piece before."""
    first_word: int
    """Index of its first written word among those of the sentence."""


class Piece(NamedTuple):
    """What is spoken at once: a sentence, or a part of a long one; without ids only a pause."""

    text: str
    ids: list[int]
    unknown: Counter[str]
    """Symbols of the text that the voice does not have."""
    seed: int
    position: int
    """Index in its text; with the seed, it decides the noise."""
    pause_seconds: float
    """Silence after it."""
    style: Style = Style()
    marks: tuple[tuple[int, str], ...] = ()
    """Names of marks, and the index of the symbol that follows each."""
    sources: tuple[Source, ...] = ()


def open_tokenizer(description: VoiceDescription, folder: Path) -> Tokenizer:
    """The tokenizer of a voice, with the pronunciation models that it was made with."""
    tokenizer = description.tokenizer()
    found = {code: g2p_file(description, code, folder) for code in description.g2p}
    files = {code: path for code, path in found.items() if path != g2p.model_path(code)}
    return replace(tokenizer, front_end=replace(tokenizer.front_end, g2p_files=files))


def g2p_file(description: VoiceDescription, code: str, folder: Path) -> Path:
    """The model of a language: that of the package if it has the hash that voice.json gives, otherwise the voice's copy."""
    shared, wanted = g2p.model_path(code), description.g2p[code]
    if shared.is_file() and g2p.model_sha256(code) == wanted:
        return shared
    path = folder / g2p_name(code)
    try:
        content = read_regular_file(path, LARGEST_MODEL)
    except OSError as error:
        raise VoiceError(
            f"The voice needs another pronunciation model for {code!r} than the one in this version of MyXTTS, and {path} "
            f"cannot be read ({error.strerror}). Copy the whole voice folder, or export the voice again."
        ) from None
    if hashlib.sha256(content).hexdigest() != wanted:
        raise VoiceError(
            f"{path} is not the file that the voice was exported with: its hash differs. Copy the voice again."
        )
    return path


def g2p_name(code: str) -> str:
    """The name of the copy of a language's model in a voice folder."""
    return f"g2p-{code}.npz"


class _Sentence(NamedTuple):
    """A sentence, or a part of one, as symbols."""

    text: str
    ids: list[int]
    unknown: Counter[str]
    style: Style
    ends_sentence: bool
    marks: tuple[tuple[int, str], ...] = ()
    """As in `Piece`."""
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True)
class Reader:
    """Reads the texts of one voice."""

    tokenizer: Tokenizer
    max_characters: int
    """Longer sentences are cut at clauses."""

    @property
    def boundaries(self) -> frozenset[int]:
        """Ids after which a piece is best cut: pauses and ends of words."""
        id_of = self.tokenizer.symbols.id_of
        return frozenset(id_of[symbol] for symbol in (WORD_BOUNDARY, *PAUSE_SYMBOLS) if symbol in id_of)

    def read(
        self, parts: list[Part], language: str, pause: float, seed: int, starts_early: bool = False
    ) -> Iterator[Piece]:
        """The pieces of a text, one when it is asked for.

        It reads one sentence ahead: a sentence that cannot be spoken leaves its unknown symbols, and its end, to its neighbor.
        Raises a `TextError` at the first piece if there is nothing to say.

        Args:
            parts: the text, from `parse_markup`.
            language: of parts that have none of their own.
            pause: seconds after a sentence; a third of it is after a part of one.
            seed: decides the noise.
            starts_early: the first clause is a piece of its own.
        """
        position, held, unknown, is_break, silence = 0, None, Counter(), False, 0.0
        waiting: list[str] = []  # marks before the next sentence
        for item in self._sentences(parts, language, starts_early):
            if isinstance(item, Mark):
                waiting.append(item.name)
                continue
            if isinstance(item, Break):
                if held is not None:
                    held, waiting = _with_last_marks(held, waiting), []
                if held is None:
                    silence += item.seconds
                else:
                    held = held._replace(pause_seconds=item.seconds + (held.pause_seconds if is_break else 0.0))
                    is_break = True
                continue
            pause_seconds = pause if item.ends_sentence else pause / 3
            if not item.ids:
                unknown += item.unknown
                waiting += [name for _, name in item.marks]
                if held is not None and item.ends_sentence and not is_break:
                    held = held._replace(pause_seconds=pause_seconds)
                continue
            if silence:
                yield Piece("", [], Counter(), seed, position, silence)
                silence = 0.0
            runs = cut_symbols(item.ids, self.boundaries, LONGEST_SYMBOLS)
            marks, start, waiting = [*((0, name) for name in waiting), *item.marks], 0, []
            for run, ids in enumerate(runs):
                if held is not None:
                    yield held
                is_last, end = run == len(runs) - 1, start + len(ids)
                held, is_break = (
                    Piece(
                        text=item.text if run == 0 else "",
                        ids=ids,
                        unknown=item.unknown + unknown if run == 0 else Counter(),
                        seed=seed,
                        position=position,
                        pause_seconds=pause_seconds if is_last else pause / 3,
                        style=item.style,
                        marks=tuple(
                            (at - start, name) for at, name in marks if start <= at < end or (is_last and at == end)
                        ),
                        sources=tuple(each._replace(start=each.start - start) for each in item.sources),
                    ),
                    False,
                )
                position, start = position + 1, end
            unknown = Counter()
        if held is None:
            raise TextError(_nothing_to_speak(parts, unknown, language))
        yield _with_last_marks(held, waiting)._replace(unknown=held.unknown + unknown)

    def _sentences(self, parts: list[Part], language: str, starts_early: bool) -> Iterator[_Sentence | Break | Mark]:
        """Sentences, breaks and marks in order. A sentence continues across marks and parts of the same style."""
        open_sentence: _Sentence | None = None
        for index, part in enumerate(parts):
            if isinstance(part, Mark):
                if open_sentence is None:
                    yield part
                else:
                    own = (*open_sentence.marks, (len(open_sentence.ids), part.name))
                    open_sentence = open_sentence._replace(marks=own)
                continue
            if not isinstance(part, SpokenText):
                if open_sentence is not None:
                    yield open_sentence
                    open_sentence = None
                yield part if isinstance(part, Break) else _Sentence("", [], Counter(), Style(), ends_sentence=True)
                continue
            if open_sentence is not None and open_sentence.style != part.style:
                yield open_sentence._replace(ends_sentence=False)
                open_sentence = None
            following = next((each for each in parts[index + 1 :] if not isinstance(each, Mark)), None)
            goes_on = isinstance(following, SpokenText) and not part.text.rstrip().endswith(tuple(SENTENCE_ENDS))
            for sentence, is_last in self._sentences_of(part, language, starts_early and index == 0):
                if open_sentence is not None:
                    sentence = self._joined(open_sentence, sentence)
                    open_sentence = None
                if goes_on and is_last:
                    open_sentence = sentence
                else:
                    yield sentence
        if open_sentence is not None:
            yield open_sentence

    def _sentences_of(self, part: SpokenText, language: str, starts_early: bool) -> Iterator[tuple[_Sentence, bool]]:
        """The sentences of a part and whether each is the last; one when it is asked for, so that a long text begins at once."""
        language = part.style.language or language
        if part.is_phonemes:
            encoded = self.tokenizer.number(self._symbols_of(part.text))
            source = (Source(part.text, language, True, 0, 0),)
            yield _Sentence(part.text, encoded.ids, encoded.unknown, part.style, True, (), source), True
            return
        pieces = split_sentences(part.text, language, self.max_characters)
        if starts_early and pieces:
            pieces = [*cut_first_clause(pieces[0]), *pieces[1:]]
        for number, piece in enumerate(pieces, start=1):
            encoded = self.tokenizer.encode(piece.text, language)
            source = (Source(piece.text, language, False, 0, 0),)
            sentence = _Sentence(piece.text, encoded.ids, encoded.unknown, part.style, piece.ends_sentence, (), source)
            yield sentence, number == len(pieces)

    def _symbols_of(self, phonemes: str) -> list[str]:
        """Phonemes as the voice has them: a letter with its mark is one symbol or two."""
        id_of = self.tokenizer.symbols.id_of
        words = WORD_BOUNDARY.join(phonemes.split())
        parts = (symbol if symbol in id_of else unicodedata.normalize("NFD", symbol) for symbol in words)
        return [symbol for part in parts for symbol in part]

    def reading_of(self, source: Source) -> TracedText:
        """How a source is read, with a word for each of its symbols."""
        if not source.is_phonemes:
            return self.tokenizer.trace(source.text, source.language)
        written = tuple(source.text.split())
        spoken = [SpokenWord(word, (index, index)) for index, word in enumerate(written)]
        symbols = [
            (symbol, index)
            for index, word in enumerate(written)
            for symbol in (*WORD_BOUNDARY, *self._symbols_of(word))
        ]
        known = [
            (symbol, None if symbol == WORD_BOUNDARY else index)
            for symbol, index in symbols[1:]
            if symbol in self.tokenizer.symbols.id_of
        ]
        return TracedText(written, spoken, [symbol for symbol, _ in known], [index for _, index in known])

    def _joined(self, first: _Sentence, second: _Sentence) -> _Sentence:
        id_of = self.tokenizer.symbols.id_of
        # The tokenizer drops a mark that begins a text: here it belongs to the words before it.
        mark = MARK_OF.get(second.text[:1], "")
        between = [id_of[symbol] for symbol in (mark, WORD_BOUNDARY) if symbol in id_of]
        text = f"{first.text}{'' if mark else ' '}{second.text}".strip()
        ids = first.ids + between + second.ids if first.ids and second.ids else first.ids or second.ids
        shift = len(ids) - len(second.ids)
        marks = (*first.marks, *((at + shift, name) for at, name in second.marks))
        num_words = len(text.split()) - len(second.text.split())
        sources = (
            *first.sources,
            *(
                each._replace(start=each.start + shift, first_word=each.first_word + num_words)
                for each in second.sources
            ),
        )
        return _Sentence(text, ids, first.unknown + second.unknown, second.style, second.ends_sentence, marks, sources)


def _with_last_marks(piece: Piece, names: list[str]) -> Piece:
    """The piece with marks after its last symbol."""
    return piece._replace(marks=(*piece.marks, *((len(piece.ids), name) for name in names)))


def styles_of(parts: list[Part]) -> set[Style]:
    """Every style that a text asks for."""
    return {part.style for part in parts if isinstance(part, SpokenText)}


def _nothing_to_speak(parts: list[Part], unknown: Counter[str], language: str) -> str:
    text = " ".join(part.text for part in parts if isinstance(part, SpokenText))
    symbols = "".join(symbol for symbol, _ in unknown.most_common(10))
    reason = f" The voice does not have the symbols {symbols!r}." if symbols else ""
    return f"There is nothing to say in {' '.join(text.split())!r:.60}: no letter that can be spoken in '{language}'.{reason}"


def cut_symbols(ids: Sequence[int], boundaries: frozenset[int], longest: int) -> list[list[int]]:
    """Ids in parts of at most `longest`, cut after a boundary (a pause, the end of a word) where there is one."""
    parts = []
    ids = list(ids)
    while len(ids) > longest:
        at = next((index + 1 for index in range(longest - 1, longest // 2, -1) if ids[index] in boundaries), longest)
        parts.append(ids[:at])
        ids = ids[at:]
    return [*parts, ids]
