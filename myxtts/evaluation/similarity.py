"""Speaker similarity by an embedding that this package did not train: GE2E (Wan et al., 2018) of the package resemblyzer.

A clip is compared with the mean of the *other* recordings of its speaker, whether it was recorded, vocoded or synthesized. So the
value of the recordings is what a perfect copy would get, not 1.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from myxtts.audio.files import resample
from myxtts.evaluation.packages import check_packages
from myxtts.runtime.startup import removed_modules

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
