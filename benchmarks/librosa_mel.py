"""The usual way: soundfile, librosa and NumPy, one clip at a time. The baseline of the loader and of `prepare`."""

from __future__ import annotations

import librosa
import numpy as np
import soundfile

from myxtts.audio import clips


def librosa_mel(path: str, sample_rate: int, n_fft: int, hop_length: int, n_mels: int, log_floor: float) -> np.ndarray:
    """Log-mel of a recording, float32 (frames, n_mels)."""
    return mel_of(read_samples(path, sample_rate), sample_rate, n_fft, hop_length, n_mels, log_floor)


def read_samples(path: str, sample_rate: int) -> np.ndarray:
    """A recording at a sample rate, float32 (samples,)."""
    samples, file_rate = soundfile.read(path, dtype="float32")
    if file_rate != sample_rate:
        samples = librosa.resample(samples, orig_sr=file_rate, target_sr=sample_rate)
    return samples


def mel_of(
    samples: np.ndarray, sample_rate: int, n_fft: int, hop_length: int, n_mels: int, log_floor: float
) -> np.ndarray:
    """Log-mel of samples, float32 (frames, n_mels)."""
    mel = librosa.feature.melspectrogram(
        y=samples, sr=sample_rate, n_fft=n_fft, hop_length=hop_length, n_mels=n_mels, power=1.0
    )
    return np.log(np.maximum(mel, log_floor)).T.astype(np.float32)


def bandwidth_of(samples: np.ndarray, sample_rate: int) -> float:
    """`myxtts.audio.clips.estimate_bandwidth` by librosa and NumPy."""
    hop = clips.WINDOW // 2
    if len(samples) < clips.WINDOW + (clips.FEWEST_FRAMES - 1) * hop:
        return sample_rate / 2
    spectra = librosa.stft(samples, n_fft=clips.WINDOW, hop_length=hop, window=np.hanning(clips.WINDOW), center=False)
    loud = 10 * np.log10(np.quantile(np.abs(spectra) ** 2, clips.LOUD_QUANTILE, axis=1) + 1e-12)
    edged = np.pad(loud, clips.SMOOTHED_BINS // 2, mode="symmetric")
    level = np.convolve(edged, np.full(clips.SMOOTHED_BINS, 1 / clips.SMOOTHED_BINS), "valid")
    hertz = librosa.fft_frequencies(sr=sample_rate, n_fft=clips.WINDOW)
    low, high = clips.REFERENCE_HZ
    peak = level[(hertz > low) & (hertz < high)].max()
    return float(hertz[np.flatnonzero(level > peak - clips.BELOW_PEAK_DB)[-1]])


def snr_of(samples: np.ndarray, sample_rate: int) -> float:
    """`myxtts.audio.clips.estimate_snr` by NumPy."""
    block = round(clips.LEVEL_SECONDS * sample_rate)
    blocks = samples[: len(samples) // block * block].reshape(-1, block)
    if not len(blocks):
        return 0.0
    level = 10 * np.log10(np.mean(np.square(blocks), axis=1) + 1e-10)
    quiet, loud = np.quantile(level, (clips.NOISE_QUANTILE, clips.SPEECH_QUANTILE))
    return float(loud - quiet)
