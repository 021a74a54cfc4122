"""How a text is spoken: the choices of the caller, checked."""

from __future__ import annotations

from dataclasses import dataclass

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
        ranges = {
            "speed": (self.speed, 0.25, 4.0),
            "pause": (self.pause, 0.0, 10.0),
            "seed": (self.seed, 0, 2**63 - 1),
            "steps": (self.steps, 1, 100),
            "temperature": (self.temperature, 0.0, 2.0),
        }
        for name, (value, lowest, highest) in ranges.items():
            if value is not None and not lowest <= value <= highest:
                raise VoiceError(f"{name} must lie between {lowest:g} and {highest:g}. Received: {value}.")
