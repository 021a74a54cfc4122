"""Measure a voice on sentences: its metrics next to those of the recordings and of the recordings through its vocoder.

Three kinds of clips are judged alike (`myxtts.evaluation.judge`): the sentences as the voice speaks them, once per seed; their
recordings; and the recordings turned into mel frames and back by the voice's own vocoder. What the recordings lose is the judge's
error, what the vocoded ones lose beyond that is the vocoder's, and only the rest is the model's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from myxtts.audio.clips import condition
from myxtts.audio.files import read_audio, resample
from myxtts.audio.mel import MelSpec, mel_numpy
from myxtts.errors import EvaluationError
from myxtts.evaluation.clip_metrics import speaking_rate
from myxtts.evaluation.judge import ClipRows, Judge, JudgedClip, clip_ratios, load_judge
from myxtts.evaluation.metrics import Estimate, Ratio, estimate
from myxtts.evaluation.recognizers import Recognizer
from myxtts.evaluation.sentence_sets import Sentence
from myxtts.runtime.progress import ProgressCallback

SENTENCES_AT_ONCE = 16
"""Sentences passed to the voice at once, two of its batches; progress is reported after each such group."""
TIMED_SENTENCES = 10
"""Sentences that are spoken one at a time, twice, for the real-time factor; the second time counts, when all is compiled."""
SOURCES = ("", "_recordings", "_vocoded")
"""Suffixes of the keys: synthesis, recordings, recordings through the vocoder."""
MEAN_SQUARES = frozenset({"log_f0_rmse"})
"""Metrics whose ratios are squares over counts."""

Vocode = Callable[[np.ndarray], np.ndarray]
"""Log-mel (frames, n_mels) → samples (samples,) at the mel's sample rate."""


class SpokenAudio(Protocol):
    """What a voice returns."""

    @property
    def samples(self) -> np.ndarray: ...

    @property
    def sample_rate(self) -> int: ...


class MeasuredVoice(Protocol):
    """What is needed of a voice; `myxtts.synthesis.voice.Voice` has it."""

    @property
    def mel(self) -> MelSpec: ...

    @property
    def speakers(self) -> Sequence[str]: ...

    @property
    def trim_silence_db(self) -> float | None: ...

    @property
    def trim_noise_db(self) -> float | None: ...

    @property
    def loudness_db(self) -> float | None: ...

    def synthesize(
        self, text: str, *, language: str | None = None, speaker: str | None = None, seed: int = 0
    ) -> SpokenAudio: ...

    def synthesize_many(
        self, texts: Sequence[str], *, seeds: Sequence[int], language: str | None = None, speaker: str | None = None
    ) -> Sequence[SpokenAudio]: ...

    def vocode(self, mel: np.ndarray) -> SpokenAudio: ...


@dataclass(frozen=True)
class RecordingSettings:
    """How recordings are brought to the form that a voice is trained on."""

    mel: MelSpec
    trim_silence_db: float | None
    """Silence is trimmed at both ends below this level; None keeps it."""
    loudness_db: float | None
    """Level of the speech; None keeps it."""
    trim_noise_db: float | None = None
    """Noise is trimmed at both ends up to this far above its level; None keeps it."""

    def load(self, path: Path) -> np.ndarray:
        """The samples of a recording at the mel's sample rate, float32 (samples,)."""
        samples, file_rate = read_audio(path)
        rate = self.mel.sample_rate
        samples = resample(samples, file_rate, rate)
        return condition(samples, rate, self.trim_silence_db, self.loudness_db, self.trim_noise_db)


