"""Speaker similarity by an embedding that this package did not train: clips in, unit vectors and their cosines out.

The encoder and its weights are those of the package resemblyzer (GE2E, 256 numbers a clip). A sentence is compared with the mean
of the *other* recordings of its speaker, whether it was recorded, vocoded or synthesised: so the recordings' own figure is what
a perfect copy would get, not 1.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
import types
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.fft

from myxtts.audio.clips import SILENT_PEAK, level_loudness, trim_silence
from myxtts.audio.files import resample
from myxtts.audio.mel import MelSpec, mel_numpy
from myxtts.errors import EvaluationError
from myxtts.evaluation import INSTALL_LINE
from myxtts.text.normalize import normalize_text

# MERGED: Character and word error: what was to be said and what was heard, as texts in; edits and lengths out.
#
# Both texts pass through the same normaliser, so that "3" and "three" are the same word, and lose case and punctuation. A rate
# over
# many sentences is the sum of all edits over the sum of all lengths, never a mean of rates: a short sentence does not weigh
# as much as a long one. Spaces count as characters.

APOSTROPHES = frozenset("'’ʼ`")
"""Dropped without a space: "don't" and "dont" are one word, whoever wrote them."""


@dataclass(frozen=True)
class ErrorCount:
    """Edits (substitutions, insertions, deletions) and the length of what was to be said, in characters and in words."""

    character_edits: int
    characters: int
    word_edits: int
    words: int

    @property
    def character_error(self) -> float:
        """Character error as a fraction; above 1 if more was heard than was to be said."""
        return self.character_edits / max(1, self.characters)

    @property
    def word_error(self) -> float:
        """Word error as a fraction."""
        return self.word_edits / max(1, self.words)


def comparable_text(text: str, language: str) -> str:
    """The words of a text as they are compared: numbers read out, lower case, letters and marks only, single spaces."""
    kept = []
    for character in normalize_text(text, language).casefold():
        if character in APOSTROPHES:
            continue
        kept.append(character if unicodedata.category(character)[0] in "LMN" else " ")
    return " ".join("".join(kept).split())


def count_errors(said: str, heard: str, language: str) -> ErrorCount:
    """The errors of one sentence; both texts are made comparable first."""
    expected, received = comparable_text(said, language), comparable_text(heard, language)
    return ErrorCount(
        character_edits=edit_distance(expected, received),
        characters=len(expected),
        word_edits=edit_distance(expected.split(), received.split()),
        words=len(expected.split()),
    )


def sum_errors(counts: Iterable[ErrorCount]) -> ErrorCount:
    """One count over many sentences; its rates are one sum over one count."""
    listed = list(counts)
    return ErrorCount(
        character_edits=sum(count.character_edits for count in listed),
        characters=sum(count.characters for count in listed),
        word_edits=sum(count.word_edits for count in listed),
        words=sum(count.words for count in listed),
    )


def edit_distance(expected: Sequence, received: Sequence) -> int:
    """The least number of substitutions, insertions and deletions that turn one sequence into the other."""
    previous = list(range(len(received) + 1))
    for row, wanted in enumerate(expected, start=1):
        current = [row]
        for column, item in enumerate(received, start=1):
            substituted = previous[column - 1] + (wanted != item)
            current.append(min(substituted, previous[column] + 1, current[-1] + 1))
        previous = current
    return previous[-1]


# MERGED: How far a clip is from the recording of the same sentence: spectra after alignment, and duration; NumPy in, NumPy out.
#
# Mel-cepstral distortion is the RMS difference in dB between the smoothed mel spectra (13 cepstral coefficients, level left
# out) of
# the two clips, along the best alignment in time. Over many sentences it is the sum over all
# aligned frames divided by their number.

CEPSTRA = 13
"""Coefficients 1 to 13 are compared; coefficient 0 is the level."""
DB_PER_NEPER = 20.0 / np.log(10.0)
LEVEL_DB = -23.0
SILENCE_DB = 40.0
"""Silence at both ends, this far below the loudest moment, belongs neither to the spectra nor to the duration."""


@dataclass(frozen=True)
class Distortion:
    """Sums over the aligned frames of one sentence, and both durations without silence at the ends."""

    distance_sum_db: float
    aligned_frames: int
    seconds: float
    recorded_seconds: float


def measure_distortion(samples: np.ndarray, recording: np.ndarray, mel: MelSpec) -> Distortion | None:
    """Compare a clip with its recording, both at the mel's sample rate; None if either holds no sound at all."""
    if not (np.any(samples) and np.any(recording)):
        return None
    spoken, recorded = _bring_to_level(samples, mel.sample_rate), _bring_to_level(recording, mel.sample_rate)
    distances = _frame_distances_db(mel_cepstra(spoken, mel), mel_cepstra(recorded, mel))
    total, frames = align(distances)
    return Distortion(total, frames, len(spoken) / mel.sample_rate, len(recorded) / mel.sample_rate)


