"""The usual way: soundfile and librosa, one clip at a time. The baseline of the loader and of `prepare`."""

from __future__ import annotations

import librosa
import numpy as np
import soundfile


def librosa_mel(path: str, sample_rate: int, n_fft: int, hop_length: int, n_mels: int, log_floor: float) -> np.ndarray:
    """Log-mel of a recording, float32 (frames, n_mels)."""
    samples, file_rate = soundfile.read(path, dtype="float32")
    if file_rate != sample_rate:
        samples = librosa.resample(samples, orig_sr=file_rate, target_sr=sample_rate)
    mel = librosa.feature.melspectrogram(
        y=samples, sr=sample_rate, n_fft=n_fft, hop_length=hop_length, n_mels=n_mels, power=1.0
    )
    return np.log(np.maximum(mel, log_floor)).T.astype(np.float32)
