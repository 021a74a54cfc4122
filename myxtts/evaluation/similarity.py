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
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from myxtts.audio.files import resample
from myxtts.errors import EvaluationError
from myxtts.evaluation import INSTALL_LINE

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
