"""Sounds made by code, and the reason for which an unusable one is rejected."""

import numpy as np
import pytest

from myxtts.errors import AudioError

RATE = 16000


def tone(seconds: float = 1.0, rate: int = RATE, amplitude: float = 0.3, hz: float = 440.0) -> np.ndarray:
    return (amplitude * np.sin(2 * np.pi * hz * np.arange(int(seconds * rate)) / rate)).astype(np.float32)


def quiet(seconds: float) -> np.ndarray:
    return np.zeros(int(seconds * RATE), np.float32)


def reason_of(action, *arguments) -> str:
    with pytest.raises(AudioError) as caught:
        action(*arguments)
    return caught.value.reason