def _bring_to_level(samples: np.ndarray, sample_rate: int) -> np.ndarray:
    """Without silence at the ends, and at one level: bands under the mel's floor would tell soft clips from loud ones."""
    return level_loudness(trim_silence(np.asarray(samples, np.float32), sample_rate, SILENCE_DB), sample_rate, LEVEL_DB)


def mel_cepstra(samples: np.ndarray, mel: MelSpec) -> np.ndarray:
    """Mel cepstra without the level, float64 (frames, 13), in nepers."""
    if len(samples) < mel.n_fft:
        samples = np.pad(samples, (0, mel.n_fft - len(samples)))
    spectra = np.asarray(mel_numpy(samples, mel), np.float64)
    return scipy.fft.dct(spectra, type=2, axis=1)[:, 1 : CEPSTRA + 1] / spectra.shape[1]


def align(distances: np.ndarray) -> tuple[float, int]:
    """Dynamic time warping: (rows, columns) distances → the least sum along a monotonic path, and the path's length.

    The path goes from the first pair to the last by steps down, right, or both. One anti-diagonal at a time.
    """
    rows, columns = distances.shape
    total = np.full((rows + 1, columns + 1), np.inf)
    total[0, 0] = 0.0
    for diagonal in range(rows + columns - 1):
        row = np.arange(max(0, diagonal - columns + 1), min(rows, diagonal + 1))
        column = diagonal - row
        best = np.minimum(np.minimum(total[row, column + 1], total[row + 1, column]), total[row, column])
        total[row + 1, column + 1] = distances[row, column] + best
    return float(total[rows, columns]), _path_length(total)


def _path_length(total: np.ndarray) -> int:
    row, column = total.shape[0] - 1, total.shape[1] - 1
    length = 1
    while row > 1 or column > 1:
        both, up, left = total[row - 1, column - 1], total[row - 1, column], total[row, column - 1]
        if both <= up and both <= left:
            row, column = row - 1, column - 1
        elif up <= left:
            row -= 1
        else:
            column -= 1
        length += 1
    return length


def _frame_distances_db(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """(frames of one, frames of other): RMS over the mel scale of the smoothed log spectra's difference, in dB."""
    squares = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1)[None, :] - 2.0 * one @ other.T
    # A spectrum is the sum of c[m] cos(m w) over its coefficients, and each cosine has a mean square of 1/2.
    return DB_PER_NEPER * np.sqrt(np.maximum(squares, 0.0) / 2.0)


# MERGED: DNSMOS: what listeners would say of a clip's quality, on a scale of 1 to 5, as a network guesses; clips in, numbers out.
#
# The network (P.835, overall quality) and its weights are those of the package speechmos. It was made to judge noise suppression,
# so it hears noise and artefacts, hardly prosody: compare it with the recordings' own figure, not with 5.

DNSMOS_RATE = 16000
WINDOW_SAMPLES = 144_160
"""What the network hears at once: 9.01 s. Longer clips are judged in windows, a second apart."""
WORST_SCORE = 1.0
"""Of a clip without any sample, which the network cannot be shown."""


