"""Advice about recordings before training: how much there is, what is missing or wrong, what to expect, what to record next.

What is measured is measured on every recording. The expectations are estimates by two simple rules (`expected_error_points`,
`training_minutes`), which are described in docs/corpora.md.
"""

from __future__ import annotations

import math
import shlex
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.audio.clips import estimate_bandwidth, estimate_snr, is_clipped
from myxtts.audio.files import read_audio
from myxtts.audio.mel import WIDEBAND_RATE, frames_at
from myxtts.corpus.prompts import LANGUAGES, PAUSE, choose_prompts, pairs_of, prompts_of, sounds_of
from myxtts.corpus.utterance import Rejection, Utterance
from myxtts.errors import AudioError, CorpusError, MyXTTSError, VoiceError
from myxtts.evaluation.text_fit import TextFitter
from myxtts.runtime.machine import usable_cores
from myxtts.runtime.progress import ProgressCallback
from myxtts.synthesis.bundled import bundled_voice
from myxtts.synthesis.options import check_front_end, check_language
from myxtts.synthesis.voice_folder import read_description
from myxtts.text import g2p, phonemes
from myxtts.text.cleanup import base_language
from myxtts.text.normalize import normalize_text

NOISY_SNR_DB = 20.0
"""Recordings whose speech is less above their pauses are noisy. Chosen; not measured."""
NARROW_HZ = 7000.0
"""Recordings with less bandwidth sound dull: telephones have 3,400 Hz, wide-band telephones 7,000."""
RARE_SOUNDS = 10
"""A sound that occurs less often is learned badly. Chosen; not measured."""
MISFIT_FRACTION = 1 / 3
"""Fraction of the median margin of a corpus below which a text does not fit (`text_fit`). Of 20 texts that were exchanged it
found 18 among 120 clips of the voice's own speaker and 18 among 80 of another one, with 0 and 1 false alarms."""
SHOWN_CLIPS = 10
NEXT_SENTENCES = 10
TEXTS_AT_ONCE = 16

FINE_TUNED_RUNS = ((5.0, 0.1), (60.0, 0.0))
"""Minutes of English, and points of character error (Moonshine) above the recordings after fine-tuning `base` (docs/training.md,
docs/voices.md); with 60 minutes there were fewer errors than in the recordings."""
SCRATCH_RUNS = ((5.0, 5.2), (60.0, 1.5))
"""The same from nothing: 2,675 and 4,000 steps."""
POINTS_OF_BASE = {"en": 0.0, "de": 3.2, "nl": 5.5, "fa": 2.1}
"""What `base` itself has in a language above the recordings (Whisper base, docs/voices.md): fine-tuning is not expected to be
better. 0 for English, where it was; languages that are not here are taken for new ones."""
SHORTEST_TRAINING_MINUTES = 1.0
"""With less speech, a clone is advised. Chosen; not measured."""
FINE_TUNING_STEPS = (450, 25.0, 2200)
"""Fewest, per minute of speech, most: as many clips as in the runs of 5, 60 and 78 minutes (docs/training.md, docs/voices.md)."""
SCRATCH_MINUTES, SCRATCH_STEPS = 60.0, 4000
"""With so much speech in a language that no bundled voice has, train from nothing. In the languages of `base` a start from it was
better even then (docs/voices.md)."""
CLIPS_PER_STEP = 16
"""As in the measured runs; the printed command has it as `--batch-size`."""
FINE_TUNING_RATE = "5e-4"
"""`--lr` of the measured run (docs/training.md)."""
FRAMES_PER_SECOND = WIDEBAND_RATE / frames_at(WIDEBAND_RATE)[1]
FLOP_PER_FRAME = 6 * 3.8e6
"""Operations of a step per frame: forward and backward passes take six per weight; tiny has 3.8 M weights."""
STEP_EFFICIENCY = 1.2
"""Operations of a step by that count over those of large matrix products in the same time: 12,700 frames/s on an idle machine
with 240 GFLOP/s. More than 1, because the text encoder works on symbols and not on frames."""
MATRIX_SIZE, MATRIX_SECONDS = 1024, 0.3


