"""Measure a voice: sentences in, an `Evaluation` out: figures of synthesis beside those of the recordings and of the vocoder.

Three things are judged alike (`myxtts.evaluation.judge`): what the voice speaks, once for each seed; the recordings of the same
sentences; and those recordings turned into mel frames and back by the voice's own vocoder. What the recordings lose is the
judge's fault, what the vocoded ones lose beyond that is the vocoder's, and only the rest is the model's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from myxtts.audio.files import level_loudness, read_audio, resample, trim_silence
from myxtts.audio.mel import MelSpec, mel_numpy
from myxtts.corpus.manifest import Utterance
from myxtts.errors import EvaluationError
from myxtts.evaluation.judge import METRICS, ClipRows, Figure, Judge, JudgedClip, Progress, Share, clip_shares, measure
from myxtts.evaluation.metrics import CHARACTERS_PER_SECOND, speaking_rate
from myxtts.evaluation.recognizers import Recogniser
from myxtts.evaluation.sentence_sets import Sentence, sentences_of

SPOKEN_TOGETHER = 16
"""Sentences handed to the voice at once, two of its batches; progress is reported after each such group."""
TIMED_SENTENCES = 10
"""Sentences that are spoken one at a time, twice, for the real-time factor; the second time counts, when all is compiled."""
SOURCES = ("", "_recordings", "_vocoded")
"""Endings of the keys: synthesis, recordings, recordings passed through the vocoder."""


class SpokenAudio(Protocol):
    """What a voice returns."""

    samples: np.ndarray
    sample_rate: int


class MeasuredVoice(Protocol):
    """What is asked of a voice; `myxtts.synthesis.voice.Voice` is one."""

    mel: MelSpec
    speakers: tuple[str, ...]
    trim_silence_db: float | None
    loudness_db: float | None

    def synthesize(
        self, text: str, *, language: str | None = None, speaker: str | None = None, seed: int = 0
    ) -> SpokenAudio: ...

    def synthesize_many(
        self, texts: Sequence[str], *, seeds: Sequence[int], language: str | None = None, speaker: str | None = None
    ) -> Sequence[SpokenAudio]: ...

    def vocode(self, mel: np.ndarray) -> SpokenAudio: ...


@dataclass(frozen=True)
class RecordingSettings:
    """How recordings are brought to the form that a voice learns from."""

    mel: MelSpec
    trim_silence_db: float | None
    """Silence is cut from both ends below this level; None keeps it."""
    loudness_db: float | None
    """Level of the speech; None keeps it."""

    def load(self, path: Path | None) -> np.ndarray | None:
        """The samples of a recording at the mel's rate, float32 (samples,)."""
        if path is None:
            return None
        samples, file_rate = read_audio(path)
        rate = self.mel.sample_rate
        samples = resample(samples, file_rate, rate)
        if self.trim_silence_db is not None:
            samples = trim_silence(samples, rate, self.trim_silence_db)
        if self.loudness_db is not None:
            samples = level_loudness(samples, rate, self.loudness_db)
        return samples


