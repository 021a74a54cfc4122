"""Splits a text into pieces that a voice speaks at once: sentences, none longer than `max_characters`.

A sentence that is too long is cut at clauses, then between words, then inside a word; each piece records whether it ends
its sentence. Nothing is lost: the pieces joined are the text, apart from white space and markup. The time is linear in the
text's length.
"""

# ruff: noqa: SIM905 - word lists read best as words
from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from myxtts.errors import TextError
from myxtts.text.cleanup import base_language, strip_markup

MAX_CHARACTERS = 180
"""About 12 seconds of speech, and within the 200 symbols of the default `max_text_length` in most languages."""
FEWEST_CLAUSE_CHARACTERS = 20
"""Shortest clause that is spoken separately: about 1.3 s of speech, longer than computing the next piece takes."""

_ENDS = ".!?…؟۔।॥։።။፧"
_WIDE_ENDS = "。！？｡．"
_CLOSERS = "\"'”’»›)]}）」』】》〉"
_END = re.compile(
    rf"(?<![{re.escape(_ENDS)}])[{re.escape(_ENDS)}]++[{re.escape(_CLOSERS)}]*+(?=\s|\Z)|[{_WIDE_ENDS}]++[{re.escape(_CLOSERS)}]*+"
    r"|؟++(?=[^\W\d_])"
)
_PARAGRAPH = re.compile(
    r"\n[^\S\n]*+\n\s*+|[\u2028\u2029]|\n(?=[^\S\n]*+(?:(?:\d{1,2}|[^\W\d_]|الف)[.)]|[-–•*])[^\S\n])"
)
"""An empty line, or a line that begins with the marker of a list item."""
_STRONG_CLAUSE = re.compile(r"(?<=[;؛；:：—–])(?=\s)|(?<=[؛；：])")
_WEAK_CLAUSE = re.compile(r"(?<=[,،)\]])(?=\s)|(?<=[、，،])")
_SPACE = re.compile(r"\s++")
_LAST_WORD = re.compile(r"[^\s(\[\"'“‘«]*\Z")
_LOOK_BACK = 24
"""Characters before a dot that are searched for an abbreviation."""