@dataclass(frozen=True)
class Coverage:
    """The sounds of the texts of one language."""

    language: str
    sounds: dict[str, int]
    """How often each phoneme occurs."""
    missing: list[str]
    """Phonemes of the language (our own sentences) that never occur."""
    rare: dict[str, int]
    """Phonemes of the language that occur less than `RARE_SOUNDS` times."""
    pair_fraction: float | None
    """Pairs of phonemes of our own sentences that occur, each weighted by the sentences that have it; None without sentences."""
    missing_pairs: list[str]
    """The most frequent pairs of our own sentences that never occur."""
    next_sentences: list[str]
    """To record next: each has the most pairs that are missing."""


@dataclass(frozen=True)
class Quality:
    """The recordings as sound."""

    sample_rates: dict[int, int]
    """Hz → recordings."""
    snr_db: float
    """Median over recordings."""
    bandwidth_hz: float
    """Median over recordings."""
    noisy: list[str]
    """Ids, the noisiest first."""
    narrow: list[str]
    clipped: list[str]


@dataclass(frozen=True)
class Misfit:
    """A text that does not fit its recording."""

    id: str
    text: str
    margin: float | None
    """`TextFit.margin`; None: more symbols than the recording has frames."""


@dataclass(frozen=True)
class Expectation:
    """Estimates, by simple rules."""

    advice: str
    start: str
    """`clone`, `fine-tuning` or `from scratch`."""
    steps: int
    minutes: float
    """Minutes of training on this machine without an accelerator."""
    character_error_points: float
    """Points of character error above the recordings."""
    flags: tuple[str, ...] = ()
    """Flags of the `myxtts train` command that the estimate is about."""


