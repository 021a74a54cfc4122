"""Measures clips by the chosen metrics: recordings, vocoded recordings and synthesized clips in the same way.

`load_judge` loads the models of the metrics once; the judge can then be used for many clips.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np

from myxtts.audio.mel import MelSpec
from myxtts.errors import EvaluationError
from myxtts.evaluation.clip_metrics import (
    ErrorCount,
    NaturalnessJudge,
    SpeakerEmbedder,
    compare_with_recording,
    count_errors,
    find_failure,
    measure_pesq,
    speaker_similarities,
)
from myxtts.evaluation.metrics import METRIC_NAMES, Ratio, RatioRows, check_packages
from myxtts.evaluation.recognizers import Recognizer, open_recognizer
from myxtts.evaluation.sentence_sets import Sentence
from myxtts.runtime.machine import usable_cores
from myxtts.runtime.progress import ProgressCallback


@dataclass(frozen=True, eq=False)
class JudgedClip:
    """One clip and what was measured on it; None where a metric was not asked for."""

    samples: np.ndarray
    """float32 (samples,) at the voice's sample rate."""
    heard: str | None = None
    """The recognizer's text."""
    errors: ErrorCount | None = None
    embedding: np.ndarray | None = None
    failure: str | None = None
    ratios: Mapping[str, Ratio] = field(default_factory=dict)
    """By metric, for those that need this clip and its recording only."""


ClipRows = Sequence[Sequence[JudgedClip | None]]
"""One row per sentence, one entry per clip (seed); None where there is no clip."""


@dataclass(frozen=True, eq=False)
class Judge:
    """The loaded models of the chosen metrics."""

    metrics: tuple[str, ...]
    recognizer: Recognizer | None
    embedder: SpeakerEmbedder | None
    naturalness: NaturalnessJudge | None

    def judge(
        self,
        clips: Sequence[np.ndarray],
        sentences: Sequence[Sentence],
        recordings: Sequence[np.ndarray | None],
        mel: MelSpec,
        characters_per_second: float,
        progress: ProgressCallback | None = None,
        are_copies: bool = False,
    ) -> list[JudgedClip]:
        """Measure clips, in the same order as their sentences and recordings.

        Args:
            clips: float32 (samples,) each, at the mel's sample rate.
            sentences: what was to be spoken.
            recordings: of the same sentences; None where there is none.
            mel: the voice's mel.
            characters_per_second: the speaking rate that is expected.
            progress: called after every clip.
            are_copies: the clips are copies of the recordings, moment by moment, so that PESQ applies.
        """

        def report(stage: str, done: int) -> None:
            if progress is not None:
                progress(stage, done, len(clips))

        judged = [JudgedClip(np.nan_to_num(np.asarray(samples, np.float32))) for samples in clips]
        if self.recognizer is not None:
            report("recognizing", 0)
            heard = self.recognizer.recognize(
                [each.samples for each in judged],
                mel.sample_rate,
                [sentence.language for sentence in sentences],
                lambda done: report("recognizing", done),
            )
            judged = [
                replace(each, heard=text, errors=count_errors(sentence.text, text, sentence.language))
                for each, text, sentence in zip(judged, heard, sentences, strict=True)
            ]

        def measure(index: int) -> JudgedClip:
            clip, sentence, recording = judged[index], sentences[index], recordings[index]
            ratios = _text_ratios(clip.errors) | self._sound_ratios(clip.samples, recording, mel, are_copies)
            if self.embedder is not None:
                clip = replace(clip, embedding=self.embedder.embed(clip.samples, mel.sample_rate))
            if "failed" in self.metrics:
                failure = find_failure(
                    clips[index], mel.sample_rate, sentence.text, sentence.language, clip.errors, characters_per_second
                )
                clip = replace(clip, failure=failure)
                ratios["failed"] = Ratio(float(failure is not None))
            return replace(clip, ratios=ratios)

        measured = []
        with ThreadPoolExecutor(usable_cores()) as pool:
            for clip in pool.map(measure, range(len(clips))):
                measured.append(clip)
                report("measuring", len(measured))
        return measured

    def _sound_ratios(
        self, samples: np.ndarray, recording: np.ndarray | None, mel: MelSpec, are_copies: bool
    ) -> dict[str, Ratio]:
        ratios: dict[str, Ratio] = {}
        if self.naturalness is not None:
            ratios["dnsmos"] = Ratio(self.naturalness.score(samples, mel.sample_rate))
        if recording is None:
            return ratios
        ratios.update(compare_with_recording(samples, recording, mel, self.metrics))
        if are_copies and "pesq" in self.metrics:
            pesq = measure_pesq(samples, recording, mel.sample_rate)
            if pesq is not None:
                ratios["pesq"] = Ratio(pesq)
        return ratios


def _text_ratios(errors: ErrorCount | None) -> dict[str, Ratio]:
    if errors is None:
        return {}
    return {
        "cer": Ratio(errors.character_edits, errors.characters),
        "wer": Ratio(errors.word_edits, errors.words),
    }


def load_judge(
    metrics: Sequence[str], recognizer: Recognizer | None = None, languages: Collection[str] = ("en",)
) -> Judge:
    """Load the models of these metrics.

    Args:
        metrics: some of `METRIC_NAMES`.
        recognizer: for `cer` and `wer`; None takes the default for `languages`.
        languages: of the sentences.
    """
    unknown = [name for name in metrics if name not in METRIC_NAMES]
    if unknown or not metrics:
        raise EvaluationError(
            f"Unknown metrics. Received: {', '.join(metrics) or 'none'}. Expected some of: {', '.join(METRIC_NAMES)}."
        )
    check_packages(metrics)
    is_recognized = bool({"cer", "wer"} & set(metrics))
    return Judge(
        metrics=tuple(name for name in METRIC_NAMES if name in metrics),
        recognizer=(recognizer or open_recognizer(None, languages)) if is_recognized else None,
        embedder=SpeakerEmbedder.load() if "similarity" in metrics else None,
        naturalness=NaturalnessJudge.load() if "dnsmos" in metrics else None,
    )


def clip_ratios(
    clips: ClipRows, recordings: Sequence[JudgedClip | None], speakers: Sequence[str], metrics: Sequence[str]
) -> dict[str, RatioRows]:
    """Ratios by metric, for those that are measured on clips; `recordings` and `speakers` have one entry per sentence."""
    ratios: dict[str, RatioRows] = {
        metric: [[None if clip is None else clip.ratios.get(metric) for clip in row] for row in clips]
        for metric in metrics
        if metric not in ("similarity", "rtf")
    }
    if "similarity" in metrics:
        ratios["similarity"] = _similarity_ratios(clips, recordings, speakers)
    return ratios


def _similarity_ratios(
    clips: ClipRows, recordings: Sequence[JudgedClip | None], speakers: Sequence[str]
) -> list[list[Ratio | None]]:
    recorded = [None if clip is None else clip.embedding for clip in recordings]
    columns = []
    for column in zip(*clips, strict=True):
        embeddings = [None if clip is None else clip.embedding for clip in column]
        similarities = speaker_similarities(embeddings, recorded, speakers)
        columns.append(
            [
                None if clip is None or similarity is None else Ratio(similarity)
                for clip, similarity in zip(column, similarities, strict=True)
            ]
        )
    return [list(row) for row in zip(*columns, strict=True)]
