"""A worker process with one speech recognizer (`myxtts.runtime.workers`): the path of a 16 kHz wav file in, its text out.

A process of its own keeps the recognizer's native libraries (a second ONNX Runtime, CTranslate2) apart from ours, and
pocketsphinx holds Python's lock while it decodes.

Every clip is brought to the same form first (silence at the ends trimmed, one level, faint noise), and no engine keeps anything
from one clip to the next, so that a clip's text does not depend on the clips before it. On 20 Persian clips of Common Voice this
form lowered the character error of Whisper base from 75 to 38 %; on 78 English recordings Moonshine's stayed at 0.8 %.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import soundfile

from myxtts.audio.clips import SILENT_PEAK
from myxtts.evaluation.clip_metrics import comparable_clip
from myxtts.evaluation.recognizers import RECOGNIZER_RATE
from myxtts.runtime.machine import usable_cores
from myxtts.runtime.worker_process import Job, serve_jobs

PADDING_SECONDS = 0.1
"""Silence at each end of a clip. Chosen; not measured."""
NOISE_LEVEL = 3e-4
"""RMS of the noise under every clip (70 dB below full scale): a synthesized pause can be digital silence, no recorded one is."""

Transcribe = Callable[[np.ndarray, str], str]
"""Samples at 16 kHz, float32 (samples,), and a language code → text."""


def prepare_clip(samples: np.ndarray) -> np.ndarray | None:
    """A clip as every engine gets it, float32 (samples,) at 16 kHz; None if it is silent."""
    if len(samples) == 0 or float(np.abs(samples).max()) < SILENT_PEAK:
        return None
    padded = np.pad(comparable_clip(samples, RECOGNIZER_RATE), round(PADDING_SECONDS * RECOGNIZER_RATE))
    noise = np.random.default_rng(0).normal(0.0, NOISE_LEVEL, len(padded))
    return np.clip(padded + noise, -1.0, 1.0).astype(np.float32)


def load_pocketsphinx(model: str) -> Transcribe:
    """CMU pocketsphinx with the US English model of its package."""
    from pocketsphinx import Decoder

    decoder: Any = Decoder(
        samprate=RECOGNIZER_RATE,
        cmn="batch",  # the mean of the clip itself; "live", the default, carries over the mean of the clips before
        maxhmmpf=3000,  # two thirds of the time, and no difference beyond chance (docs/evaluation.md)
        loglevel="FATAL",
    )

    def transcribe(samples: np.ndarray, language: str) -> str:
        decoder.start_utt()
        decoder.process_raw((samples * 32767).astype("<i2").tobytes(), full_utt=True)
        decoder.end_utt()
        hypothesis = decoder.hyp()
        return "" if hypothesis is None else hypothesis.hypstr

    return transcribe


def load_moonshine(model: str) -> Transcribe:
    """Moonshine tiny, English (Jeffries et al., 2024), with the weights of the package moonshine-voice."""
    from moonshine_voice import ModelArch, Transcriber
    from moonshine_voice.utils import get_model_path

    # Threshold 0 switches the voice activity detector off: its state is carried from clip to clip and changes their texts.
    transcriber = Transcriber(get_model_path("tiny-en"), ModelArch.TINY, options={"vad_threshold": "0"})

    def transcribe(samples: np.ndarray, language: str) -> str:
        lines = transcriber.transcribe_without_streaming(samples.tolist(), RECOGNIZER_RATE).lines
        return " ".join(line.text.strip() for line in lines)

    return transcribe


def load_whisper(model: str) -> Transcribe:
    """Whisper (Radford et al., 2022) in CTranslate2's format, from the folder `model`, by faster-whisper on the CPU."""
    from faster_whisper import WhisperModel

    network = WhisperModel(model, device="cpu", compute_type="int8", cpu_threads=usable_cores(), local_files_only=True)

    def transcribe(samples: np.ndarray, language: str) -> str:
        # Temperature 0 only: the fallback of higher temperatures samples, and is not repeatable.
        segments, _ = network.transcribe(
            samples, language=language, beam_size=5, temperature=0.0, condition_on_previous_text=False
        )
        return " ".join(segment.text.strip() for segment in segments)

    return transcribe


ENGINES: dict[str, Callable[[str], Transcribe]] = {
    "pocketsphinx": load_pocketsphinx,
    "moonshine": load_moonshine,
    "whisper": load_whisper,
}


def build_jobs(setup: dict[str, Any]) -> dict[str, Job]:
    """The one job, `transcribe`, of the engine that the setup names: [path, language] → `text`."""
    transcribe = ENGINES[setup["engine"]](setup["model"])

    def transcribe_file(item: list[str]) -> tuple[dict[str, Any], bytes]:
        path, language = item
        samples = prepare_clip(soundfile.read(path, dtype="float32")[0])
        return {"text": "" if samples is None else transcribe(samples, language)}, b""

    return {"transcribe": transcribe_file}


if __name__ == "__main__":
    sys.exit(serve_jobs(build_jobs))
