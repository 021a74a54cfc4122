"""Everything that is measured on clips, whoever made them: clips with their sentences in, judged clips out, in the same order.

Recordings, vocoded recordings and synthesised clips pass through the same judge, at the same level, so that their figures can be
compared. A judge loads the models of its metrics when it is made and can be used many times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from myxtts.audio.clips import level_loudness
from myxtts.audio.mel import MelSpec
from myxtts.errors import EvaluationError
from myxtts.evaluation.metrics import (
    Distortion,
    ErrorCount,
    NaturalnessJudge,
    SpeakerEncoder,
    count_errors,
    find_failure,
    measure_distortion,
    speaker_similarities,
)
from myxtts.evaluation.recognizers import PocketsphinxRecogniser, Recogniser
from myxtts.evaluation.sentence_sets import Sentence
from myxtts.runtime.machine import usable_cores

# MERGED: Figures with their uncertainty: sums per sentence in, one value with a 95 % interval out. Plain NumPy.
#
# Every figure is one sum over one count (edits over characters, seconds over seconds, scores over clips). The interval comes from
# drawing sentences with replacement: the voice would have been measured on other sentences just as well.

BOOTSTRAP_DRAWS = 2000
INTERVAL_PERCENT = (2.5, 97.5)


@dataclass(frozen=True)
class Figure:
    """A measured value, and the interval that holds it in 95 of 100 draws of sentences."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Share:
    """What one clip adds to a figure: a sum and what it is divided by."""

    part: float
    whole: float = 1.0


def measure(shares: Sequence[Sequence[Share | None]]) -> Figure | None:
    """The figure over sentences; each sentence brings the shares of its clips (one for each seed). None if nothing was measured.

    Clips that could not be measured (None) are left out of both sums. Draws are the same in every call.
    """
    parts = np.array([sum(share.part for share in each if share is not None) for each in shares], np.float64)
    wholes = np.array([sum(share.whole for share in each if share is not None) for each in shares], np.float64)
    if wholes.sum() <= 0.0:
        return None
    drawn = np.random.default_rng(0).integers(0, len(parts), (BOOTSTRAP_DRAWS, len(parts)))
    whole_sums = wholes[drawn].sum(axis=1)
    values = parts[drawn].sum(axis=1)[whole_sums > 0] / whole_sums[whole_sums > 0]
    low, high = np.percentile(values, INTERVAL_PERCENT)
    return Figure(float(parts.sum() / wholes.sum()), float(low), float(high))


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


# MERGED: What each judged clip adds to each figure: judged clips in, sums and counts by key out. Plain functions.
#
# Rows are sentences; a row holds the clips of one sentence (one for each seed), or None where there is no clip.

ClipRows = Sequence[Sequence[JudgedClip | None]]
ShareRows = list[list[Share | None]]


def clip_shares(
    clips: ClipRows, recordings: Sequence[JudgedClip | None], speakers: Sequence[str], metrics: Sequence[str]
) -> dict[str, ShareRows]:
    """Shares by key, for those metrics that are measured on clips; `recordings` and `speakers` have one entry a sentence."""
    shares = {
        key: [[None if clip is None else read(clip) for clip in row] for row in clips]
        for key, read in _READERS.items()
        if key in metrics
    }
    if "similarity" in metrics:
        shares["similarity"] = _similarity_shares(clips, recordings, speakers)
    return shares


def _character_share(clip: JudgedClip) -> Share | None:
    return None if clip.errors is None else Share(clip.errors.character_edits, clip.errors.characters)


def _word_share(clip: JudgedClip) -> Share | None:
    return None if clip.errors is None else Share(clip.errors.word_edits, clip.errors.words)


def _naturalness_share(clip: JudgedClip) -> Share | None:
    return None if clip.dnsmos is None else Share(clip.dnsmos)


def _distortion_share(clip: JudgedClip) -> Share | None:
    if clip.distortion is None:
        return None
    return Share(clip.distortion.distance_sum_db, clip.distortion.aligned_frames)


def _duration_share(clip: JudgedClip) -> Share | None:
    if clip.distortion is None:
        return None
    recorded_seconds = clip.distortion.recorded_seconds
    return Share(abs(clip.distortion.seconds - recorded_seconds), recorded_seconds)


def _failure_share(clip: JudgedClip) -> Share:
    return Share(float(clip.failure is not None))


_READERS: Mapping[str, Callable[[JudgedClip], Share | None]] = {
    "cer": _character_share,
    "wer": _word_share,
    "dnsmos": _naturalness_share,
    "mcd": _distortion_share,
    "duration_error": _duration_share,
    "failed": _failure_share,
}


def _similarity_shares(clips: ClipRows, recordings: Sequence[JudgedClip | None], speakers: Sequence[str]) -> ShareRows:
    recorded = [None if clip is None else clip.embedding for clip in recordings]
    columns = []
    for column in zip(*clips, strict=True):
        embeddings = [None if clip is None else clip.embedding for clip in column]
        similarities = speaker_similarities(embeddings, recorded, speakers)
        columns.append(
            [
                None if clip is None or similarity is None else Share(similarity)
                for clip, similarity in zip(column, similarities, strict=True)
            ]
        )
    return [list(row) for row in zip(*columns, strict=True)]
