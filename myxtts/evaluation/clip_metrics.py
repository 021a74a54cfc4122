"""Metrics of one clip: how it sounds, how far it is from a recording of the same sentence, and what a recognizer makes of it.

- DNSMOS P.835 (Reddy et al., 2022) is a network made to rate noise suppression: it rates noise and artifacts, hardly prosody, so
  compare it with the value of the recordings, not with 5.
- PESQ (ITU-T P.862.2, wideband) compares two signals moment by moment, so it suits copy synthesis (a recording through the
  vocoder), not a sentence that was spoken again.
- Speaker similarity uses an embedding that this package did not train: GE2E (Wan et al., 2018) of the package resemblyzer. A clip
  is compared with the mean of the *other* recordings of its speaker, whether it was recorded, vocoded or synthesized. So the
  value of the recordings is what a perfect copy would get, not 1.
- Mel-cepstral distortion is the RMS difference in dB between the smoothed mel spectra (13 cepstral coefficients, without the
  level), along the path of dynamic time warping (Kubichek, 1993, "Mel-cepstral distance measure for objective speech quality
  assessment"). The log-F0 error is the RMS difference of the natural logarithms of the pitch over the pairs of frames on that
  path in which both are voiced.
- Errors are characters and words that a recognizer returned differently. Both texts are normalized in the same way, so that "3"
  and "three" are the same word, and lose case and punctuation. Spaces count as characters. The rate over many sentences is the
  sum of all edits over the sum of all lengths.
- A clip failed if it is silent, clipped, of a length far from what its text needs, or not understood.
"""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.audio.clips import SILENT_PEAK, condition, level_loudness, track_pitch, trim_silence
from myxtts.audio.files import resample
from myxtts.audio.mel import MelSpec, mel_numpy
from myxtts.evaluation.metrics import Ratio, check_packages
from myxtts.runtime.startup import removed_modules
from myxtts.text.normalize import normalize_text

TRIM_DB = 40.0
"""Silence at both ends, this far below the loudest moment, counts for nothing."""
LEVEL_DB = -23.0
"""Level of the speech (dB of full scale): recognizers and DNSMOS would rate a soft clip as a bad one."""


def comparable_clip(samples: np.ndarray, sample_rate: int) -> np.ndarray:
    """A clip without silence at its ends and at `LEVEL_DB`, float32 (samples,); an empty clip stays empty."""
    samples = np.asarray(samples, np.float32)
    return condition(samples, sample_rate, TRIM_DB, LEVEL_DB) if len(samples) else samples


CEPSTRA = 13
"""Coefficients 1 to 13 are compared; coefficient 0 is the level."""
DB_PER_NEPER = 20.0 / np.log(10.0)
LOWEST_F0_HZ, HIGHEST_F0_HZ = 60.0, 500.0
"""Range of the pitch of speech, from low male voices to high voices of women and children."""


def compare_with_recording(
    samples: np.ndarray, recording: np.ndarray, mel: MelSpec, metrics: Collection[str]
) -> Mapping[str, Ratio]:
    """Compare a clip with its recording, both float32 (samples,) at the mel's sample rate.

    Returns those of `duration_error`, `mcd` and `log_f0_rmse` (as mean square) that are in `metrics` and can be measured: nothing
    if either clip is silent, no `log_f0_rmse` if no two aligned frames are voiced.
    """
    if not (np.any(samples) and np.any(recording)):
        return {}
    spoken, recorded = comparable_clip(samples, mel.sample_rate), comparable_clip(recording, mel.sample_rate)
    ratios = {}
    if "duration_error" in metrics:
        seconds, recorded_seconds = len(spoken) / mel.sample_rate, len(recorded) / mel.sample_rate
        ratios["duration_error"] = Ratio(abs(seconds - recorded_seconds), recorded_seconds)
    if not {"mcd", "log_f0_rmse"} & set(metrics):
        return ratios
    distances = _frame_distances_db(mel_cepstra(spoken, mel), mel_cepstra(recorded, mel))
    path = align(distances)
    if "mcd" in metrics:
        ratios["mcd"] = Ratio(float(distances[tuple(path.T)].sum()), len(path))
    if "log_f0_rmse" in metrics:
        spoken_f0, recorded_f0 = (track_pitch(one, mel, LOWEST_F0_HZ, HIGHEST_F0_HZ) for one in (spoken, recorded))
        squares = log_f0_squares(spoken_f0, recorded_f0, path)
        if len(squares):
            ratios["log_f0_rmse"] = Ratio(float(squares.sum()), len(squares))
    return ratios