_ABBREVIATIONS = {
    "en": "mr mrs ms dr prof st jr sr vs etc e.g i.e inc ltd co corp gen col capt lt sgt maj rev hon gov sen rep pres mt ft "
    "ave blvd rd dept a.m p.m u.s u.k ph.d al p.s p.p.s n.b rt messrs mme mlle adm cmdr cpl pvt brig supt insp amb msgr",
    "de": "dr prof hr fr nr str bzw z.b d.h u.a usw ca evtl ggf vgl abs art bd sog st",
    "fr": "m mm mme mlle dr pr st ste etc cf ex p.ex av bd no vol env",
    "es": "sr sra srta dr dra ud uds etc p.ej pág núm av avda ee.uu",
    "it": "sig sig.ra dott dott.ssa prof ecc pag es n avv ing",
    "pt": "sr sra dr dra prof etc pág av ex núm",
    "nl": "dr drs mr mevr dhr bijv enz d.w.z o.a nr blz st",
    "ru": "г гг ул д им т.е т.д т.п др пр стр рис тыс млн млрд руб см",
    "fa": "دکتر ق.م ه.ش ه.ق الف نک رک صص",
}
_ABBREVIATIONS_OF = {language: frozenset(words.split()) for language, words in _ABBREVIATIONS.items()}
_BEFORE_NUMBERS_OF = {
    "en": frozenset(
        "no nos fig figs vol approx est ext tel apt sec ch chap p pp art eq pt ver tab app ca jan feb mar apr jun jul aug sep "
        "sept oct nov dec".split()
    )
}
"""Abbreviations before a number only; elsewhere they are words (`no`, `fig`), or have nothing after them to wait for."""
_BEFORE_LETTERS = frozenset("fig vol apt sec ch art pt app".split())
"""Those whose number may be a letter or a Roman numeral: Fig. A, Vol. IV."""
_WORDS_BEFORE_LETTERS = frozenset(("art", "app"))
"""Those that are also common words, after which `A` and `I` begin a sentence: I like art. A few do not."""
_MAY_END_SENTENCE = frozenset(
    "etc usw ecc enz a.m p.m jr sr u.s u.k inc ltd co corp т.д т.п др ph.d ave rd blvd "
    "st dept gen col capt lt sgt maj rev hon gov sen rep pres mt ft al".split()
)
"""Abbreviations that a word of `_STARTERS` after them turns into the end of a sentence; a name after them does not."""
_STARTERS = frozenset(
    "the this that these it he she they we you i a an in on at but and so if when there then however "
    "his her their its my our your what who where why how which while after before".split()
)
_BEFORE_ANY_CAPITAL = frozenset("a.m p.m b.c a.d b.c.e c.e".split())
"""Abbreviations that end a sentence before any capitalized word but `_TIME_WORD`."""
_TIME_WORD = re.compile(
    r"(?:[A-Z]{2}|Mon|Tues?|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|June?|July?|Aug|Sep|Oct|Nov|Dec|Eastern|Central|Pacific)"
)
_PERSIAN_GOES_ON = re.compile(r"(?:و|ولی|اما|که|یا|تا|پس|شاید)(?!\w)")
"""Words after dots of omission that continue the sentence; Persian has no small letters that would show it."""
_PERSIAN_HESITATION = frozenset("ولی اما راستش خب خوب یعنی که و یا اگر چون مثلا پس".split())
_AFTER_QUOTE = re.compile(r"(?:و|که|را|این را|گفت|پرسید|فریاد|جواب|پاسخ|داد زد)(?![^\W_])")
"""Words after a quotation that belong to its sentence."""
_SPEECH_CLAUSE = re.compile(
    r"[^.!؟…:؛،«»]{0,30}(?<![^\W_])(?:گفت|پرسید|جواب داد|پاسخ داد|داد زد|فریاد زد|زمزمه کرد|افزود)(?:م|ی|یم|ید|ند)?\s*[.!؟…]"
)
"""What stands after a quotation that opens its sentence: «برو!» با فریاد گفت."""
_MORE_MARKS = re.compile(rf"[{re.escape(_ENDS)}]++(?:\s|\Z)")
"""A mark apart from the mark before it: . . ."""
_INITIAL_BEFORE = re.compile(r"(?:\A|[\s(\[\"'“‘«])[^\W\d_]\.\s*\Z")
_MIXED_CASE = re.compile(r"[a-z]{1,2}[A-Z]")
"""Names such as iPhone and eBay, which may begin a sentence."""
_ARABIC_SCRIPT = ("fa", "ar", "ur", "ckb", "ps")
"""Latin words in these languages are taken for English ones."""
_LIST_LOOK_BACK = 200
_FIRST_WORD = re.compile(r"[\"'“‘«(\[]*+([^\W\d_]++)(?P<dot>\.)?")
_LETTER_OR_ROMAN = re.compile(r"[(\[]?(?:[A-Z]|[IVXLC]+)\b")


class TextPiece(NamedTuple):
    """What is spoken at once: a sentence, or a part of one that was too long."""

    text: str
    ends_sentence: bool
    """Whether it is the last of its sentence, paragraph or heading, whatever mark it ends with."""


def split_sentences(text: str, language: str, max_characters: int = MAX_CHARACTERS) -> list[TextPiece]:
    """The sentences of a text, cut where they are longer than `max_characters`."""
    if max_characters < 10:
        raise TextError(f"max_characters must be at least 10. Received: {max_characters}. Try {MAX_CHARACTERS}.")
    base = base_language(language)
    pieces: list[TextPiece] = []
    for paragraph in _PARAGRAPH.split(strip_markup(text)):
        for sentence in _join_wordless(_sentences(paragraph, base)):
            *parts, last = _shorten(sentence, max_characters)
            pieces += [*(TextPiece(part, False) for part in parts), TextPiece(last, True)]
    return pieces


