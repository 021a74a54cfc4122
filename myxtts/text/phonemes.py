"""Converts normalized texts of one language to IPA by espeak-ng: phonemes, stress marks and pauses.

espeak-ng comes from wheels (`espeakng-loader`, `phonemizer`: GPL, the extra `phonemes`), so no system package is needed.
One espeak-ng per language and process is made at first use and kept; calls are locked because the library is not reentrant.
"""

from __future__ import annotations

import difflib
import functools
import importlib.util
import os
import re
import tempfile
import threading
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from myxtts.errors import TextError, install_line
from myxtts.text.languages import READABLE_SIGNS, is_foreign
from myxtts.text.lexicon import Lexicon
from myxtts.text.pauses import TONES, Segmenter


class _Speakable(dict):
    """A `str.translate` table of what espeak-ng may see: letters, marks, digits; signs on their own; nothing else.

    Other signs have no sound, and some end the process (`/-i` in Vietnamese: segmentation fault in 1.52).
    """

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if unicodedata.category(character)[0] in "LMN" or character in "'-.,:\u200c\u200d":
            self[code] = character
        else:
            self[code] = f" {character} " if character in READABLE_SIGNS else " "
        return self[code]


SPEAKABLE_BY_ESPEAK = _Speakable()


INSTALL_LINE = install_line("phonemes")

_ALIASES = {
    "en": "en-us",
    "fr": "fr-fr",
    "no": "nb",
    "nn": "nb",
    "zh": "cmn",
    "zh-cn": "cmn",
    "zh-tw": "cmn",
    "iw": "he",
    "in": "id",
    "per": "fa",
    "fas": "fa",
    "eng": "en-us",
}
"""Usual codes that espeak-ng writes otherwise. Plain `en` is American because the bundled corpus is."""

_SWITCH_FLAG = re.compile(r"\([a-z][a-zA-Z0-9-]*\)")
_LOOSE_MARK = re.compile(r"(?<!\w)[-.,:]|[-.,:](?!\w)|_")
_LONG_WORD = re.compile(r"\S{31,}")
_LONGEST_WORD_BYTES = 120
"""espeak-ng leaves out the end of a longer word."""
_FROM_ESPEAK = str.maketrans(
    {".": "\u0323", "?": "ʔ", ":": "ː", "`": "ʼ", "^": "ʲ"}
    | dict.fromkeys('_-‿\u200d"#+[]')
    | {str(digit): TONES[digit] for digit in range(10)}
)
"""A few languages have signs of espeak-ng's own alphabet left in their IPA. They must not look like the end of a sentence."""
_INITIALISM = re.compile(r"(?<![\w.])((?:[^\W\d_]\.){1,9}[^\W\d_])(?![\w.])")
"""`U.S.A`, `p.m`: espeak-ng reads them as letters only with a dot at the end, and crashes where many come in one call."""
_OTHER_DOT = re.compile(r"(?<!\d)\.|\.(?!\d)")


class EspeakLoadError(TextError):
    """espeak-ng is installed, but its library cannot be loaded."""


class _Engine:
    """One espeak-ng library set to one language."""

    def __init__(self, voice_code: str):
        self.lock = threading.Lock()
        self.segmenter = Segmenter(voice_code, functools.partial(is_foreign, voice_code))
        self._library = _new_library()
        self._library.set_voice(voice_code)

    def phonemize(self, text: str, lexicon: Lexicon | None) -> str:
        if not lexicon:
            return self.segmenter.to_symbols(text, self._speak)
        return self.segmenter.to_symbols(text, lambda span: self._speak_with(span, lexicon))

    def _speak(self, span: str) -> str:
        span = _LOOSE_MARK.sub(" ", span.translate(SPEAKABLE_BY_ESPEAK))
        if "." not in span:
            return self._call(span)
        parts = _INITIALISM.split(span)
        spoken = [
            self._call(f"{part}." if index % 2 else _OTHER_DOT.sub(" ", part)) for index, part in enumerate(parts)
        ]
        return " ".join(sound for sound in spoken if sound)

    def _call(self, words: str) -> str:
        raw = self._library.text_to_phonemes(_LONG_WORD.sub(_cut_long_word, words))
        sounds = unicodedata.normalize("NFC", _SWITCH_FLAG.sub("", raw.replace("_", ""))).translate(_FROM_ESPEAK)
        return " ".join(sounds.split())

    def _speak_with(self, span: str, lexicon: Lexicon) -> str:
        """The user's words in place, the words around them as espeak-ng says them in the whole span.

        espeak-ng joins some words ("of the"), so words are matched by position only where the counts of the parts agree
        with the count of the whole; elsewhere the parts are spoken on their own.
        """
        parts: list[tuple[str, str | None]] = []
        for token in span.split():
            word = token.strip("'-.,:*_~/&+=#@%")
            own = lexicon.phonemes_of(word) if word else None
            if own is None and parts and parts[-1][1] is None:
                parts[-1] = (f"{parts[-1][0]} {token}", None)
            else:
                parts.append((token, own))
        if all(own is None for _, own in parts):
            return self._speak(span)
        whole = self._speak(span).split()
        alone = [self._speak(text).split() for text, _ in parts]
        in_context = sum(map(len, alone)) == len(whole)
        spoken, position = [], 0
        for (_, own), words in zip(parts, alone, strict=True):
            context_words = whole[position : position + len(words)] if in_context else words
            spoken += [own] if own is not None else context_words
            position += len(words)
        return " ".join(spoken)


