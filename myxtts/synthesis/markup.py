"""Marks in a text that is to be spoken: pauses, phonemes, and a subset of SSML 1.1.

In any text: `[pause:0.5s]`, `[pause:300ms]`, and `[[fəˈniːmz]]` for the voice's own symbols. A text that begins with `<speak` is
SSML: speak, p, s, break (time or strength), prosody (rate), voice (name), lang, phoneme (ph), sub (alias), emphasis (level),
say-as (characters) and mark (name), whose time is in the timings; other elements are spoken as their text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from xml.etree import ElementTree

from myxtts.errors import TextError

LONGEST_PAUSE_SECONDS = 60.0
"""Longest pause of one mark, so that a number in a text cannot fill the memory. Chosen; not measured."""
LONGEST_MARK = 200
"""Characters of a mark's name."""
BREAK_SECONDS = {"none": 0.0, "x-weak": 0.1, "weak": 0.2, "medium": 0.4, "strong": 0.8, "x-strong": 1.2}
"""Seconds of `<break strength>`."""
RATES = {"x-slow": 0.5, "slow": 0.75, "medium": 1.0, "default": 1.0, "fast": 1.25, "x-fast": 1.75}
"""Values of `<prosody rate>`."""
EMPHASIS_SPEEDS = {"strong": 0.8, "moderate": 0.9, "none": 1.0, "reduced": 1.1}
"""Speeds of `<emphasis level>`: emphasis is slower speech."""
SLOWEST, FASTEST = 0.25, 4.0
_MARK = re.compile(r"\[pause:([^\[\]]{0,100})\]|\[\[([^\[\]]{1,500})\]\]", re.IGNORECASE)
_DECLARATION = re.compile(r"\A\s*<\?xml\b[^<>]*\?>")
_TIME = re.compile(r"\s*([0-9]{1,12}(?:\.[0-9]{1,12})?|\.[0-9]{1,12})\s*(ms|s)\s*", re.IGNORECASE)
_PERCENT = re.compile(r"\s*([+-]?)([0-9]{1,4}(?:\.[0-9]{1,2})?)%\s*")


@dataclass(frozen=True)
class Style:
    """How a part of a text is spoken; None is what the caller chose."""

    speed: float = 1.0
    """Factor on the caller's speed."""
    language: str | None = None
    speaker: str | None = None


@dataclass(frozen=True)
class SpokenText:
    """A part of a text."""

    text: str
    style: Style = Style()
    is_phonemes: bool = False
    """Whether the text is symbols of the voice and not written words."""


@dataclass(frozen=True)
class Break:
    """Silence inside a text, in place of the pause that would be there."""

    seconds: float


@dataclass(frozen=True)
class Paragraph:
    """The end of a sentence or paragraph, whatever mark is before it."""


@dataclass(frozen=True)
class Mark:
    """A place in the text whose time is asked for (`<mark name>`)."""

    name: str


Part = SpokenText | Break | Paragraph | Mark


def parse_markup(text: str) -> list[Part]:
    """The parts of a text in order; a `TextError` for SSML that is not well formed."""
    text = _DECLARATION.sub("", text)
    if not text.lstrip().startswith(("<speak", "<!DOCTYPE speak")):
        return list(_parse_marks(text, Style()))
    if "<!" in text.replace("<![CDATA[", "").replace("<!--", ""):
        raise TextError("SSML with a document type or entities is not supported. Remove the <!DOCTYPE …>.")
    try:
        root = ElementTree.fromstring(text.strip())
    except ElementTree.ParseError as error:
        raise TextError(f"The text begins with <speak> but is not well-formed SSML: {error!s:.100}.") from None
    parts: list[Part] = []
    try:
        _walk(root, Style(), parts)
    except RecursionError:
        raise TextError("The elements of the SSML are nested too deeply. Use fewer levels.") from None
    return parts


