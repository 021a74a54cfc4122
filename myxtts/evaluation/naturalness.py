"""DNSMOS: what listeners would say of a clip's quality, on a scale of 1 to 5, as a network guesses; clips in, numbers out.

The network (P.835, overall quality) and its weights are those of the package speechmos. It was made to judge noise suppression,
so it hears noise and artefacts, hardly prosody: compare it with the recordings' own figure, not with 5.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

from myxtts.audio.files import resample
from myxtts.errors import EvaluationError

DNSMOS_RATE = 16000
WORST_SCORE = 1.0
"""Of a clip without any sample, which the network cannot be shown."""


class NaturalnessJudge:
    """speechmos' DNSMOS, overall quality."""

    def __init__(self) -> None:
        missing = [name for name in ("speechmos", "onnxruntime", "librosa") if importlib.util.find_spec(name) is None]
        if missing:
            raise EvaluationError(
                f"DNSMOS needs packages that are not installed: {', '.join(missing)}. "
                f"Try `pip install {' '.join(missing)}`, or leave out the metric dnsmos."
            )
        from speechmos import dnsmos

        self._package: Any = dnsmos

    def score(self, samples: np.ndarray, sample_rate: int) -> float:
        """Overall quality, 1 (bad) to 5 (excellent). Clips under 9 s are repeated by the package until they are as long."""
        if len(samples) == 0:
            return WORST_SCORE
        heard = resample(np.asarray(samples, np.float32), sample_rate, DNSMOS_RATE)
        return float(self._package.run(np.clip(heard, -1.0, 1.0), DNSMOS_RATE)["ovrl_mos"])