def _cut_long_word(match: re.Match[str]) -> str:
    pieces, size = [""], 0
    for character in match[0]:
        width = len(character.encode())
        if size + width > _LONGEST_WORD_BYTES:
            pieces.append("")
            size = 0
        pieces[-1] += character
        size += width
    return " ".join(pieces)


_engines: dict[str, _Engine] = {}
_engines_lock = threading.Lock()


def _renew_locks() -> None:
    """A forked worker inherits loaded libraries, which is fine, and locks that another thread may have held, which is not."""
    global _engines_lock
    _engines_lock = threading.Lock()
    for engine in _engines.values():
        engine.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


def phonemize_with_espeak(texts: Sequence[str], language: str, lexicon: Lexicon | None = None) -> list[str]:
    """IPA of each normalized text, one string per text, with stress, spaces between words and pause symbols."""
    engine = _engine_of(espeak_language(language))
    with engine.lock:
        return [engine.phonemize(text, lexicon) for text in texts]


def is_installed() -> bool:
    """Whether the extra `phonemes` is there."""
    return all(importlib.util.find_spec(name) is not None for name in ("phonemizer", "espeakng_loader"))


@functools.cache
def available_languages() -> dict[str, str]:
    """Every language that espeak-ng can speak: code → name. Voices whose dictionary is not in the wheel are left out."""
    library = _new_library()
    data_folder = Path(library.data_path)
    voices = [voice for voice in library.available_voices() if not voice.identifier.startswith("mb/")]
    return {voice.language: voice.name for voice in reversed(voices) if _has_dictionary(voice, data_folder)}


def _has_dictionary(voice: Any, data_folder: Path) -> bool:
    definition = (data_folder / "lang" / voice.identifier).read_text(encoding="utf-8", errors="replace")
    named = re.search(r"^\s*dictionary\s+(\S+)", definition, re.MULTILINE)
    name = named[1] if named else voice.language.split("-")[0]
    return (data_folder / f"{name}_dict").is_file()


@functools.cache
def espeak_version() -> str:
    """The version of the espeak-ng library that speaks, for fingerprints."""
    return ".".join(map(str, _new_library().version))


@functools.cache
def espeak_language(language: str) -> str:
    """espeak-ng's code of a language: `en` → `en-us`, `fa_IR` → `fa`; a region that it lacks gives the plain language."""
    languages = {code.lower(): code for code in available_languages()}
    code = language.strip().lower().replace("_", "-")
    while code:
        for candidate in (code, _ALIASES.get(code)):
            if candidate in languages:
                return languages[candidate]
        code = code.rpartition("-")[0]
    raise TextError(_unknown_language(language))


def _unknown_language(language: str) -> str:
    languages = available_languages()
    wanted = language.strip().lower()
    first_words = {name.lower().split(" ")[0]: code for code, name in languages.items()}
    near = [code for code, name in languages.items() if len(wanted) > 2 and wanted in name.lower()]
    near = near or [first_words[name] for name in difflib.get_close_matches(wanted, first_words, n=3, cutoff=0.7)]
    near = near or difflib.get_close_matches(wanted, languages, n=3, cutoff=0.6)
    listed = [f"{code} ({languages[code]})" for code in near[:5]]
    advice = f" Did you mean {' or '.join(listed)}?" if listed else ""
    return f"espeak-ng has no language {language!r}.{advice} Set text_symbols: graphemes, which works for every written language."


def _engine_of(voice_code: str) -> _Engine:
    with _engines_lock:
        if voice_code not in _engines:
            _engines[voice_code] = _Engine(voice_code)
        return _engines[voice_code]


def _new_library() -> Any:
    """A fresh espeak-ng of its own: phonemizer loads a copy of the library for each wrapper."""
    if not is_installed():
        raise TextError(f"Phonemes need espeak-ng, which is not installed. Run {INSTALL_LINE} (GPL).")
    try:
        import espeakng_loader
        from phonemizer.backend.espeak.wrapper import EspeakWrapper

        EspeakWrapper.set_library(espeakng_loader.get_library_path())
        EspeakWrapper.set_data_path(espeakng_loader.get_data_path())
        return EspeakWrapper()
    except (ImportError, RuntimeError, AttributeError) as error:
        raise EspeakLoadError(_cannot_load(error)) from error
    except OSError as error:
        if error.errno is None:  # the dynamic linker's message: a library for another machine, or a damaged one
            raise EspeakLoadError(_cannot_load(error)) from error
        raise TextError(
            "espeak-ng cannot be started: its library could not be copied or loaded "
            f"({error.strerror or error}). Free some space in {_temporary_folder()}, or name another folder: TMPDIR=FOLDER."
        ) from error


def _cannot_load(error: Exception) -> str:
    cause = " ".join(str(error).split()).rstrip(".")
    return (
        f"espeak-ng is installed but cannot be loaded ({cause}). Install it again: "
        f"{INSTALL_LINE}, with --force-reinstall."
    )


def _temporary_folder() -> str:
    try:
        return tempfile.gettempdir()
    except OSError:  # none of the usual ones can be written to
        return "the temporary folder"
