"""How a text is spoken: the caller's choices, and the checks that need only the description of a voice."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from myxtts.errors import TextError, VoiceError
from myxtts.models.spec import ModelSpec
from myxtts.runtime.console import printable
from myxtts.synthesis.speaker import Speaker
from myxtts.text import g2p, phonemes
from myxtts.text.languages import language_name, match_language
from myxtts.text.tokenizer import FrontEnd

LONGEST_TEXT = 200_000
"""Characters spoken at once: about four hours of speech."""
SHOWN_NAMES = 20
LARGEST_WEIGHT = 1e6
"""Largest weight of a speaker in a mixture; the weights are divided by their sum."""


def check_text_length(text: str) -> None:
    """Raise a `TextError` for a text that is too long to be spoken at once."""
    if len(text) > LONGEST_TEXT:
        raise TextError(
            f"The text has {len(text):,} characters; at most {LONGEST_TEXT:,} are spoken at once. Split it into parts."
        )


def check_name(what: str, name: str, names: Sequence[str]) -> None:
    """Raise a `VoiceError` if a voice has no language or speaker (`what`) of this name; the message lists what it has."""
    if name in names:
        return
    near = difflib.get_close_matches(name[:200], names, n=1)
    advice = f" Did you mean {near[0]!r}?" if near else ""
    listed = ", ".join(printable(each, keeps_lines=False) for each in names[:SHOWN_NAMES]) or "none"
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    raise VoiceError(f"This voice has no {what} {name!r:.60}. It has: {listed}{more}.{advice}")


def parse_mixture(text: str, names: Sequence[str]) -> dict[str, float]:
    """The weights of a speaker's name, or of several: `anna:0.7+ben:0.3`; unknown names are a `VoiceError`.

    A name of the voice that looks like a mixture is a name.
    """
    if text in names or "+" not in text:
        check_name("speaker", text, names)
        return {text: 1.0}
    weights: dict[str, float] = {}
    for part in text.split("+"):
        name, _, weight = (
            part.strip().rpartition(":") if ":" in part and part.strip() not in names else (part.strip(), "", "1")
        )
        check_name("speaker", name, names)
        try:
            weights[name] = weights.get(name, 0.0) + float(weight)
        except ValueError:
            weights[name] = math.nan
    if not all(0 < weight <= LARGEST_WEIGHT for weight in weights.values()):
        raise VoiceError(
            f"Expected a mixture of speakers such as anna:0.7+ben:0.3, with weights above 0. Received: {text!r:.80}."
        )
    return weights


def check_can_clone(model: ModelSpec) -> None:
    """Raise a `VoiceError` for a voice that takes no reference."""
    if not model.has_speakers:
        raise VoiceError("This voice was trained on one speaker and cannot clone. Train on several speakers for that.")


def check_expressiveness(expressiveness: float, model: ModelSpec) -> None:
    """Raise a `VoiceError` if a voice that does not predict its pitch is asked for more or less of its movements."""
    if expressiveness != 1 and not model.pitch:
        raise VoiceError(
            f"This voice does not predict its pitch, so it has no expressiveness. Received: {expressiveness:g}. Leave it out, or "
            "train a voice with model.pitch."
        )


def check_language(language: str | None, languages: Sequence[str]) -> str:
    """The voice's own code of a language given by code or name (`fa`, `Persian`), its first if None; otherwise a `VoiceError`."""
    if language is None:
        return languages[0]
    found = match_language(language, languages)
    check_name("language", found, languages)
    return found


def check_front_end(front_end: FrontEnd, language: str | None = None) -> None:
    """Raise a `TextError` if a voice needs espeak-ng for a language, and it is not installed or cannot be loaded.

    Without a language: if it needs espeak-ng for every language.
    """
    if front_end.kind != "phonemes":
        return
    if front_end.phonemizer == "myxtts" and (language is None or g2p.covers(language)):
        return
    if not phonemes.is_installed():
        texts = "This voice" if language is None else f"This voice in {language_name(language)} ({language})"
        raise TextError(
            f"{texts} reads phonemes, which need espeak-ng, and espeak-ng is not installed. "
            f"Run {phonemes.INSTALL_LINE} (GPL)."
        )
    phonemes.espeak_version()  # loads the library


@dataclass(frozen=True, kw_only=True)
class SpeechOptions:
    """How a text is spoken; None is the voice's own default."""

    language: str | None = None
    """None: the first language of the voice."""
    speaker: str | Speaker | None = None
    """A name, a mixture such as `anna:0.7+ben:0.3`, or a speaker made by `Voice.clone`; None: the voice's first speaker."""
    speed: float = 1.0
    """2 is twice as fast."""
    pause: float = 0.25
    """Seconds of silence after each sentence; a third of it where a long sentence was cut."""
    seed: int = 0
    """The same seed gives the same audio."""
    steps: int | None = None
    """Euler steps of the decoder: more is slower and may be clearer."""
    temperature: float | None = None
    """Size of the noise that the decoder starts from: 0 is flat, 1 is lively."""
    expressiveness: float = 1.0
    """How far the pitch moves around its mean: 0 is monotone, 1 as predicted. Only for voices that predict it."""
    starts_early: bool = False
    """Speak the first clause of a text apart, so that a stream begins sooner."""

    def __post_init__(self):
        for name in _RANGES:
            value = vars(self)[name]
            if value is not None or name not in _VOICE_DEFAULTS:
                check_number(name, value)
        if not isinstance(self.language, str | None):
            raise VoiceError(
                f"language must be a code or a name, such as 'en' or 'English'. Received: {self.language!r:.60}."
            )
        if not isinstance(self.speaker, str | Speaker | None):
            raise VoiceError(f"speaker must be a name or the result of `Voice.clone`. Received: {self.speaker!r:.60}.")


_RANGES = {
    "speed": (Real, 0.25, 4.0),
    "pause": (Real, 0.0, 10.0),
    "seed": (Integral, 0, 2**63 - 1),
    "steps": (Integral, 1, 100),
    "temperature": (Real, 0.0, 2.0),
    "expressiveness": (Real, 0.0, 3.0),
}
_VOICE_DEFAULTS = ("steps", "temperature")


def check_number(name: str, value: Any) -> None:
    """Raise a `VoiceError` for a value that the option of this name cannot have: text, booleans, values out of range."""
    kind, lowest, highest = _RANGES[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        expected = "a whole number" if kind is Integral else "a number"
        raise VoiceError(f"{name} must be {expected} between {lowest:g} and {highest:g}. Received: {value!r:.60}.")
    if not lowest <= value <= highest:
        raise VoiceError(f"{name} must lie between {lowest:g} and {highest:g}. Received: {value}.")
