"""A voice, a recognizer and a corpus of sentences made by code: tones whose pitch identifies the sentence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from myxtts.audio.files import write_audio
from myxtts.audio.mel import MelSpec
from myxtts.evaluation.sentence_sets import Sentence

RATE = 16000
TEXTS = (
    "the first of our sentences",
    "a second one is spoken",
    "number three comes after two",
    "then nothing more is said",
)


def tone(index: int, seconds: float = 1.6) -> np.ndarray:
    """A tone of 200, 300, … Hz that swells and fades; sentence `index` sounds like this."""
    time = np.arange(int(seconds * RATE)) / RATE
    return (0.3 * np.sin(2 * np.pi * (200 + 100 * index) * time) * np.sin(np.pi * time / seconds)).astype(np.float32)


def sweep(seconds: float, low_hz: float = 200.0, high_hz: float = 800.0) -> np.ndarray:
    """A rising tone with overtones: its spectrum changes all the time."""
    time = np.arange(int(seconds * RATE)) / RATE
    phase = 2 * np.pi * np.cumsum(low_hz + (high_hz - low_hz) * time / seconds) / RATE
    harmonics = [0.2 / k * np.sin(k * phase) for k in (1, 2, 3)]
    return np.sum(harmonics, axis=0).astype(np.float32)


def made_up_sentences(folder: Path) -> tuple[Sentence, ...]:
    """The sentences of `TEXTS`, each recorded as its tone."""
    sentences = []
    for index, text in enumerate(TEXTS):
        path = folder / f"{index}.wav"
        write_audio(path, tone(index), RATE)
        sentences.append(Sentence(f"s{index}", text, "en", "her", path))
    return tuple(sentences)


@dataclass(frozen=True)
class MadeUpAudio:
    samples: np.ndarray
    sample_rate: int = RATE


class MadeUpVoice:
    """Speaks the tone of a sentence; sentences in `silent` become silence. Its vocoder hums."""

    def __init__(self, silent: tuple[str, ...] = ()):
        self.mel = MelSpec(RATE)
        self.speakers = ("her",)
        self.trim_silence_db: float | None = 45.0
        self.trim_noise_db: float | None = None
        self.loudness_db: float | None = -23.0
        self.silent = silent
        self.asked: list[tuple[str, int]] = []
        self.vocoded = 0

    def synthesize(self, text, language=None, speaker=None, seed=0):
        self.asked.append((text, seed))
        samples = tone(TEXTS.index(text)) if text in TEXTS else tone(0)
        return MadeUpAudio(np.zeros_like(samples) if text in self.silent else samples)

    def synthesize_many(self, texts, *, seeds, language=None, speaker=None):
        return [self.synthesize(text, language, speaker, seed) for text, seed in zip(texts, seeds, strict=True)]

    def vocode(self, mel):
        self.vocoded += 1
        return MadeUpAudio(tone(0, seconds=(len(mel) - 1) * self.mel.hop_length / RATE))


class PitchRecognizer:
    """Recognizes a sentence of `TEXTS` by its pitch, and nothing in silence."""

    name = "pitch"
    languages = None

    def recognize(self, clips, sample_rate, languages, progress=None):
        return [self._recognize(clip, sample_rate) for clip in clips]

    def _recognize(self, clip, sample_rate):
        if not np.any(clip):
            return ""
        spectrum = np.abs(np.fft.rfft(clip))
        pitch = np.fft.rfftfreq(len(clip), 1 / sample_rate)[spectrum.argmax()]
        return TEXTS[round((pitch - 200) / 100)]