def cut_first_clause(piece: TextPiece) -> list[TextPiece]:
    """A sentence as its first clause and the rest, if both are long enough to be spoken apart; otherwise as it is."""
    text = piece.text
    ends = sorted(match.end() for clause in (_STRONG_CLAUSE, _WEAK_CLAUSE) for match in clause.finditer(text))
    cut = next((end for end in ends if end >= FEWEST_CLAUSE_CHARACTERS), len(text))
    if len(text) - cut < FEWEST_CLAUSE_CHARACTERS:
        return [piece]
    return [TextPiece(text[:cut].strip(), False), TextPiece(text[cut:].strip(), piece.ends_sentence)]


def _sentences(paragraph: str, language: str) -> Iterator[str]:
    start = 0
    for match in _END.finditer(paragraph):
        if _is_boundary(paragraph, start, match, language):
            yield _fold(paragraph[start : match.end()])
            start = match.end()
    yield _fold(paragraph[start:])


def _is_boundary(text: str, start: int, match: re.Match[str], language: str) -> bool:
    """Whether a mark ends the sentence that begins at `start`. A small letter after it continues the sentence; dots may
    also belong to abbreviations, initials, list items and omissions."""
    mark = match[0].rstrip(_CLOSERS)
    following = text[match.end() : match.end() + 40].lstrip()
    first = following.lstrip("\"'“‘«([¿¡")[:1]
    if first.islower() and not _MIXED_CASE.match(following):
        return False
    if not following:
        return True
    if _MORE_MARKS.match(following) or (language == "fa" and _goes_on_after_closing(text, start, match, following)):
        return False
    if mark == "…" or (len(mark) > 1 and set(mark) == {"."}):
        return not _goes_on_after_omission(text, start, match.start(), following, language)
    if mark != ".":
        return True
    word = _word_before(text, start, match.start())
    before = text[max(start, match.start() - _LIST_LOOK_BACK) : match.start() - len(word)]
    if word.isdecimal() and len(word) < 3 and _is_list_marker(int(word), before):
        return False
    if _is_initial(word, language) and word != "i" and match[0] == "." and not before.strip():
        return False  # the label of an item or a speaker: Q. What is it? A. It is a cat.
    return not _is_abbreviation(
        word, before, following, "en" if language in _ARABIC_SCRIPT and word.isascii() else language
    )


def _word_before(text: str, start: int, end: int) -> str:
    """The word that ends at `end`, in lower case."""
    last_word = _LAST_WORD.search(text, max(start, end - _LOOK_BACK), end)
    return last_word[0].lower().replace("ـ", "") if last_word else ""


def _goes_on_after_closing(text: str, start: int, match: re.Match[str], following: str) -> bool:
    """Whether a Persian sentence continues after a mark inside quotation marks or parentheses; no small letter shows it."""
    opening = text[start : start + _LOOK_BACK].lstrip()[:1]
    if match[0].endswith(")"):
        return opening != "("
    is_quotation = match[0][-1] in _CLOSERS
    return is_quotation and bool(
        _AFTER_QUOTE.match(following) or (opening in '«“"' and _SPEECH_CLAUSE.match(following))
    )


def _goes_on_after_omission(text: str, start: int, end: int, following: str, language: str) -> bool:
    """Whether a sentence continues after dots of omission: where a word is repeated, or after words of hesitation."""
    while end > start and text[end - 1].isspace():
        end -= 1
    word = _word_before(text, start, end)
    first = _FIRST_WORD.match(following)
    if word and first is not None and first[1].lower() == word:
        return True
    return language == "fa" and bool(word in _PERSIAN_HESITATION or _PERSIAN_GOES_ON.match(following))


def _is_list_marker(number: int, before: str) -> bool:
    """Whether a number with a dot begins an item: at the start, after a colon, or after the item with the number before."""
    stripped = before.rstrip()
    if not stripped or stripped.endswith(":"):
        return True
    return any(int(each) == number - 1 for each in re.findall(r"(?<![\w.])(\d{1,2})\.\s", before))