def mel_cepstra(samples: np.ndarray, mel: MelSpec) -> np.ndarray:
    """Mel cepstra without the level, float64 (frames, 13), in nepers."""
    from scipy.fft import dct

    if len(samples) < mel.n_fft:
        samples = np.pad(samples, (0, mel.n_fft - len(samples)))
    spectra = np.asarray(mel_numpy(samples, mel), np.float64)
    cepstra = np.asarray(dct(spectra, type=2, axis=1))
    return cepstra[:, 1 : CEPSTRA + 1] / spectra.shape[1]


def align(distances: np.ndarray) -> np.ndarray:
    """Dynamic time warping: distances (rows, columns) → the cheapest monotonic path, int (pairs, 2), in order."""
    # 3 to 10 times as fast as a NumPy loop over anti-diagonals, and the same sums (100 to 600 frames).
    from librosa.sequence import dtw

    _, path = dtw(C=distances)
    return path[::-1]


def log_f0_squares(spoken_f0: np.ndarray, recorded_f0: np.ndarray, path: np.ndarray) -> np.ndarray:
    """Squared differences of the natural logarithms over the pairs of `path` in which both frames are voiced."""
    pairs = path[(path[:, 0] < len(spoken_f0)) & (path[:, 1] < len(recorded_f0))]
    spoken, recorded = spoken_f0[pairs[:, 0]], recorded_f0[pairs[:, 1]]
    is_voiced = (spoken > 0.0) & (recorded > 0.0)
    return np.log(spoken[is_voiced] / recorded[is_voiced]) ** 2


def _frame_distances_db(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """(frames of one, frames of other): RMS over the mel scale of the smoothed log spectra's difference, in dB."""
    squares = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1)[None, :] - 2.0 * one @ other.T
    # A spectrum is the sum of c[m] cos(m w) over its coefficients, and each cosine has a mean square of 1/2.
    return DB_PER_NEPER * np.sqrt(np.maximum(squares, 0.0) / 2.0)


QUALITY_RATE = 16000
"""Hz, of both measures."""
WINDOW_SAMPLES = 144_160
"""Input of the DNSMOS network: 9.01 s. Longer clips are rated in windows that start one second apart."""
WORST_SCORE = 1.0
"""DNSMOS of a clip without samples, which the network cannot rate."""


class NaturalnessJudge:
    """DNSMOS of the package speechmos, overall quality."""

    def __init__(self, network: Any):
        self._network = network

    @classmethod
    def load(cls) -> NaturalnessJudge:
        """Load the network and its weights, which are inside the package."""
        check_packages(["dnsmos"])
        import onnxruntime
        from speechmos import dnsmos

        folder = Path(dnsmos.__file__).parent / "dnsmos_models"
        overall, categories = str(folder / "sig_bak_ovr.onnx"), str(folder / "model_v8.onnx")
        network: Any = dnsmos.DNSMOS(overall, categories)
        # One thread per session, because clips are rated in parallel. Idle threads of a larger pool would spin.
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        network.onnx_sess = onnxruntime.InferenceSession(overall, options)
        network.p808_onnx_sess = onnxruntime.InferenceSession(categories, options)
        return cls(network)

    def score(self, samples: np.ndarray, sample_rate: int) -> float:
        """Overall quality at one level, 1 (bad) to 5 (excellent)."""
        if len(samples) == 0:
            return WORST_SCORE
        leveled = level_loudness(np.asarray(samples, np.float32), sample_rate, LEVEL_DB)
        rated = resample(leveled, sample_rate, QUALITY_RATE)
        # Shorter clips are repeated to the network's length; the package would double them until they are longer, and rate
        # the same sounds several times.
        if len(rated) < WINDOW_SAMPLES:
            rated = np.resize(rated, WINDOW_SAMPLES)
        return float(self._network(np.clip(rated, -1.0, 1.0), QUALITY_RATE, is_personalized_MOS=False)["ovrl_mos"])