@dataclass(frozen=True, eq=False)
class Reference:
    """What belongs to the sentences and not to the voice: judged recordings, and how fast the speaker speaks."""

    recordings: tuple[JudgedClip | None, ...]
    characters_per_second: float


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Figures by key (`cer`, `cer_recordings`, `cer_vocoded`, …), and every judged clip behind them."""

    figures: Mapping[str, Figure | None]
    sentences: tuple[Sentence, ...]
    synthesised: tuple[tuple[JudgedClip, ...], ...]
    """For each sentence, one clip for each seed."""
    recordings: tuple[JudgedClip | None, ...]
    vocoded: tuple[JudgedClip | None, ...]
    seeds: int
    metrics: tuple[str, ...]
    recogniser: str | None
    mel: MelSpec
    trained_sentences: tuple[str, ...] | None = None
    """Ids of the sentences that the voice was trained on; None if that is not known."""
    notice: str = ""
    """One line about them, shown with the metrics."""

    @property
    def failed_sentences(self) -> tuple[str, ...]:
        """`id (seed): reason` of every synthesised clip that failed."""
        return tuple(
            f"{sentence.id} (seed {seed}): {clip.failure}"
            for sentence, clips in zip(self.sentences, self.synthesised, strict=True)
            for seed, clip in enumerate(clips)
            if clip.failure is not None
        )


def evaluate_voice(
    voice: MeasuredVoice,
    utterances: Sequence[Utterance | Sentence],
    seeds: int = 3,
    recogniser: Recogniser | None = None,
    metrics: Sequence[str] = METRICS,
    progress: Progress | None = None,
) -> Evaluation:
    """Measure a voice on the sentences of `utterances`; the recogniser is pocketsphinx if None."""
    sentences = tuple(each if isinstance(each, Sentence) else sentences_of([each])[0] for each in utterances)
    return Evaluator(sentences, seeds, recogniser, metrics).evaluate(voice, progress)


class Evaluator:
    """Measures several voices on the same sentences; recordings are judged once for each `RecordingSettings`."""

    def __init__(
        self,
        sentences: Sequence[Sentence],
        seeds: int = 3,
        recogniser: Recogniser | None = None,
        metrics: Sequence[str] = METRICS,
    ):
        if not sentences:
            raise EvaluationError("There is no sentence to measure the voice on. Expected at least one.")
        if seeds < 1:
            raise EvaluationError(f"seeds must be at least 1. Received: {seeds}.")
        self._sentences = tuple(sentences)
        self._seeds = seeds
        self._judge = Judge(metrics, recogniser)
        self._judge.check_languages(self._sentences)
        self._references: dict[RecordingSettings, Reference] = {}

    def evaluate(self, voice: MeasuredVoice, progress: Progress | None = None, vocoded: bool = True) -> Evaluation:
        """Measure one voice; without `vocoded` the recordings are not passed through its vocoder."""
        mel = voice.mel
        settings = RecordingSettings(mel, voice.trim_silence_db, voice.loudness_db)
        reference = self._reference(settings, progress)
        spoken = self._speak(voice, progress)
        judged = self._judge.judge(
            spoken,
            [sentence for sentence in self._sentences for _ in range(self._seeds)],
            [clip and clip.samples for clip in reference.recordings for _ in range(self._seeds)],
            mel,
            reference.characters_per_second,
            _named(progress, "synthesised"),
        )
        synthesised = [judged[start : start + self._seeds] for start in range(0, len(judged), self._seeds)]
        times = self._time(voice, progress) if "rtf" in self._judge.metrics else []
        vocode = (lambda frames: _samples_of(voice.vocode(frames), mel)) if vocoded else None
        return self._sum_up(settings, synthesised, times, vocode, progress)

    def evaluate_recordings(
        self,
        settings: RecordingSettings,
        vocode: Callable[[np.ndarray], np.ndarray],
        progress: Progress | None = None,
    ) -> Evaluation:
        """Measure the recordings and a vocoder (log-mel frames → samples at the mel's rate) alone: what a voice can reach."""
        return self._sum_up(settings, [[] for _ in self._sentences], [], vocode, progress)

    def _sum_up(
        self,
        settings: RecordingSettings,
        synthesised: ClipRows,
        times: Sequence[Share],
        vocode: Callable[[np.ndarray], np.ndarray] | None,
        progress: Progress | None,
    ) -> Evaluation:
        mel, reference = settings.mel, self._reference(settings, progress)
        vocoded: list[JudgedClip | None] = [None] * len(self._sentences)
        if vocode is not None:
            vocoded = self._judge_recorded(
                mel, reference, lambda samples: vocode(mel_numpy(samples, mel)), "vocoded", progress
            )
        speakers = [sentence.speaker for sentence in self._sentences]
        rows_of = (synthesised, [[clip] for clip in reference.recordings], [[clip] for clip in vocoded])
        figures: dict[str, Figure | None] = {}
        for ending, rows in zip(SOURCES, rows_of, strict=True):
            for key, shares in clip_shares(rows, reference.recordings, speakers, self._judge.metrics).items():
                figures[key + ending] = measure(shares)
        if "rtf" in self._judge.metrics:
            figures["rtf"] = measure([[share] for share in times])
        return Evaluation(
            figures=figures,
            sentences=self._sentences,
            synthesised=tuple(tuple(row) for row in synthesised),
            recordings=reference.recordings,
            vocoded=tuple(vocoded),
            seeds=self._seeds,
            metrics=self._judge.metrics,
            recogniser=self._judge.recogniser.name if self._judge.recogniser is not None else None,
            mel=mel,
        )

    def _reference(self, settings: RecordingSettings, progress: Progress | None) -> Reference:
        if settings not in self._references:
            mel = settings.mel
            loaded = [settings.load(sentence.recording) for sentence in self._sentences]
            timed = [
                (sentence.text, sentence.language, len(samples) / mel.sample_rate)
                for sentence, samples in zip(self._sentences, loaded, strict=True)
                if samples is not None
            ]
            rate = speaking_rate(*map(list, zip(*timed, strict=True))) if timed else CHARACTERS_PER_SECOND
            unjudged = Reference(tuple(samples if samples is None else JudgedClip(samples) for samples in loaded), rate)
            judged = self._judge_recorded(mel, unjudged, lambda samples: samples, "recordings", progress)
            self._references[settings] = Reference(tuple(judged), rate)
        return self._references[settings]

    def _judge_recorded(
        self,
        mel: MelSpec,
        reference: Reference,
        change: Callable[[np.ndarray], np.ndarray],
        name: str,
        progress: Progress | None,
    ) -> list[JudgedClip | None]:
        """The recordings as `change` leaves them, judged; None where a sentence was not recorded."""
        places = [place for place, clip in enumerate(reference.recordings) if clip is not None]
        originals = [reference.recordings[place].samples for place in places]
        judged = self._judge.judge(
            [change(samples) for samples in originals],
            [self._sentences[place] for place in places],
            originals,
            mel,
            reference.characters_per_second,
            _named(progress, name),
        )
        placed: list[JudgedClip | None] = [None] * len(self._sentences)
        for place, clip in zip(places, judged, strict=True):
            placed[place] = clip
        return placed

    def _speak(self, voice: MeasuredVoice, progress: Progress | None) -> list[np.ndarray]:
        """Every sentence with every seed, sentence by sentence; those of one speaker and language are spoken together."""
        jobs = [(sentence, seed) for sentence in self._sentences for seed in range(self._seeds)]
        groups: dict[tuple[str, str | None], list[int]] = {}
        for number, (sentence, _) in enumerate(jobs):
            groups.setdefault((sentence.language, _speaker_of(sentence, voice)), []).append(number)
        spoken: list[np.ndarray] = [np.zeros(0, np.float32)] * len(jobs)
        done = 0
        if progress is not None:
            progress("speaking", done, len(jobs))
        for (language, speaker), numbers in groups.items():
            for start in range(0, len(numbers), SPOKEN_TOGETHER):
                part = numbers[start : start + SPOKEN_TOGETHER]
                texts, seeds = [jobs[number][0].text for number in part], [jobs[number][1] for number in part]
                audios = voice.synthesize_many(texts, seeds=seeds, language=language, speaker=speaker)
                for number, audio in zip(part, audios, strict=True):
                    spoken[number] = _samples_of(audio, voice.mel)
                done += len(part)
                if progress is not None:
                    progress("speaking", done, len(jobs))
        return spoken

    def _time(self, voice: MeasuredVoice, progress: Progress | None) -> list[Share]:
        step = max(1, len(self._sentences) // TIMED_SENTENCES)
        shares = []
        timed = self._sentences[::step][:TIMED_SENTENCES]
        for sentence in timed:
            for _ in range(2):
                started = time.perf_counter()
                audio = voice.synthesize(
                    sentence.text, language=sentence.language, speaker=_speaker_of(sentence, voice), seed=0
                )
                elapsed_seconds = time.perf_counter() - started
            shares.append(Share(elapsed_seconds, len(audio.samples) / audio.sample_rate))
            if progress is not None:
                progress("timing", len(shares), len(timed))
        return shares


def evaluation_callback(
    sentences: Sequence[Sentence],
    seeds: int = 1,
    recogniser: Recogniser | None = None,
    metrics: Sequence[str] = ("cer", "wer", "failed"),
) -> Callable[[Path | MeasuredVoice], dict[str, float]]:
    """For the trainer: a voice or its folder in, figures by key out. Recordings and vocoder are judged at the first call."""
    evaluator = Evaluator(sentences, seeds, recogniser, metrics)
    fixed: dict[str, float] = {}

    def evaluate(voice: Path | MeasuredVoice) -> dict[str, float]:
        if isinstance(voice, Path):
            from myxtts.synthesis.voice import Voice

            voice = Voice.load(voice)
        evaluation = evaluator.evaluate(voice, vocoded=not fixed)
        values = {key: figure.value for key, figure in evaluation.figures.items() if figure is not None}
        if not fixed:
            fixed.update({key: value for key, value in values.items() if key.endswith(SOURCES[1:])})
        return {**fixed, **values}

    return evaluate


def _speaker_of(sentence: Sentence, voice: MeasuredVoice) -> str | None:
    """The sentence's speaker, for a voice that has several; a voice of one speaker speaks as itself, whoever was recorded."""
    return sentence.speaker or None if len(voice.speakers) > 1 else None


def _samples_of(audio: SpokenAudio, mel: MelSpec) -> np.ndarray:
    return resample(np.asarray(audio.samples, np.float32), audio.sample_rate, mel.sample_rate)


def _named(progress: Progress | None, name: str) -> Progress | None:
    if progress is None:
        return None
    return lambda stage, done, total: progress(f"{stage} {name}", done, total)