def _is_abbreviation(word: str, before: str, following: str, language: str) -> bool:
    """Whether a word before a dot is short for another, so that the dot ends no sentence.

    Args:
        word: in lower case.
        before, following: the text around the word and its dot.
        language: of the word.
    """
    first = following.lstrip("\"'“‘«([¿¡")[:1]
    if word in _BEFORE_NUMBERS_OF.get(language, ()):
        numeral = _LETTER_OR_ROMAN.match(following) if word in _BEFORE_LETTERS else None
        is_numeral = numeral is not None and not (word in _WORDS_BEFORE_LETTERS and numeral[0] in ("A", "I"))
        if first.isdigit() or first in ("+", "#") or is_numeral:
            return True
        if len(word) > 1:
            return False
    if word in _BEFORE_ANY_CAPITAL and first.isupper():
        return _TIME_WORD.match(following) is not None
    if word in _ABBREVIATIONS_OF.get(language, ()):
        return word not in _MAY_END_SENTENCE or not _starts_sentence(following)
    is_initial = _is_initial(word, language)
    if word == "i":  # a word of its own, unless another initial stands before it
        is_initial = _INITIAL_BEFORE.search(before[-4:]) is not None
    is_initialism = "." in word and all(len(part) == 1 for part in word.split("."))
    if is_initial or is_initialism:
        return not ((is_initialism or language == "en") and _starts_sentence(following))
    return False


def _is_initial(word: str, language: str) -> bool:
    return len(word) == 1 and (unicodedata.category(word) == "Ll" or (language in _ARABIC_SCRIPT and word.isalpha()))


def _starts_sentence(following: str) -> bool:
    """Whether a text begins with a word that is hardly ever a name. `A.` and `I.` are initials."""
    first = _FIRST_WORD.match(following)
    if first is None or not first[1][0].isupper() or first[1].lower() not in _STARTERS:
        return False
    return len(first[1]) > 1 or not first["dot"]


def _join_wordless(sentences: Iterable[str]) -> Iterator[str]:
    """A piece without a letter or digit (`!!`, `"`) belongs to the sentence before it; alone it is a sentence of its own."""
    held: list[str] = []
    for sentence in sentences:
        if not sentence:
            continue
        if held and any(character.isalnum() for character in sentence):
            yield " ".join(held)
            held = []
        held.append(sentence)
    if held:
        yield " ".join(held)


def _shorten(sentence: str, max_characters: int) -> list[str]:
    """A sentence as pieces within the limit, cut at the strongest boundaries that make them short enough."""
    if len(sentence) <= max_characters:
        return [sentence]
    pieces = _pack(_atoms(sentence, max_characters, (_STRONG_CLAUSE, _WEAK_CLAUSE)), max_characters)
    return [piece.strip() for piece in pieces if piece.strip()]


def _atoms(text: str, limit: int, cuts: tuple[re.Pattern[str], ...]) -> Iterator[str]:
    """Parts within the limit: clauses where they fit, otherwise runs of words; white space stays with its part."""
    if len(text) <= limit:
        yield text
    elif cuts:
        for part in _cut(text, cuts[0]):
            yield from _atoms(part, limit, cuts[1:])
    else:
        goal = min(limit, math.ceil(1.2 * len(text) / math.ceil(len(text) / limit)))  # no short rest at the end
        words = (piece for word in _cut(text, _SPACE) for piece in _chop(word, goal))
        yield from _pack(words, goal)


def _cut(text: str, boundary: re.Pattern[str]) -> Iterator[str]:
    start = 0
    for match in boundary.finditer(text):
        yield text[start : match.end()]
        start = match.end()
    yield text[start:]


def _pack(atoms: Iterable[str], goal: int) -> list[str]:
    """Neighbors joined as long as they fit."""
    packed, length, held = [], 0, []
    for atom in atoms:
        if held and length + len(atom.rstrip()) > goal:
            packed.append("".join(held))
            held, length = [], 0
        held.append(atom)
        length += len(atom)
    return [*packed, "".join(held)]


def _chop(text: str, goal: int) -> Iterator[str]:
    """A word without a boundary (or writing without spaces), never cut before a combining mark or joiner."""
    start = 0
    while start < len(text):
        end = min(start + goal, len(text))
        while start + 1 < end < len(text) and unicodedata.category(text[end]) in ("Mn", "Mc", "Me", "Cf"):
            end -= 1
        yield text[start:end]
        start = end


def _fold(text: str) -> str:
    return " ".join(text.split())