@dataclass(frozen=True)
class Advice:
    """Everything about a corpus."""

    folder: str
    clips: int
    minutes: float
    speakers: dict[str, float]
    """Speaker → minutes."""
    languages: dict[str, int]
    """Language → clips."""
    rejected: dict[str, int]
    """Clips that cannot be used, by reason."""
    quality: Quality
    coverage: list[Coverage]
    misfits: list[Misfit]
    """The worst first."""
    notes: list[str] = field(default_factory=list)
    """What could not be measured, and why."""
    expectation: Expectation | None = None

    def to_json(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def advise(
    folder: str | Path,
    utterances: Sequence[Utterance],
    rejected: Iterable[Rejection],
    voice: str | Path | None,
    progress: ProgressCallback,
) -> Advice:
    """Measure a corpus.

    Args:
        folder: shown.
        utterances: its clips.
        rejected: clips that cannot be used, as the manifest gives them.
        voice: the voice folder whose network aligns texts and recordings; None: the bundled one for each language.
    """
    reasons = Counter(each.reason for each in rejected)
    measured, seconds = _measure_recordings(utterances, reasons, progress)
    usable = [one for one in utterances if one.id in seconds]
    if not usable:
        counted = ", ".join(f"{reason} {count}" for reason, count in reasons.items())
        raise CorpusError(
            f"{folder} has no recording that can be used: {counted}. Expected: WAV, FLAC, Ogg, Opus or MP3 files."
        )
    by_language: dict[str, list[Utterance]] = {}
    for one in usable:
        by_language.setdefault(one.language, []).append(one)
    coverage, misfits, notes = [], [], []
    for language, own in by_language.items():
        try:
            coverage.append(cover(language, [one.text for one in own], progress))
        except MyXTTSError as error:
            notes.append(f"Sounds in {language}: {error}")
        try:
            misfits += find_misfits(own, _aligning_voice(voice, language), progress)
        except MyXTTSError as error:
            notes.append(f"Fit of texts in {language}: {error}")
    speakers: dict[str, float] = {}
    for one in usable:
        speakers[one.speaker] = speakers.get(one.speaker, 0.0) + seconds[one.id] / 60
    minutes = sum(seconds.values()) / 60
    spoiled = {*measured.clipped, *(each.id for each in misfits)}
    good_minutes = sum(length for clip, length in seconds.items() if clip not in spoiled) / 60
    return Advice(
        folder=str(folder),
        clips=len(usable),
        minutes=minutes,
        speakers=dict(sorted(speakers.items(), key=lambda item: -item[1])),
        languages={language: len(own) for language, own in by_language.items()},
        rejected=dict(reasons),
        quality=measured,
        coverage=coverage,
        misfits=sorted(misfits, key=lambda each: -math.inf if each.margin is None else each.margin),
        notes=notes,
        expectation=expect(good_minutes, minutes * 60 / len(usable), measure_gigaflops(), list(by_language)),
    )


# --- the recordings -----------------------------------------------------------------------------------------------------


def _measure_recordings(
    utterances: Sequence[Utterance], reasons: Counter[str], progress: ProgressCallback
) -> tuple[Quality, dict[str, float]]:
    """Quality, and the seconds of each recording that can be read."""
    seconds: dict[str, float] = {}
    snr: dict[str, float] = {}
    bandwidth: dict[str, float] = {}
    rates: Counter[int] = Counter()
    clipped = []
    for done, one in enumerate(utterances, start=1):
        try:
            samples, rate = read_audio(one.path)
        except AudioError as error:
            reasons[error.reason] += 1
            continue
        seconds[one.id] = len(samples) / rate
        snr[one.id] = estimate_snr(samples, rate)
        bandwidth[one.id] = estimate_bandwidth(samples, rate)
        rates[rate] += 1
        clipped += [one.id] if is_clipped(samples) else []
        progress("measuring recordings", done, len(utterances))
    noisy = sorted((clip for clip in snr if snr[clip] < NOISY_SNR_DB), key=snr.__getitem__)
    narrow = sorted((clip for clip in bandwidth if bandwidth[clip] < NARROW_HZ), key=bandwidth.__getitem__)
    median_snr, median_band = (float(np.median(list(each.values()))) if each else 0.0 for each in (snr, bandwidth))
    return Quality(dict(rates), median_snr, median_band, noisy, narrow, clipped), seconds


# --- the texts ----------------------------------------------------------------------------------------------------------


def cover(language: str, texts: Sequence[str], progress: ProgressCallback) -> Coverage:
    """Which sounds and pairs of sounds the texts have, compared with our own sentences of the language, if there are any."""
    counts: Counter[str] = Counter()
    pairs: set[str] = set()
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        part = [normalize_text(text, language) for text in texts[start : start + TEXTS_AT_ONCE]]
        spoken = (
            g2p.phonemize(part, language) if g2p.covers(language) else phonemes.phonemize_with_espeak(part, language)
        )
        for each in map(sounds_of, spoken):
            counts.update(sound for sound in each if sound != PAUSE)
            pairs |= pairs_of(each)
        progress(f"reading texts ({language})", min(len(texts), start + TEXTS_AT_ONCE), len(texts))
    base = base_language(language)
    if base not in LANGUAGES:
        return Coverage(language, dict(counts.most_common()), [], {}, None, [], [])
    prompts = prompts_of(base)
    usual = Counter(pair for prompt in prompts for pair in prompt.pairs)
    known = sorted({sound for pair in usual for sound in pair} - {PAUSE})
    return Coverage(
        language=language,
        sounds=dict(counts.most_common()),
        missing=[sound for sound in known if not counts[sound]],
        rare={sound: counts[sound] for sound in known if 0 < counts[sound] < RARE_SOUNDS},
        pair_fraction=sum(count for pair, count in usual.items() if pair in pairs) / usual.total(),
        missing_pairs=[pair for pair, _ in usual.most_common() if pair not in pairs][:SHOWN_CLIPS],
        next_sentences=[prompt.text for prompt in choose_prompts(prompts, pairs, NEXT_SENTENCES)],
    )


def _aligning_voice(voice: str | Path | None, language: str) -> Path:
    """The folder of a voice that has the language; a `VoiceError` if there is none."""
    folder = bundled_voice(language) if voice is None else Path(voice)
    description = read_description(folder)
    code = check_language(language, description.languages)
    check_front_end(description.tokenizer().front_end, code)
    return folder


def find_misfits(utterances: Sequence[Utterance], folder: Path, progress: ProgressCallback) -> list[Misfit]:
    """Texts of one language that do not fit their recordings, by the network of a voice."""
    stage = f"aligning texts ({utterances[0].language})"
    fits = TextFitter.load(folder).measure(utterances, lambda done: progress(stage, done, len(utterances)))
    margins = np.array([fit.margin for fit in fits.values() if np.isfinite(fit.margin)])
    if not len(margins):
        raise VoiceError("not measured, because it needs several clips with different texts.")
    limit = max(0.0, MISFIT_FRACTION * float(np.median(margins)))
    texts = {one.id: one.text for one in utterances}
    return [
        Misfit(clip, texts[clip], None if math.isinf(fit.margin) else fit.margin)
        for clip, fit in fits.items()
        if fit.margin < limit or fit.margin <= 0
    ]


# --- expectations -------------------------------------------------------------------------------------------------------


def expect(
    minutes: float,
    mean_seconds: float,
    gigaflops: float,
    languages: Sequence[str],
    frames_per_second: float = FRAMES_PER_SECOND,
) -> Expectation:
    """What to expect of so many minutes of usable speech; an estimate.

    Args:
        minutes: without clipped recordings and texts that do not fit.
        mean_seconds: of a recording.
        gigaflops: of this machine (`measure_gigaflops`).
        languages: of the recordings.
        frames_per_second: of the mels.
    """
    fewest, per_minute, most = FINE_TUNING_STEPS
    if minutes < SHORTEST_TRAINING_MINUTES:
        advice = "Too little to train on. Clone the speaker (myxtts clone), or record the sentences below."
        return Expectation(advice, "clone", 0, 0.0, 0.0)
    if minutes < SCRATCH_MINUTES or POINTS_OF_BASE.keys() >= set(languages):
        start, steps = "fine-tuning", round(min(most, max(fewest, per_minute * minutes)))
        advice = "Start from the bundled voice that fits the language (--init-from bundled)."
        flags = ("--init-from", "bundled", "--lr", FINE_TUNING_RATE)
    else:
        start, steps = "from scratch", SCRATCH_STEPS
        advice = "Enough to train from scratch; starting from a bundled voice (--init-from bundled) is faster."
        flags = ()
    flags += ("--max-steps", str(steps), "--batch-size", str(CLIPS_PER_STEP))
    points = max(expected_error_points(minutes, start == "fine-tuning", language) for language in languages)
    estimated = training_minutes(steps, mean_seconds, gigaflops, frames_per_second)
    return Expectation(advice, start, steps, estimated, points, flags)


def expected_error_points(minutes: float, is_fine_tuned: bool, language: str) -> float:
    """Points of character error above the recordings."""
    if is_fine_tuned and language in POINTS_OF_BASE:
        return max(_between(FINE_TUNED_RUNS, minutes), POINTS_OF_BASE[language])
    return _between(SCRATCH_RUNS, minutes)


def _between(runs: Sequence[tuple[float, float]], minutes: float) -> float:
    """The points of runs of so many minutes: between the measured ones linear in the logarithm of the minutes."""
    known, points = zip(*runs, strict=True)
    return float(np.interp(math.log(minutes), np.log(known), points))


def training_minutes(steps: int, mean_seconds: float, gigaflops: float, frames_per_second: float) -> float:
    """Minutes of a training of the size tiny: operations of all frames over the speed of this machine's matrix products."""
    frames = steps * CLIPS_PER_STEP * mean_seconds * frames_per_second
    return frames * FLOP_PER_FRAME / (STEP_EFFICIENCY * gigaflops * 1e9) / 60


def measure_gigaflops() -> float:
    """Billions of operations per second of NumPy's matrix products on all cores; other programs do not count.

    It is the speed per second of processor time, times the number of cores.
    """
    matrix = np.random.default_rng(0).random((MATRIX_SIZE, MATRIX_SIZE), np.float32)
    product = np.matmul(matrix, matrix)  # starts the threads
    products, started = 0, time.process_time()
    while (seconds := time.process_time() - started) < MATRIX_SECONDS:
        np.matmul(matrix, matrix, out=product)
        products += 1
    return usable_cores() * products * 2 * MATRIX_SIZE**3 / seconds / 1e9


# --- for people ---------------------------------------------------------------------------------------------------------


def advice_lines(advice: Advice) -> list[str]:
    """The advice as text."""
    quality = advice.quality
    lines = [
        f"{advice.folder}: {advice.clips} clips, {advice.minutes:.1f} minutes",
        f"speakers: {_listed({name: f'{minutes:.1f} min' for name, minutes in advice.speakers.items()})}",
        f"languages: {_listed(advice.languages)}",
    ]
    if advice.rejected:
        lines.append(f"cannot be used: {_listed(advice.rejected)}")
    lines += [
        f"sample rates: {_listed({f'{rate} Hz': count for rate, count in quality.sample_rates.items()})}",
        f"noise: speech is {quality.snr_db:.0f} dB above the pauses (median); {_clips(quality.noisy, 'noisy')}",
        f"bandwidth: {quality.bandwidth_hz:,.0f} Hz (median); {_clips(quality.narrow, f'below {NARROW_HZ:,.0f} Hz')}",
        f"clipping: {_clips(quality.clipped, 'clipped')}",
    ]
    for each in advice.coverage:
        lines += _coverage_lines(each)
    found = f"{len(advice.misfits)} of {advice.clips}" if advice.misfits else "none found"
    lines.append(f"texts that do not fit their recording: {found}")
    for misfit in advice.misfits[:SHOWN_CLIPS]:
        margin = "too long" if misfit.margin is None else f"{misfit.margin:+.2f}"
        lines.append(f"  {misfit.id} ({margin}): {misfit.text:.80}")
    if len(advice.misfits) > SHOWN_CLIPS:
        lines.append(f"  … and {len(advice.misfits) - SHOWN_CLIPS} more (--json lists all)")
    lines += [f"not measured: {note}" for note in advice.notes]
    if advice.expectation is not None:
        lines += _expectation_lines(advice, advice.expectation)
    for each in advice.coverage:
        if each.next_sentences:
            lines += [f"record next ({each.language}):", *(f"  {text}" for text in each.next_sentences)]
    return lines


def _coverage_lines(coverage: Coverage) -> list[str]:
    label = f"sounds ({coverage.language})"
    if coverage.pair_fraction is None:
        return [f"{label}: {len(coverage.sounds)} phonemes; MyXTTS has no sentences to compare them with"]
    missing = f"missing {' '.join(coverage.missing)}" if coverage.missing else "none missing"
    rare = f"; rare {_listed(coverage.rare)}" if coverage.rare else ""
    pairs = f"{coverage.pair_fraction:.0%} of the pairs of ordinary sentences"
    lacking = f", without {' '.join(coverage.missing_pairs)}" if coverage.missing_pairs else ""
    return [f"{label}: {missing}{rare}; {pairs}{lacking}"]


def _expectation_lines(advice: Advice, expectation: Expectation) -> list[str]:
    lines = [f"advice: {expectation.advice}"]
    if expectation.steps:
        hours = expectation.minutes / 60
        shown = f"{expectation.minutes:.0f} minutes" if hours < 2 else f"{hours:.1f} hours"
        lines.append(
            f"estimate: {expectation.start}, {expectation.steps:,} steps, about {shown} on this machine without a GPU; character "
            f"error about {expectation.character_error_points:.0f} points above the recordings (docs/corpora.md says how)"
        )
        language = ["--language", next(iter(advice.languages))] if len(advice.languages) == 1 else []
        command = ["myxtts", "train", "--train-data", advice.folder, *language, *expectation.flags]
        lines.append(f"command: {shlex.join([*command, '--checkpoint-dir', 'runs/my-voice'])}")
    return lines


def _listed(values: Mapping[str, object]) -> str:
    shown = [f"{name} {value}" for name, value in list(values.items())[:SHOWN_CLIPS]]
    return ", ".join(shown) + (f" and {len(values) - SHOWN_CLIPS} more" if len(values) > SHOWN_CLIPS else "")


def _clips(ids: Sequence[str], what: str) -> str:
    if not ids:
        return f"no clip is {what}"
    more = ", …" if len(ids) > 3 else ""
    return f"{len(ids)} {what} ({', '.join(ids[:3])}{more})"
