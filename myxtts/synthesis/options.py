"""How a text is spoken: the choices of the caller, checked."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from myxtts.errors import VoiceError
from myxtts.synthesis.speaker import Speaker


@dataclass(frozen=True, kw_only=True)
class SpeechOptions:
    """How a text is spoken; None is the voice's own default."""

    language: str | None = None
    """None: the first language of the voice."""
    speaker: str | Speaker | None = None
    """A name, or a speaker that `Voice.clone` heard; None: the first speaker of the voice."""
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

    def __post_init__(self):
        for name in _RANGES:
            value = vars(self)[name]
            if value is not None or name not in _VOICE_DEFAULTS:
                check_number(name, value)
        if not isinstance(self.language, str | None):
            raise VoiceError(f"language must be a name such as 'en'. Received: {self.language!r:.60}.")
        if not isinstance(self.speaker, str | Speaker | None):
            raise VoiceError(f"speaker must be a name or what `Voice.clone` gives. Received: {self.speaker!r:.60}.")


_RANGES = {
    "speed": (Real, 0.25, 4.0),
    "pause": (Real, 0.0, 10.0),
    "seed": (Integral, 0, 2**63 - 1),
    "steps": (Integral, 1, 100),
    "temperature": (Real, 0.0, 2.0),
}
_VOICE_DEFAULTS = ("steps", "temperature")


def check_number(name: str, value: Any) -> None:
    """Whether a value may stand for the option of this name; text, truth values and values out of range are told."""
    kind, lowest, highest = _RANGES[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        expected = "a whole number" if kind is Integral else "a number"
        raise VoiceError(f"{name} must be {expected} between {lowest:g} and {highest:g}. Received: {value!r:.60}.")
    if not lowest <= value <= highest:
        raise VoiceError(f"{name} must lie between {lowest:g} and {highest:g}. Received: {value}.")
