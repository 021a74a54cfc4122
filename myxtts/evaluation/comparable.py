"""The form in which clips of any source are compared: silence trimmed at both ends, and one level. NumPy only."""

from __future__ import annotations

import numpy as np

from myxtts.audio.clips import condition

TRIM_DB = 40.0
"""Silence at both ends, this far below the loudest moment, counts for nothing."""
LEVEL_DB = -23.0
"""Level of the speech (dB of full scale): recognizers and DNSMOS would rate a soft clip as a bad one."""


def comparable_clip(samples: np.ndarray, sample_rate: int) -> np.ndarray:
    """A clip without silence at its ends and at `LEVEL_DB`, float32 (samples,); an empty clip stays empty."""
    samples = np.asarray(samples, np.float32)
    return condition(samples, sample_rate, TRIM_DB, LEVEL_DB) if len(samples) else samples
