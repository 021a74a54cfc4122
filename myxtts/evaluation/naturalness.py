"""DNSMOS: what listeners would say of a clip's quality, on a scale of 1 to 5, as a network guesses; clips in, numbers out.

The network (P.835, overall quality) and its weights are those of the package speechmos. It was made to judge noise suppression,
so it hears noise and artefacts, hardly prosody: compare it with the recordings' own figure, not with 5.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.audio.files import resample
from myxtts.errors import EvaluationError
from myxtts.evaluation import INSTALL_LINE

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
