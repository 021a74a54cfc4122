"""Sound quality as listeners would rate it: DNSMOS of any clip, and PESQ of a clip against its recording.

DNSMOS P.835 (Reddy et al., 2022) is a network made to rate noise suppression: it rates noise and artifacts, hardly prosody, so
compare it with the value of the recordings, not with 5. PESQ (ITU-T P.862.2, wideband) compares two signals moment by moment,
so it suits copy synthesis (a recording through the vocoder), not a sentence that was spoken again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from myxtts.audio.clips import level_loudness
from myxtts.audio.files import resample
from myxtts.evaluation.comparable import LEVEL_DB
from myxtts.evaluation.packages import check_packages

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
