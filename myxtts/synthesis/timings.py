"""When each word, phoneme, viseme and mark is spoken: a timeline from the durations that the voice predicted.

Written as JSON, or as subtitles (SRT, WebVTT) with one cue per sentence.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from myxtts.errors import AudioError
from myxtts.runtime.safe_files import cause_of, write_atomically
from myxtts.text.pauses import PAUSE_SYMBOLS, WORD_BOUNDARY
from myxtts.text.tracing import Origin, TracedText

SILENCE = "sil"
VISEMES = {
    SILENCE: (WORD_BOUNDARY, *PAUSE_SYMBOLS),
    "PP": "pbmɓʙ",
    "FF": "fvɱʋɸβ",
    "TH": "θð",
    "DD": "tdɾʈɖɗʔ",
    "kk": "kgɡŋxɣqɢχʁħʕhɦcɟçʝɲ",
    "CH": "ʃʒʧʤɕʑʂʐ",
    "SS": "szʦʣ",
    "nn": "nlɫɭɳʎ",
    "RR": "rɹɻʀɽɚɝɜ",
    "aa": "aɑɐʌæɒɶ",
    "E": "eɛəɘɞø",
    "ih": "iɪyʏjɨᵻœ",
    "oh": "oɔɤ",
    "ou": "uʊwɯʍʉ",
}
"""The 15 visemes of the Oculus lip-sync library, and the sounds of each in the International Phonetic Alphabet."""
_VISEME_OF = {symbol: viseme for viseme, symbols in VISEMES.items() for symbol in symbols}


class Timed(NamedTuple):
    """A symbol, word, viseme or sentence, and its seconds from the start of the speech."""

    text: str
    start: float
    end: float

    def moved(self, seconds: float) -> Timed:
        """The same, later."""
        return Timed(self.text, self.start + seconds, self.end + seconds)


class TimedWord(NamedTuple):
    """A written word, or several that are spoken as one ("1 000"), in seconds from the start of the speech."""

    text: str
    start: float
    end: float
    index: int
    """Index of the first written word in its sentence."""
    spoken: str
    """As it is read aloud: "fourth" for the 4 of a date."""
    phonemes: str


def time_symbols(symbols: Sequence[str], frames: np.ndarray, seconds: float) -> list[Timed]:
    """The symbols of a piece that lasts `seconds`, from the frames of the symbols and the blanks between them.

    Half of a blank belongs to each neighbor; the first and the last blank belong to one.
    """
    ends = np.cumsum(frames)
    middles = ends[0::2] - frames[0::2] / 2
    middles[0], middles[-1] = 0, ends[-1]
    times = (middles * (seconds / ends[-1])).tolist()
    return [Timed(symbol, *span) for symbol, span in zip(symbols, pairwise(times), strict=True)]


def time_words(symbols: Sequence[Timed], reading: TracedText, start: int = 0, first_word: int = 0) -> list[TimedWord]:
    """The written words of a text in the order in which they are spoken: "May", "4", "2021" for `4 May 2021`.

    Every written word is in one entry at most, and every symbol of a word in one. Written words whose speech cannot be separated
    ("$5 million" is "five million dollars") are one entry.

    Args:
        symbols: the symbols of a piece.
        reading: of a text whose symbols are among them; a text may be longer than a piece.
        start: the index in `symbols` of the first symbol of the text. What begins before `symbols` was in a piece before.
        first_word: the index of the first written word.
    """
    positions: dict[int, list[int]] = {}
    for position, word in enumerate(reading.word_of):
        if word is not None:
            positions.setdefault(word, []).append(start + position)
    timed = []
    for (first, last), spoken in _units([(word, reading.spoken[word].origin) for word in positions]):
        own = [position for word in spoken for position in positions[word]]
        if 0 <= own[0] < len(symbols):
            within = [position for position in own if position < len(symbols)]
            timed.append(
                TimedWord(
                    text=" ".join(reading.written[first : last + 1]),
                    start=symbols[within[0]].start,
                    end=symbols[within[-1]].end,
                    index=first_word + first,
                    spoken=" ".join(reading.spoken[word].text for word in spoken),
                    phonemes="".join(each.text for each in symbols[within[0] : within[-1] + 1]),
                )
            )
    return timed


def _units(spoken: Sequence[tuple[int, Origin]]) -> list[tuple[tuple[int, int], list[int]]]:
    """Ranges of written words with their spoken words, in the order of speech.

    Words without an origin belong to the word before them, the first ones to the word after. Ranges that overlap, and ranges with
    another between their spoken words, are joined.
    """
    known = [origin for _, origin in spoken if origin is not None]
    if not known:
        return []
    units: list[tuple[tuple[int, int], list[int]]] = []
    origin = known[0]
    for word, own in spoken:
        origin = own or origin
        units.append((origin, [word]))
        joined = True
        while joined:
            joined = False
            for index, ((first, last), _) in enumerate(units[:-1]):
                if first <= units[-1][0][1] and units[-1][0][0] <= last:
                    ranges, words = zip(*units[index:], strict=True)
                    whole = (min(first for first, _ in ranges), max(last for _, last in ranges))
                    units[index:] = [(whole, [each for own in words for each in own])]
                    joined = True
                    break
    return units


def time_visemes(symbols: Sequence[Timed]) -> list[Timed]:
    """The visemes of phonemes; equal neighbors are joined, stress and length marks lengthen the sound next to them."""
    visemes: list[Timed] = []
    for symbol in symbols:
        viseme = _VISEME_OF.get(symbol.text)
        if visemes and viseme in (None, visemes[-1].text):
            visemes[-1] = visemes[-1]._replace(end=symbol.end)
        elif viseme is not None:
            visemes.append(Timed(viseme, visemes[-1].end if visemes else symbol.start, symbol.end))
    return visemes


class Timeline:
    """Collects the sentences, words, phonemes, visemes and marks of chunks that follow each other."""

    def __init__(self):
        self.seconds = 0.0
        self._entries: dict[str, list[Timed]] = {
            "sentences": [], "words": [], "phonemes": [], "visemes": [], "marks": []
        }  # fmt: skip

    def add(
        self,
        text: str,
        seconds: float,
        symbols: Sequence[Timed],
        words: Sequence[TimedWord],
        has_phonemes: bool,
        marks: Sequence[Timed] = (),
    ) -> None:
        """Append a chunk of `seconds`, the pause after it included; letters have no visemes."""
        spoken = symbols[-1].end if symbols else seconds
        entries = {
            "sentences": [Timed(text, 0.0, spoken)] if text else [],
            "words": [Timed(each.text, each.start, each.end) for each in words],
            "phonemes": [symbol for symbol in symbols if symbol.text != WORD_BOUNDARY],
            "visemes": time_visemes(symbols) if has_phonemes else [],
            "marks": marks,
        }
        for name, timed in entries.items():
            self._entries[name] += [each.moved(self.seconds) for each in timed]
        self.seconds += seconds

    def to_json(self) -> str:
        """`{"seconds": …, "words": [{"word": …, "start": …, "end": …}], …}`, seconds to the millisecond."""
        content: dict = {"seconds": round(self.seconds, 3)}
        for name, entries in self._entries.items():
            content[name] = [
                {name.removesuffix("s"): each.text, "start": round(each.start, 3), "end": round(each.end, 3)}
                for each in entries
            ]
        return json.dumps(content, ensure_ascii=False, indent=1) + "\n"

    def to_srt(self) -> str:
        """SubRip subtitles, one cue per sentence."""
        cues = enumerate(self._entries["sentences"], start=1)
        return "".join(
            f"{number}\n{_clock(each.start, ',')} --> {_clock(each.end, ',')}\n{each.text}\n\n" for number, each in cues
        )

    def to_vtt(self) -> str:
        """WebVTT subtitles, one cue per sentence."""
        cues = (
            f"{_clock(each.start, '.')} --> {_clock(each.end, '.')}\n{_escaped(each.text)}\n\n"
            for each in self._entries["sentences"]
        )
        return "WEBVTT\n\n" + "".join(cues)

    def save(self, path: str | Path) -> None:
        """Write the timeline in the format that the file's name says (`check_timings_name`)."""
        content = {".json": self.to_json, ".srt": self.to_srt, ".vtt": self.to_vtt}[check_timings_name(path)]()
        try:
            write_atomically(path, content)
        except OSError as error:
            raise AudioError(f"{path} cannot be written: {cause_of(error)}. Name another file.", "missing") from None


def check_timings_name(path: str | Path) -> str:
    """The ending of a file for timings; an `AudioError` if it is none of the known ones."""
    ending = Path(path).suffix.lower()
    if ending not in (".json", ".srt", ".vtt"):
        raise AudioError(
            f"Expected a .json, .srt or .vtt file for the timings. Received: {str(path)!r:.80}.", "missing"
        )
    return ending


def _clock(seconds: float, separator: str) -> str:
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest // 1000:02d}{separator}{rest % 1000:03d}"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