def _parse_marks(text: str, style: Style) -> Iterator[SpokenText | Break]:
    position = 0
    for match in _MARK.finditer(text):
        yield from _spoken(text[position : match.start()], style)
        if match[2] is not None:
            yield SpokenText(match[2].strip(), style, is_phonemes=True)
        else:
            yield Break(_seconds(match[1], f"[pause:{match[1]:.20}]"))
        position = match.end()
    yield from _spoken(text[position:], style)


def _spoken(text: str, style: Style) -> Iterator[SpokenText]:
    if text.strip():
        yield SpokenText(text, style)


def _walk(element: ElementTree.Element, style: Style, parts: list[Part]) -> None:
    name = _local(element.tag)
    ends_sentence = name in ("p", "s", "speak", "paragraph", "sentence")
    inner = style
    if name == "break":
        parts.append(Break(_break_seconds(element)))
    elif name == "mark" and element.get("name"):
        parts.append(Mark(element.get("name", "")[:LONGEST_MARK]))
    elif name == "prosody":
        inner = replace(style, speed=_limited(style.speed * _rate_of(element.get("rate", "medium"))))
    elif name == "emphasis":
        inner = replace(style, speed=_limited(style.speed * EMPHASIS_SPEEDS.get(element.get("level", "moderate"), 1.0)))
    elif name == "voice" and element.get("name"):
        inner = replace(style, speaker=element.get("name"))
    language = element.get("{http://www.w3.org/XML/1998/namespace}lang")
    if language and name != "speak":
        inner = replace(inner, language=language)
    if name == "phoneme" and element.get("ph"):
        parts.append(SpokenText(element.get("ph", "").strip(), inner, is_phonemes=True))
    elif name == "sub" and element.get("alias"):
        parts.append(SpokenText(element.get("alias", ""), inner))
    elif name == "say-as" and element.get("interpret-as") in ("characters", "spell-out", "verbatim"):
        parts += _spoken(", ".join("".join("".join(element.itertext()).split())), inner)
    elif name not in ("desc", "metadata", "meta", "lexicon"):
        parts += _parse_marks(element.text or "", inner)
        for child in element:
            _walk(child, inner, parts)
            parts += _parse_marks(child.tail or "", inner)
    if ends_sentence:
        parts.append(Paragraph())


def _local(tag: object) -> str:
    """The name of an element without its namespace; comments and processing instructions have none."""
    return tag.rsplit("}", 1)[-1].lower() if isinstance(tag, str) else "desc"


def _break_seconds(element: ElementTree.Element) -> float:
    time = element.get("time")
    if time is None:
        return BREAK_SECONDS.get(element.get("strength", "medium"), BREAK_SECONDS["medium"])
    return _seconds(time, f'<break time="{time:.20}">')


def _seconds(time: str, mark: str) -> float:
    """The seconds of a time such as "300ms" or "1.5s"; `mark` is named in errors."""
    match = _TIME.fullmatch(time)
    if match is None:
        raise TextError(f'{mark} has no valid time. Expected a time such as "500ms" or "1.5s".')
    seconds = float(match[1]) / (1000 if match[2].lower() == "ms" else 1)
    if seconds > LONGEST_PAUSE_SECONDS:
        raise TextError(f"A pause lasts {LONGEST_PAUSE_SECONDS:g} s at most. Received: {mark}.")
    return seconds


def _rate_of(rate: str) -> float:
    """The speed of a rate: a word, `80%`, `+20%`, or a factor."""
    if rate in RATES:
        return RATES[rate]
    if match := _PERCENT.fullmatch(rate):
        percent = float(match[2])
        return _limited({"": percent, "+": 100 + percent, "-": 100 - percent}[match[1]] / 100)
    try:
        return _limited(float(rate))
    except ValueError:
        raise TextError(
            f'<prosody rate="{rate:.20}"> is not a valid rate. Expected a rate such as "slow", "80%" or "1.2".'
        ) from None


def _limited(speed: float) -> float:
    return min(FASTEST, max(SLOWEST, speed)) if speed == speed else 1.0