class NaturalnessJudge:
    """speechmos' DNSMOS, overall quality."""

    def __init__(self) -> None:
        missing = [name for name in ("speechmos", "onnxruntime", "librosa") if importlib.util.find_spec(name) is None]
        if missing:
            raise EvaluationError(
                f"DNSMOS needs packages that are not installed: {', '.join(missing)}. "
                f"Run {INSTALL_LINE}, or leave out the metric dnsmos."
            )
        import onnxruntime
        from speechmos import dnsmos

        folder = Path(dnsmos.__file__).parent / "dnsmos_models"
        overall, categories = str(folder / "sig_bak_ovr.onnx"), str(folder / "model_v8.onnx")
        self._network: Any = dnsmos.DNSMOS(overall, categories)
        # One thread each, and none that waits by spinning: clips are judged side by side, and others use the machine, too.
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._network.onnx_sess = onnxruntime.InferenceSession(overall, options)
        self._network.p808_onnx_sess = onnxruntime.InferenceSession(categories, options)

    def score(self, samples: np.ndarray, sample_rate: int) -> float:
        """Overall quality, 1 (bad) to 5 (excellent)."""
        if len(samples) == 0:
            return WORST_SCORE
        heard = resample(np.asarray(samples, np.float32), sample_rate, DNSMOS_RATE)
        # Shorter clips are repeated to the length that the network hears at once; the package doubles them until they are
        # longer, and judges the same sounds several times.
        if len(heard) < WINDOW_SAMPLES:
            heard = np.resize(heard, WINDOW_SAMPLES)
        return float(self._network(np.clip(heard, -1.0, 1.0), DNSMOS_RATE, is_personalized_MOS=False)["ovrl_mos"])


ENCODER_RATE = 16000
SHORTEST_SPEECH = 1600
"""Samples (a tenth of a second) that must be left when silence was cut; with less there is no speaker to compare."""


