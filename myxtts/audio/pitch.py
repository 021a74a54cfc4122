"""The pitch (fundamental frequency) of speech, one value per mel frame, by WORLD's DIO and StoneMask (Morise et al., 2016).

They take 0.003 s of CPU time per second of speech; pYIN of librosa takes 0.075 s, WORLD's Harvest 0.12 s.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from myxtts.audio.mel import MelSpec, num_frames
from myxtts.errors import AudioError
from myxtts.runtime.startup import removed_modules

LOWEST_HZ, HIGHEST_HZ = 55.0, 600.0
"""Of speech: low male voices to high voices of women and children."""


def track_pitch(
    samples: np.ndarray, mel: MelSpec, lowest_hz: float = LOWEST_HZ, highest_hz: float = HIGHEST_HZ
) -> np.ndarray:
    """Hz at the center of each mel frame, float32 (frames,); 0 where a frame is unvoiced.

    Args:
        samples: (samples,) at the mel's sample rate.
    """
    pyworld = load_pyworld()
    signal = np.asarray(samples, np.float64)
    rough, times = pyworld.dio(
        signal,
        mel.sample_rate,
        f0_floor=lowest_hz,
        f0_ceil=highest_hz,
        frame_period=1000.0 * mel.hop_length / mel.sample_rate,
    )
    found = pyworld.stonemask(signal, rough, times, mel.sample_rate)
    pitch = np.zeros(num_frames(len(signal), mel), np.float32)
    length = min(len(pitch), len(found))
    pitch[:length] = found[:length]
    return pitch


@functools.cache
def load_pyworld() -> Any:
    """The package; raises an `AudioError` where it is not installed."""
    try:
        with removed_modules():
            import pyworld
    except ModuleNotFoundError:
        raise AudioError(
            "Tracking the pitch of recordings needs pyworld, which is not installed. Run `pip install '.[train]'`.",
            "pyworld is missing",
        ) from None
    return pyworld
