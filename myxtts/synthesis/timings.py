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
from myxtts.runtime.atomic import cause_of, write_atomically
from myxtts.text.pauses import PAUSE_SYMBOLS, WORD_BOUNDARY

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


def time_symbols(symbols: Sequence[str], frames: np.ndarray, seconds: float) -> list[Timed]:
    """The symbols of a piece that lasts `seconds`, from the frames of the symbols and the blanks between them.

    Half of a blank belongs to each neighbor; the first and the last blank belong to one.
    """
    ends = np.cumsum(frames)
    middles = ends[0::2] - frames[0::2] / 2
    middles[0], middles[-1] = 0, ends[-1]
    times = (middles * (seconds / ends[-1])).tolist()
    return [Timed(symbol, *span) for symbol, span in zip(symbols, pairwise(times), strict=True)]


def time_words(symbols: Sequence[Timed], words: Sequence[str], num_spoken: Sequence[int]) -> list[Timed]:
    """The written words of a piece.

    Args:
        symbols: the symbols of the piece, with word boundaries and pauses among them.
        words: the words as they are written.
        num_spoken: spoken words of each of them: "23" is two.
    """
    spoken = [group for group in _groups(symbols) if group]
    if not spoken or not words:
        return []
    ends = np.cumsum(np.maximum(num_spoken, 0))
    if ends[-1] != len(spoken):  # a word is spoken in another way in its sentence than alone
        ends = np.round(ends * (len(spoken) / max(1, ends[-1]))).astype(int)
    timed, start = [], 0
    for word, end in zip(words, ends.tolist(), strict=True):
        if end > start:
            timed.append(Timed(word, spoken[start][0].start, spoken[end - 1][-1].end))
        start = max(start, end)
    return timed


def _groups(symbols: Sequence[Timed]) -> list[list[Timed]]:
    """The symbols of each spoken word."""
    groups: list[list[Timed]] = [[]]
    for symbol in symbols:
        if symbol.text == WORD_BOUNDARY or symbol.text in PAUSE_SYMBOLS:
            groups.append([])
        else:
            groups[-1].append(symbol)
    return groups


def count_spoken_words(symbols: Sequence[str]) -> int:
    """Spoken words in the symbols of a text."""
    return sum(1 for group in _groups([Timed(symbol, 0, 0) for symbol in symbols]) if group)


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
        words: Sequence[Timed],
        has_phonemes: bool,
        marks: Sequence[Timed] = (),
    ) -> None:
        """Append a chunk of `seconds`, the pause after it included; letters have no visemes."""
        spoken = symbols[-1].end if symbols else seconds
        entries = {
            "sentences": [Timed(text, 0.0, spoken)] if text else [],
            "words": words,
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
            raise AudioError(f"{path} cannot be written: {cause_of(error)}.", "missing") from None


def check_timings_name(path: str | Path) -> str:
    """The ending of a file for timings; an `AudioError` if it is none of the known ones."""
    ending = Path(path).suffix.lower()
    if ending not in (".json", ".srt", ".vtt"):
        raise AudioError(f"Timings are written as .json, .srt or .vtt. Received: {str(path)!r:.80}.", "missing")
    return ending


def _clock(seconds: float, separator: str) -> str:
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest // 1000:02d}{separator}{rest % 1000:03d}"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