class SpeakerEncoder:
    """resemblyzer's voice encoder on the CPU."""

    def __init__(self) -> None:
        if any(importlib.util.find_spec(package) is None for package in ("resemblyzer", "torch")):
            raise EvaluationError(
                f"Speaker similarity needs the packages resemblyzer and torch. Run {INSTALL_LINE}, or leave out the metric "
                "similarity."
            )
        with _modules_of_its_time(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its own deprecated calls: nothing that a user of ours could mend
            import resemblyzer
            import torch

            torch.set_num_threads(1)  # clips are embedded side by side instead
            self._package: Any = resemblyzer
            self._encoder: Any = resemblyzer.VoiceEncoder("cpu", verbose=False)

    def embed(self, samples: np.ndarray, sample_rate: int) -> np.ndarray | None:
        """A unit vector float32 (256,), or None if the clip holds no speech."""
        samples = resample(np.asarray(samples, np.float32), sample_rate, ENCODER_RATE)
        if len(samples) < SHORTEST_SPEECH or not np.any(samples):
            return None
        speech = self._package.preprocess_wav(samples)
        if len(speech) < SHORTEST_SPEECH:
            return None
        return self._encoder.embed_utterance(speech)


def speaker_similarities(
    embeddings: Sequence[np.ndarray | None], recordings: Sequence[np.ndarray | None], speakers: Sequence[str]
) -> list[float | None]:
    """Cosine of each sentence's embedding with the mean of its speaker's other recordings; all three in the same order.

    A clip without speech counts 0. None where the speaker has no other recording with speech to compare with.
    """
    sums: dict[str, np.ndarray] = {}
    for recording, speaker in zip(recordings, speakers, strict=True):
        if recording is not None:
            sums[speaker] = sums.get(speaker, np.zeros_like(recording)) + recording
    similarities: list[float | None] = []
    for embedding, recording, speaker in zip(embeddings, recordings, speakers, strict=True):
        total = sums.get(speaker)
        others = None if total is None else total - (0.0 if recording is None else recording)
        norm = 0.0 if others is None else float(np.linalg.norm(others))
        if norm < 1e-3:
            similarities.append(None)
        else:
            similarities.append(0.0 if embedding is None else float(np.dot(embedding, others) / norm))
    return similarities


@contextmanager
def _modules_of_its_time() -> Iterator[None]:
    """While resemblyzer is imported: stand-ins for two modules of its time that current packages have dropped.

    webrtcvad asks pkg_resources for its own version, which setuptools 81 and later do not bring; resemblyzer takes one function
    from scipy.ndimage.morphology, which is deprecated. Both stand-ins are gone afterwards.
    """
    import scipy.ndimage

    versions = types.ModuleType("pkg_resources")
    versions.get_distribution = importlib.metadata.distribution
    morphology = types.ModuleType("scipy.ndimage.morphology")
    morphology.binary_dilation = scipy.ndimage.binary_dilation
    stand_ins = {"pkg_resources": versions, "scipy.ndimage.morphology": morphology}
    replaced = {name: sys.modules[name] for name in stand_ins if name in sys.modules}
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name in stand_ins:
            del sys.modules[name]
        sys.modules.update(replaced)


# MERGED: Which sentences failed, and why: a clip, its text and what was heard in; a reason or None out. Plain functions.
#
# A failed sentence is silent, clipped, of a length far from what its text asks, or not understood at all.

CLIPPED_LEVEL = 0.999
"""Samples from here on stand at the end of the scale."""
CLIPPED_SHARE = 0.002
"""A clip with more of its samples there is audibly distorted."""
"""Silence at the ends, this far below the loudest moment, makes no clip long enough; too long it makes it."""
CHARACTERS_PER_SECOND = 15.0
"""A usual speed of speech, spaces counted; used where there is no recording to tell the speaker's own."""
SLACK_SECONDS = 0.35
"""Added to what the text asks: beginning and end of speech, which weigh most in one word."""
LENGTH_FACTOR = 2.0
"""A clip may be this many times longer or shorter than its text asks."""
NOT_UNDERSTOOD = 0.6
"""Character error from which a sentence counts as not understood…"""
FEWEST_WORDS = 4
"""…if it has at least so many words: recognisers err on single words, spoken well or not."""

REASONS = ("not finite", "silent", "clipped", "too short", "too long", "not understood")


def find_failure(
    samples: np.ndarray,
    sample_rate: int,
    text: str,
    language: str,
    errors: ErrorCount | None = None,
    characters_per_second: float = CHARACTERS_PER_SECOND,
) -> str | None:
    """The first of `REASONS` that applies, or None; `errors` are those of the recogniser, if it was asked."""
    if len(samples) == 0:
        return "silent"
    if not np.isfinite(samples).all():
        return "not finite"
    loudness = np.abs(samples)
    if float(loudness.max()) < SILENT_PEAK:
        return "silent"
    if float(np.mean(loudness >= CLIPPED_LEVEL)) > CLIPPED_SHARE:
        return "clipped"
    spoken_seconds = len(trim_silence(samples, sample_rate, SILENCE_DB)) / sample_rate
    asked = len(comparable_text(text, language)) / characters_per_second
    if spoken_seconds < asked / LENGTH_FACTOR:
        return "too short"
    if len(samples) / sample_rate > (asked + SLACK_SECONDS) * LENGTH_FACTOR:
        return "too long"
    if errors is not None and errors.words >= FEWEST_WORDS and errors.character_error > NOT_UNDERSTOOD:
        return "not understood"
    return None


def speaking_rate(texts: list[str], languages: list[str], seconds: list[float]) -> float:
    """Characters per second over recordings: one sum over one count. The usual speed if there is none."""
    total = sum(seconds)
    if total <= 0.0:
        return CHARACTERS_PER_SECOND
    characters = sum(len(comparable_text(text, language)) for text, language in zip(texts, languages, strict=True))
    return max(1.0, characters) / total
