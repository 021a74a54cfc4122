"""Everything that is measured on clips, whoever made them: clips with their sentences in, judged clips out, in the same order.

Recordings, vocoded recordings and synthesised clips pass through the same judge, at the same level, so that their figures can be
compared. A judge loads the models of its metrics when it is made and can be used many times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from myxtts.audio.files import level_loudness
from myxtts.audio.mel import MelSpec
from myxtts.errors import EvaluationError
from myxtts.evaluation.distortion import Distortion, measure_distortion
from myxtts.evaluation.error_rates import ErrorCount, count_errors
from myxtts.evaluation.failures import find_failure
from myxtts.evaluation.naturalness import NaturalnessJudge
from myxtts.evaluation.recognise import PocketsphinxRecogniser, Recogniser
from myxtts.evaluation.sentences import Sentence
from myxtts.evaluation.similarity import SpeakerEncoder
from myxtts.runtime.device import usable_cores

METRICS = ("cer", "wer", "similarity", "dnsmos", "mcd", "duration_error", "failed", "rtf")
HEARD_LANGUAGES = ("en",)
"""What the default recogniser understands."""
JUDGED_LEVEL_DB = -23.0
"""Level at which DNSMOS is shown every clip: it would take a soft clip for a bad one."""

Progress = Callable[[str, int, int], None]
"""Told what is being done, how many clips are done, and of how many."""


@dataclass(frozen=True, eq=False)
class JudgedClip:
    """One clip (samples at the voice's rate) and what was measured on it; None where a metric was not asked for."""

    samples: np.ndarray
    heard: str | None = None
    errors: ErrorCount | None = None
    embedding: np.ndarray | None = None
    dnsmos: float | None = None
    distortion: Distortion | None = None
    failure: str | None = None


class Judge:
    """Measures clips by the chosen metrics."""

    def __init__(self, metrics: Sequence[str] = METRICS, recogniser: Recogniser | None = None):
        unknown = [name for name in metrics if name not in METRICS]
        if unknown or not metrics:
            raise EvaluationError(
                f"Unknown metrics. Received: {', '.join(metrics) or 'none'}. Expected some of: {', '.join(METRICS)}."
            )
        self.metrics = tuple(name for name in METRICS if name in metrics)
        self.recogniser: Recogniser | None = None
        self._understands: tuple[str, ...] | None = None
        if {"cer", "wer"} & set(metrics):
            self.recogniser = recogniser or PocketsphinxRecogniser()
            if isinstance(self.recogniser, PocketsphinxRecogniser):
                self._understands = HEARD_LANGUAGES
        self._encoder = SpeakerEncoder() if "similarity" in metrics else None
        self._naturalness = NaturalnessJudge() if "dnsmos" in metrics else None

    def check_languages(self, sentences: Sequence[Sentence]) -> None:
        """Raise for sentences in a language that the recogniser does not know: it would hear something, and be wrong."""
        if self._understands is None:
            return
        foreign = sorted({each.language for each in sentences if each.language.split("-")[0] not in self._understands})
        if foreign:
            raise EvaluationError(
                f"The default recogniser hears English only. Received sentences in: {', '.join(foreign)}. "
                "Try --recogniser-command with a recogniser of that language, or leave out the metrics cer and wer."
            )

    def judge(
        self,
        clips: Sequence[np.ndarray],
        sentences: Sequence[Sentence],
        recordings: Sequence[np.ndarray | None],
        mel: MelSpec,
        characters_per_second: float,
        progress: Progress | None = None,
    ) -> list[JudgedClip]:
        """Measure clips (float32 at the mel's rate); `sentences` and `recordings` (or None) stand in the same order."""

        def tell(stage: str, done: int) -> None:
            if progress is not None:
                progress(stage, done, len(clips))

        judged = [JudgedClip(np.nan_to_num(np.asarray(samples, np.float32))) for samples in clips]
        if self.recogniser is not None:
            heard = self.recogniser.recognise(
                [each.samples for each in judged], mel.sample_rate, lambda done: tell("hearing", done)
            )
            judged = [
                replace(each, heard=text, errors=count_errors(sentence.text, text, sentence.language))
                for each, text, sentence in zip(judged, heard, sentences, strict=True)
            ]

        def measure(number: int) -> JudgedClip:
            sentence, recording = sentences[number], recordings[number]
            return self._measure(judged[number], clips[number], sentence, recording, mel, characters_per_second)

        measured = []
        with ThreadPoolExecutor(usable_cores()) as pool:
            for clip in pool.map(measure, range(len(clips))):
                measured.append(clip)
                tell("measuring", len(measured))
        return measured

    def _measure(
        self,
        clip: JudgedClip,
        original: np.ndarray,
        sentence: Sentence,
        recording: np.ndarray | None,
        mel: MelSpec,
        characters_per_second: float,
    ) -> JudgedClip:
        rate = mel.sample_rate
        if self._encoder is not None:
            clip = replace(clip, embedding=self._encoder.embed(clip.samples, rate))
        if self._naturalness is not None:
            levelled = level_loudness(clip.samples, rate, JUDGED_LEVEL_DB) if len(clip.samples) else clip.samples
            clip = replace(clip, dnsmos=self._naturalness.score(levelled, rate))
        if recording is not None and {"mcd", "duration_error"} & set(self.metrics):
            clip = replace(clip, distortion=measure_distortion(clip.samples, recording, mel))
        if "failed" in self.metrics:
            failure = find_failure(original, rate, sentence.text, sentence.language, clip.errors, characters_per_second)
            clip = replace(clip, failure=failure)
        return clip