def measure_pesq(samples: np.ndarray, recording: np.ndarray, sample_rate: int) -> float | None:
    """Wideband PESQ of a clip against its recording, 1.0 to 4.64; None for clips in which PESQ finds no speech."""
    import pesq

    if not (np.any(samples) and np.any(recording)):
        return None
    clip, reference = (
        resample(np.asarray(each, np.float32), sample_rate, QUALITY_RATE) for each in (samples, recording)
    )
    try:  # the reference code has global state; the package holds Python's lock while it runs
        return float(pesq.pesq(QUALITY_RATE, reference, clip, "wb"))
    except (pesq.NoUtterancesError, pesq.BufferTooShortError):
        return None


ENCODER_RATE = 16000
SHORTEST_SPEECH = 1600
"""Samples (0.1 s) that must be left without silence; with less there is no speaker to compare."""
SMALLEST_NORM = 1e-3
"""A sum of unit vectors that is shorter has no direction: the speaker has no other recording."""


class SpeakerEmbedder:
    """The voice encoder of resemblyzer on the CPU."""

    def __init__(self, package: Any, encoder: Any):
        self._package, self._encoder = package, encoder

    @classmethod
    def load(cls) -> SpeakerEmbedder:
        """Load the encoder and its weights, which are inside the package."""
        check_packages(["similarity"])
        with removed_modules(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated calls inside the package: nothing that our users could fix
            import resemblyzer
            import torch

            torch.set_num_threads(1)  # clips are embedded in parallel instead
            return cls(resemblyzer, resemblyzer.VoiceEncoder("cpu", verbose=False))

    def embed(self, samples: np.ndarray, sample_rate: int) -> np.ndarray | None:
        """A unit vector, float32 (256,); None if the clip holds no speech."""
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

    A clip without speech counts 0. None where the speaker has no other recording with speech.
    """
    sums: dict[str, np.ndarray] = {}
    for recording, speaker in zip(recordings, speakers, strict=True):
        if recording is not None:
            sums[speaker] = sums.get(speaker, np.zeros_like(recording)) + recording
    similarities: list[float | None] = []
    for embedding, recording, speaker in zip(embeddings, recordings, speakers, strict=True):
        total = sums.get(speaker)
        if total is None:
            similarities.append(None)
            continue
        others = total if recording is None else total - recording
        norm = float(np.linalg.norm(others))
        if norm < SMALLEST_NORM:
            similarities.append(None)
        else:
            similarities.append(0.0 if embedding is None else float(np.dot(embedding, others) / norm))
    return similarities


APOSTROPHES = frozenset("'’ʼ`")
"""Removed without a space: "don't" and "dont" are one word."""


@dataclass(frozen=True)
class ErrorCount:
    """Edits (substitutions, insertions, deletions) and the length of the expected text, in characters and in words."""

    character_edits: int
    characters: int
    word_edits: int
    words: int

    @property
    def character_error(self) -> float:
        """Character error as a fraction; above 1 if more was recognized than expected."""
        return self.character_edits / max(1, self.characters)


def count_errors(expected: str, recognized: str, language: str) -> ErrorCount:
    """Count the errors of one sentence."""
    from rapidfuzz.distance import Levenshtein

    expected, recognized = comparable_text(expected, language), comparable_text(recognized, language)
    expected_words, recognized_words = expected.split(), recognized.split()
    return ErrorCount(
        character_edits=Levenshtein.distance(expected, recognized),
        characters=len(expected),
        word_edits=Levenshtein.distance(expected_words, recognized_words),
        words=len(expected_words),
    )


def sum_errors(counts: Iterable[ErrorCount]) -> ErrorCount:
    """Add the counts of many sentences."""
    listed = list(counts)
    return ErrorCount(
        character_edits=sum(count.character_edits for count in listed),
        characters=sum(count.characters for count in listed),
        word_edits=sum(count.word_edits for count in listed),
        words=sum(count.words for count in listed),
    )


def comparable_text(text: str, language: str) -> str:
    """The words of a text as they are compared: numbers as words, lower case, only letters and marks, single spaces."""
    kept = []
    for character in normalize_text(text, language).casefold():
        if character in APOSTROPHES:
            continue
        kept.append(character if unicodedata.category(character)[0] in "LMN" else " ")
    return " ".join("".join(kept).split())


CLIPPED_LEVEL = 0.999
"""Samples from here on are at full scale."""
CLIPPED_FRACTION = 0.002
"""A clip with more of its samples there is audibly distorted."""
CHARACTERS_PER_SECOND = 15.0
"""A usual speaking rate, spaces counted; used where no recording gives the speaker's own."""
SLACK_SECONDS = 0.35
"""Added to what the text needs: the beginning and end of speech, which weigh most in a single word."""
LENGTH_FACTOR = 2.0
"""A clip may be this many times longer or shorter than its text needs."""
NOT_UNDERSTOOD = 0.6
"""Character error from which a sentence counts as not understood…"""
FEWEST_WORDS = 4
"""…if it has at least so many words: recognizers fail on single words, spoken well or not."""


def find_failure(
    samples: np.ndarray,
    sample_rate: int,
    text: str,
    language: str,
    errors: ErrorCount | None = None,
    characters_per_second: float = CHARACTERS_PER_SECOND,
) -> str | None:
    """Why a clip failed: not finite, silent, clipped, too short, too long, not understood; None if it did not.

    Args:
        samples: float (samples,).
        sample_rate: in Hz.
        text: what was to be spoken, in `language`.
        language: a language code.
        errors: those of the recognizer, if one was used.
        characters_per_second: the speaking rate that is expected.
    """
    if len(samples) == 0:
        return "silent"
    if not np.isfinite(samples).all():
        return "not finite"
    magnitudes = np.abs(samples)
    if float(magnitudes.max()) < SILENT_PEAK:
        return "silent"
    if float(np.mean(magnitudes >= CLIPPED_LEVEL)) > CLIPPED_FRACTION:
        return "clipped"
    # Silence at the ends does not make a clip long enough, but it can make it too long.
    spoken_seconds = len(trim_silence(samples, sample_rate, TRIM_DB)) / sample_rate
    needed_seconds = len(comparable_text(text, language)) / characters_per_second
    if spoken_seconds < needed_seconds / LENGTH_FACTOR:
        return "too short"
    if len(samples) / sample_rate > (needed_seconds + SLACK_SECONDS) * LENGTH_FACTOR:
        return "too long"
    if errors is not None and errors.words >= FEWEST_WORDS and errors.character_error > NOT_UNDERSTOOD:
        return "not understood"
    return None


def speaking_rate(recorded: Iterable[tuple[str, str, float]]) -> float:
    """Characters per second over recordings (text, language, seconds); the usual rate if there are none."""
    characters, seconds = 0, 0.0
    for text, language, clip_seconds in recorded:
        characters += len(comparable_text(text, language))
        seconds += clip_seconds
    return max(1, characters) / seconds if seconds > 0.0 else CHARACTERS_PER_SECOND