@dataclass(frozen=True, eq=False)
class Reference:
    """What belongs to the sentences and not to the voice: judged recordings, and the speaking rate in them."""

    recordings: tuple[JudgedClip | None, ...]
    characters_per_second: float


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The metrics of a voice, and every judged clip behind them."""

    estimates: Mapping[str, Estimate | None]
    """By key: `cer`, `cer_recordings`, `cer_vocoded`, …; None where nothing could be measured."""
    sentences: tuple[Sentence, ...]
    synthesized: tuple[tuple[JudgedClip, ...], ...]
    """For each sentence, one clip per seed."""
    recordings: tuple[JudgedClip | None, ...]
    vocoded: tuple[JudgedClip | None, ...]
    seeds: int
    metrics: tuple[str, ...]
    recognizer: str | None
    mel: MelSpec
    trained_sentences: tuple[str, ...] | None = None
    """Ids of the sentences that the voice was trained on; None if that is not known."""
    notice: str = ""
    """One line about them, shown with the metrics."""

    @property
    def failed_sentences(self) -> tuple[str, ...]:
        """`id (seed): reason` of every synthesized clip that failed."""
        return tuple(
            f"{sentence.id} (seed {seed}): {clip.failure}"
            for sentence, clips in zip(self.sentences, self.synthesized, strict=True)
            for seed, clip in enumerate(clips)
            if clip.failure is not None
        )


class Evaluator:
    """Measures several voices on the same sentences; recordings are judged once per `RecordingSettings`."""

    def __init__(self, sentences: Sequence[Sentence], judge: Judge, seeds: int = 3):
        if not sentences:
            raise EvaluationError("There is no sentence to measure the voice on. Expected at least one.")
        if seeds < 1:
            raise EvaluationError(f"seeds must be at least 1. Received: {seeds}.")
        self._sentences = tuple(sentences)
        self._judge = judge
        self._seeds = seeds
        self._references: dict[RecordingSettings, Reference] = {}

    def evaluate(
        self, voice: MeasuredVoice, progress: ProgressCallback | None = None, *, is_vocoder_judged: bool = True
    ) -> Evaluation:
        """Measure one voice; optionally without passing the recordings through its vocoder."""
        mel = voice.mel
        settings = RecordingSettings(mel, voice.trim_silence_db, voice.loudness_db, voice.trim_noise_db)
        reference = self._reference(settings, progress)
        spoken = self._speak(voice, progress)
        judged = self._judge.judge(
            spoken,
            [sentence for sentence in self._sentences for _ in range(self._seeds)],
            [None if clip is None else clip.samples for clip in reference.recordings for _ in range(self._seeds)],
            mel,
            reference.characters_per_second,
            _named(progress, "synthesis"),
        )
        synthesized = [judged[start : start + self._seeds] for start in range(0, len(judged), self._seeds)]
        times = self._time(voice, progress) if "rtf" in self._judge.metrics else []

        def vocode(frames: np.ndarray) -> np.ndarray:
            return _samples_of(voice.vocode(frames), mel)

        return self._combine(settings, synthesized, times, vocode if is_vocoder_judged else None, progress)

    def evaluate_recordings(
        self, settings: RecordingSettings, vocode: Vocode, progress: ProgressCallback | None = None
    ) -> Evaluation:
        """Measure the recordings and a vocoder alone: the best that a voice can reach."""
        return self._combine(settings, [[] for _ in self._sentences], [], vocode, progress)

    def _combine(
        self,
        settings: RecordingSettings,
        synthesized: Sequence[Sequence[JudgedClip]],
        times: Sequence[Ratio],
        vocode: Vocode | None,
        progress: ProgressCallback | None,
    ) -> Evaluation:
        reference = self._reference(settings, progress)
        vocoded: Sequence[JudgedClip | None] = [None] * len(self._sentences)
        if vocode is not None:
            vocoded = self._judge_vocoder(settings.mel, reference, vocode, progress)
        speakers = [sentence.speaker for sentence in self._sentences]
        rows_of: Sequence[ClipRows] = (
            synthesized, [[clip] for clip in reference.recordings], [[clip] for clip in vocoded]
        )  # fmt: skip
        estimates: dict[str, Estimate | None] = {}
        for suffix, rows in zip(SOURCES, rows_of, strict=True):
            for metric, ratios in clip_ratios(rows, reference.recordings, speakers, self._judge.metrics).items():
                estimates[metric + suffix] = estimate(ratios, is_mean_square=metric in MEAN_SQUARES)
        if "rtf" in self._judge.metrics:
            estimates["rtf"] = estimate([[ratio] for ratio in times])
        recognizer = self._judge.recognizer
        return Evaluation(
            estimates=estimates,
            sentences=self._sentences,
            synthesized=tuple(tuple(row) for row in synthesized),
            recordings=reference.recordings,
            vocoded=tuple(vocoded),
            seeds=self._seeds,
            metrics=self._judge.metrics,
            recognizer=None if recognizer is None else recognizer.name,
            mel=settings.mel,
        )

    def _reference(self, settings: RecordingSettings, progress: ProgressCallback | None) -> Reference:
        if settings not in self._references:
            recorded = {
                index: sentence.recording
                for index, sentence in enumerate(self._sentences)
                if sentence.recording is not None
            }
            loaded = {}
            for index, path in recorded.items():
                loaded[index] = settings.load(path)
                _report(progress, "loading recordings", len(loaded), len(recorded))
            rate = speaking_rate(
                (self._sentences[index].text, self._sentences[index].language, len(samples) / settings.mel.sample_rate)
                for index, samples in loaded.items()
            )
            judged = self._judge_recorded(loaded, loaded, settings.mel, rate, _named(progress, "recordings"))
            self._references[settings] = Reference(judged, rate)
        return self._references[settings]

    def _judge_vocoder(
        self, mel: MelSpec, reference: Reference, vocode: Vocode, progress: ProgressCallback | None
    ) -> tuple[JudgedClip | None, ...]:
        originals = {index: clip.samples for index, clip in enumerate(reference.recordings) if clip is not None}
        vocoded = {}
        for index, samples in originals.items():
            vocoded[index] = copy_recording(samples, mel, vocode)
            _report(progress, "vocoding recordings", len(vocoded), len(originals))
        rate = reference.characters_per_second
        return self._judge_recorded(
            vocoded, originals, mel, rate, _named(progress, "vocoded recordings"), are_copies=True
        )

    def _judge_recorded(
        self,
        clips: Mapping[int, np.ndarray],
        originals: Mapping[int, np.ndarray],
        mel: MelSpec,
        characters_per_second: float,
        progress: ProgressCallback | None,
        are_copies: bool = False,
    ) -> tuple[JudgedClip | None, ...]:
        """Judge clips by the index of their sentence; None where a sentence has none."""
        judged = self._judge.judge(
            list(clips.values()),
            [self._sentences[index] for index in clips],
            [originals[index] for index in clips],
            mel,
            characters_per_second,
            progress,
            are_copies,
        )
        by_index = dict(zip(clips, judged, strict=True))
        return tuple(by_index.get(index) for index in range(len(self._sentences)))

    def _speak(self, voice: MeasuredVoice, progress: ProgressCallback | None) -> list[np.ndarray]:
        """Every sentence with every seed, sentence by sentence; those of one speaker and language are spoken together."""
        jobs = [(sentence, seed) for sentence in self._sentences for seed in range(self._seeds)]
        groups: dict[tuple[str, str | None], list[int]] = {}
        for index, (sentence, _) in enumerate(jobs):
            groups.setdefault((sentence.language, _speaker_of(sentence, voice)), []).append(index)
        spoken: list[np.ndarray] = [np.zeros(0, np.float32)] * len(jobs)
        done = 0
        _report(progress, "speaking", done, len(jobs))
        for (language, speaker), indices in groups.items():
            for start in range(0, len(indices), SENTENCES_AT_ONCE):
                part = indices[start : start + SENTENCES_AT_ONCE]
                texts, seeds = [jobs[index][0].text for index in part], [jobs[index][1] for index in part]
                audios = voice.synthesize_many(texts, seeds=seeds, language=language, speaker=speaker)
                for index, audio in zip(part, audios, strict=True):
                    spoken[index] = _samples_of(audio, voice.mel)
                done += len(part)
                _report(progress, "speaking", done, len(jobs))
        return spoken

    def _time(self, voice: MeasuredVoice, progress: ProgressCallback | None) -> list[Ratio]:
        """Seconds of work over seconds of speech, for some of the sentences."""
        step = max(1, len(self._sentences) // TIMED_SENTENCES)
        timed = self._sentences[::step][:TIMED_SENTENCES]
        ratios = []
        for sentence in timed:
            speaker = _speaker_of(sentence, voice)
            voice.synthesize(sentence.text, language=sentence.language, speaker=speaker, seed=0)
            started = time.perf_counter()
            audio = voice.synthesize(sentence.text, language=sentence.language, speaker=speaker, seed=0)
            ratios.append(Ratio(time.perf_counter() - started, len(audio.samples) / audio.sample_rate))
            _report(progress, "timing", len(ratios), len(timed))
        return ratios


def copy_recording(samples: np.ndarray, mel: MelSpec, vocode: Vocode) -> np.ndarray:
    """A recording through its mel and a vocoder, as long as the recording.

    A vocoder ends at the center of the last frame, up to a frame before the recording does; so the mel is one frame longer than
    the recording. DNSMOS repeats short clips up to 9 s and depends on their length: 5 ms less moved it by 0.05 (12 clips).
    """
    longer = np.pad(samples, (0, mel.hop_length))
    return vocode(mel_numpy(longer, mel))[: len(samples)]


def evaluation_callback(
    sentences: Sequence[Sentence],
    seeds: int = 1,
    recognizer: Recognizer | None = None,
    metrics: Sequence[str] = ("cer", "wer", "failed"),
) -> Callable[[Path | MeasuredVoice], dict[str, float]]:
    """For the trainer: a function from a voice (or its folder) to its metrics by key.

    The models are loaded now, so that a missing package is reported before training. Recordings and vocoder are judged once.
    """
    judge = load_judge(metrics, recognizer, {sentence.language for sentence in sentences})
    evaluator = Evaluator(sentences, judge, seeds)
    fixed: dict[str, float] = {}

    def evaluate(voice: Path | MeasuredVoice) -> dict[str, float]:
        if isinstance(voice, Path):
            from myxtts.synthesis.voice import Voice

            voice = Voice.load(voice)
        evaluation = evaluator.evaluate(voice, is_vocoder_judged=not fixed)
        values = {key: each.value for key, each in evaluation.estimates.items() if each is not None}
        if not fixed:
            fixed.update({key: value for key, value in values.items() if key.endswith(SOURCES[1:])})
        return {**fixed, **values}

    return evaluate


def _speaker_of(sentence: Sentence, voice: MeasuredVoice) -> str | None:
    """The sentence's speaker, for a voice that has several; a voice of one speaker has no choice."""
    return sentence.speaker or None if len(voice.speakers) > 1 else None


def _samples_of(audio: SpokenAudio, mel: MelSpec) -> np.ndarray:
    return resample(np.asarray(audio.samples, np.float32), audio.sample_rate, mel.sample_rate)


def _report(progress: ProgressCallback | None, stage: str, done: int, total: int) -> None:
    if progress is not None:
        progress(stage, done, total)


def _named(progress: ProgressCallback | None, name: str) -> ProgressCallback | None:
    if progress is None:
        return None
    return lambda stage, done, total: progress(f"{stage} {name}", done, total)
