"""How well texts fit their recordings, by the network of a voice and without TensorFlow.

The text encoder of a voice predicts a mean mel for each symbol. The best monotonic path of the frames through these means
(Glow-TTS, arXiv 2005.11129; `myxtts.models.aligner` in training) gives an error per frame. What an error means depends on
speaker and room, so it is compared with the errors of other texts of the same corpus on the same recording: a text that fits
no better than those is not what is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from myxtts.audio.mel import mel_numpy
from myxtts.corpus.utterance import Utterance
from myxtts.errors import AudioError, MyXTTSError
from myxtts.evaluation.evaluate import RecordingSettings
from myxtts.synthesis.options import SpeechOptions
from myxtts.synthesis.speaker import Speaker
from myxtts.synthesis.voice import Voice
from myxtts.synthesis.voice_folder import read_weights

OTHER_TEXTS = 4
"""Texts that each recording is compared with, the nearest in length. Chosen; not measured."""
MEAN_PROJECTION = "mean_projection"
"""Layer that predicts the mean mel of a symbol from its features."""


@dataclass(frozen=True)
class TextFit:
    """How well a text fits its recording."""

    error: float
    """Half the squared distance of a frame to the mean of its symbol, mean over frames and bands; infinite if the recording has
    fewer frames than the text has symbols."""
    margin: float
    """By how much other texts are worse, as a fraction of their error; 0 or less: the text is not what is said."""


def path_errors(mel: np.ndarray, means: Sequence[np.ndarray]) -> np.ndarray:
    """The error of a recording under several texts, float64 (texts,); infinite where a text has more symbols than frames.

    Args:
        mel: normalized, float32 (frames, n_mels).
        means: for each text float32 (symbols, n_mels).
    """
    frames, n_mels = mel.shape
    longest = max(map(len, means))
    scores = np.full((len(means), frames, longest), -np.inf)
    for index, each in enumerate(means):
        scores[index, :, : len(each)] = mel @ each.T - 0.5 * np.sum(each**2, axis=1)
    best = np.full((len(means), longest), -np.inf)
    best[:, 0] = scores[:, 0, 0]
    for frame in range(1, frames):  # each symbol has at least one frame, and none is skipped
        best[:, 1:] = np.maximum(best[:, 1:], best[:, :-1])
        best += scores[:, frame]
    ends = best[np.arange(len(means)), [len(each) - 1 for each in means]]
    return (0.5 * np.sum(mel.astype(np.float64) ** 2) - ends) / (frames * n_mels)


class TextFitter:
    """Measures how well texts fit recordings with one voice."""

    def __init__(self, voice: Voice, weights: Mapping[str, np.ndarray]):
        """`weights`: of the voice, by name."""
        self._voice = voice
        self._kernel, self._bias = weights[f"{MEAN_PROJECTION}/kernel"], weights[f"{MEAN_PROJECTION}/bias"]
        self._mean, self._deviation = weights["mel_mean"], weights["mel_deviation"]
        self._settings = RecordingSettings(
            self._voice.mel, self._voice.trim_silence_db, self._voice.loudness_db, self._voice.trim_noise_db
        )

    @classmethod
    def load(cls, folder: Path) -> TextFitter:
        """With the voice in a folder."""
        return cls(Voice.load(folder), read_weights(folder)[1])

    def measure(
        self, utterances: Sequence[Utterance], progress: Callable[[int], None] = lambda done: None
    ) -> dict[str, TextFit]:
        """The fit of every utterance by id, of one language; those that cannot be read or spoken are left out."""
        ids = self._encode(utterances)
        order = sorted(ids, key=lambda clip: len(ids[clip]))
        index_of = {clip: index for index, clip in enumerate(order)}
        texts = {one.id: one.text for one in utterances}
        speakers = self._speakers(utterances)
        fits = {}
        for done, one in enumerate(utterances, start=1):
            if one.id in ids:
                others = (each for each in _neighbors(order, index_of[one.id]) if texts[each] != one.text)
                others = list(islice(others, OTHER_TEXTS))
                fit = self._fit(one, speakers.get(one.speaker), ids[one.id], [ids[each] for each in others])
                fits |= {} if fit is None else {one.id: fit}
            progress(done)
        return fits

    def _encode(self, utterances: Sequence[Utterance]) -> dict[str, list[int]]:
        language = self._voice.sampling(SpeechOptions(language=utterances[0].language)).language
        code = self._voice.languages[language]
        encoded = self._voice.tokenizer.encode_many([one.text for one in utterances], code)
        return {one.id: each.ids for one, each in zip(utterances, encoded, strict=True) if each.ids}

    def _speakers(self, utterances: Sequence[Utterance]) -> Mapping[str, Speaker]:
        """A clone of every speaker from a recording that is long enough; none for a voice that cannot clone."""
        speakers: dict[str, Speaker] = {}
        for one in utterances if self._voice.can_clone else ():
            if one.speaker not in speakers:
                try:
                    speakers[one.speaker] = self._voice.clone(one.path)
                except MyXTTSError:  # too short, silent or damaged: another recording of the speaker may do
                    continue
        return speakers

    def _fit(
        self, one: Utterance, speaker: Speaker | None, ids: list[int], others: Sequence[list[int]]
    ) -> TextFit | None:
        try:
            mel = mel_numpy(self._settings.load(one.path), self._voice.mel)
        except AudioError:  # reported with the recordings
            return None
        sampling = self._voice.sampling(SpeechOptions(language=one.language, speaker=speaker))
        means = [
            self._voice.engine.encode(each, sampling).features @ self._kernel + self._bias for each in (ids, *others)
        ]
        own, *compared = path_errors((mel - self._mean) / self._deviation, means)
        finite = [error for error in compared if np.isfinite(error)]
        other = float(np.mean(finite)) if finite else np.inf
        if not np.isfinite(own):
            return TextFit(np.inf, -np.inf)
        return TextFit(float(own), (other - own) / other if finite else np.nan)


def _neighbors(order: Sequence[str], index: int) -> Iterator[str]:
    """The entries around an index, the nearest first."""
    for distance in range(1, len(order)):
        for other in (index - distance, index + distance):
            if 0 <= other < len(order):
                yield order[other]
