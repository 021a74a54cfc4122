"""The log-mel spectrogram of the whole package: float32 samples (samples,) → frames (frames, n_mels), in NumPy.

Natural logarithm of `max(filterbank @ |STFT|, log_floor)`: magnitudes, not powers; a periodic Hann window; frames centered on
multiples of the hop with reflected edges; triangles on Slaney's mel scale with Slaney's norm (librosa's defaults). A clip of
n samples has `1 + n // hop_length` frames. No TensorFlow here, so that worker processes start fast;
`myxtts.batches.on_the_fly` computes the same in TensorFlow.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from myxtts.config.config import DataConfig, frame_contradictions
from myxtts.errors import AudioError, ConfigError

MEL_VERSION = 1
"""Stored with every cache; increased when the same settings would give another mel."""
FRAMES_AT_ONCE = 64
"""Frames transformed together: their spectra stay in the processor's cache. scipy transforms several rows in one SIMD register:
5 times as fast as numpy.fft."""
FILTER_BLOCKS = 5
"""Low bands cover few bins and high bands many: small products instead of one that is mostly zeros."""
WIDEBAND_FROM_HZ = 22_050
WIDEBAND_RATE = 24_000
"""`sample_rate: auto` makes recordings at 22.05 kHz and above a voice at 24 kHz; lower rates stay as they are."""
LONGEST_FRAME_MS = 16
"""The hop of rates that `FRAMES` does not list: that of 16 and 24 kHz."""
FRAMES = {8_000: (512, 128), 16_000: (1024, 256), 24_000: (1024, 384)}
"""Window and hop (samples) of the usual rates. At 24 kHz a window of 43 ms made better speech than one of 64 ms, and a hop of
16 ms better than one of 12.5 ms at the same cost of training and vocoding (docs/data.md)."""


@dataclass(frozen=True)
class MelSpec:
    """The settings that define a mel; equal specs give equal mels. The defaults are for 16 kHz; see `from_config`."""

    sample_rate: int
    n_fft: int = 1024
    win_length: int = 1024
    hop_length: int = 256
    n_mels: int = 80
    f_min: float = 0.0
    f_max: float = 8000.0
    log_floor: float = 1e-5

    @classmethod
    def from_config(cls, config: DataConfig, sample_rate: int) -> MelSpec:
        """The spec of a configuration at the voice's rate (Hz); what is `auto` follows from the rate."""
        half = sample_rate / 2
        f_max = half if config.mel_f_max is None else float(config.mel_f_max)
        if f_max > half:
            raise ConfigError(
                f"data.mel_f_max ({f_max:g} Hz) is above half of the voice's sample rate ({sample_rate} Hz). "
                f"Try {half:g} or null."
            )
        if config.mel_f_min >= f_max:
            raise ConfigError(
                f"data.mel_f_min ({config.mel_f_min:g} Hz) must lie below the upper edge of the bands ({f_max:g} Hz at a "
                f"sample rate of {sample_rate} Hz). Lower mel_f_min."
            )
        n_fft, win_length, hop_length = _frame_lengths(config, sample_rate)
        if found := frame_contradictions(n_fft, win_length, hop_length):
            raise ConfigError(f"At a sample rate of {sample_rate} Hz: {' '.join(found)}")
        return cls(
            sample_rate=sample_rate,
            n_fft=n_fft,
            win_length=win_length,
            hop_length=hop_length,
            n_mels=config.n_mels,
            f_min=float(config.mel_f_min),
            f_max=f_max,
            log_floor=float(config.log_floor),
        )

    def to_config(self) -> dict[str, int | float]:
        """The fields of `DataConfig` that give this spec."""
        values = self.to_dict()
        return {f"mel_{name}" if name in ("f_min", "f_max") else name: value for name, value in values.items()}

    def compared_with(self, other: MelSpec, words: str) -> str:
        """What differs, for messages: `hop_length 256, the voice has 200`, where `words` are `the voice has`."""
        here, there = self.to_dict(), other.to_dict()
        return "; ".join(f"{name} {here[name]}, {words} {there[name]}" for name in here if here[name] != there[name])

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for JSON; `from_dict` reads them back."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> MelSpec:
        """The spec that `to_dict` wrote."""
        expected = {field.name for field in dataclasses.fields(cls)}
        if set(values) != expected:
            raise ConfigError(f"Expected the mel settings {sorted(expected)}. Received: {sorted(values)}.")
        return cls(**values)

    @property
    def frames_per_second(self) -> float:
        """Frames in one second of sound."""
        return self.sample_rate / self.hop_length


def voice_rate(recorded_rate: int) -> int:
    """Hz of a voice made from recordings at `recorded_rate` Hz (`sample_rate: auto`)."""
    return WIDEBAND_RATE if recorded_rate >= WIDEBAND_FROM_HZ else recorded_rate


def frames_at(sample_rate: int) -> tuple[int, int]:
    """Window and hop (samples) at a rate: those of the nearest usual rate from above, as long in time.

    The hop is a multiple of 8 within `LONGEST_FRAME_MS`; the window a multiple of 8.
    """
    if sample_rate in FRAMES:
        return FRAMES[sample_rate]
    usual = next((rate for rate in FRAMES if rate >= sample_rate), max(FRAMES))
    window, _ = FRAMES[usual]
    hop = max(8, sample_rate * LONGEST_FRAME_MS // 1000 // 8 * 8)
    return round(window * sample_rate / usual / 8) * 8, hop


def _frame_lengths(config: DataConfig, sample_rate: int) -> tuple[int, int, int]:
    """n_fft, win_length and hop_length; a given one changes an automatic one only where both would contradict."""
    window, hop = frames_at(sample_rate)
    hop_length = hop if config.hop_length == "auto" else config.hop_length
    n_fft = config.n_fft
    if n_fft == "auto":
        n_fft = window if config.win_length == "auto" else max(window, config.win_length)
    win_length = min(window, n_fft) if config.win_length == "auto" else config.win_length
    return n_fft, win_length, hop_length


def num_frames(num_samples: int, spec: MelSpec) -> int:
    """Frames of a clip of `num_samples` samples."""
    return 1 + num_samples // spec.hop_length


def mel_numpy(samples: np.ndarray, spec: MelSpec) -> np.ndarray:
    """Log-mel of one clip: float32 (samples,) → float32 (frames, n_mels)."""
    samples = np.asarray(samples, np.float32)
    if samples.ndim != 1 or samples.size == 0:
        raise AudioError(
            f"Expected one channel of samples, shape (samples,). Received shape: {samples.shape}.", "empty file"
        )
    left = spec.n_fft // 2
    padded = np.pad(samples, (left, spec.n_fft - left), mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, spec.n_fft)[:: spec.hop_length]
    frames = frames[: num_frames(len(samples), spec)]
    window, blocks, transform = analysis_window(spec), _filter_blocks(spec), real_transform()
    mel = np.empty((len(frames), spec.n_mels), np.float32)
    windowed = np.empty((FRAMES_AT_ONCE, spec.n_fft), np.float32)
    magnitudes = np.empty((FRAMES_AT_ONCE, 1 + left), np.float32)
    for start in range(0, len(frames), FRAMES_AT_ONCE):
        piece = frames[start : start + FRAMES_AT_ONCE]
        spectrum = transform(np.multiply(piece, window, out=windowed[: len(piece)]))
        magnitude = np.abs(spectrum, out=magnitudes[: len(piece)])
        for bands, bins, weights in blocks:
            np.matmul(magnitude[:, bins], weights, out=mel[start : start + FRAMES_AT_ONCE, bands])
    np.maximum(mel, np.float32(spec.log_floor), out=mel)
    return np.log(mel, out=mel)


@functools.cache
def real_transform() -> Callable[[np.ndarray], Any]:
    """scipy's Fourier transform of real rows; NumPy's where scipy is not installed: cloning transforms only a few rows."""
    try:
        import scipy.fft
    except ImportError:
        return np.fft.rfft
    return functools.partial(scipy.fft.rfft, overwrite_x=True)


@functools.lru_cache(maxsize=8)
def analysis_window(spec: MelSpec) -> np.ndarray:
    """Periodic Hann window of win_length, centered in n_fft: float32 (n_fft,)."""
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(spec.win_length) / spec.win_length)
    left = (spec.n_fft - spec.win_length) // 2
    return _read_only(np.pad(hann, (left, spec.n_fft - spec.win_length - left)))


@functools.lru_cache(maxsize=8)
def mel_filterbank(spec: MelSpec) -> np.ndarray:
    """Triangles of equal area on Slaney's mel scale: float32 (1 + n_fft // 2, n_mels); `magnitudes @ filterbank` is the mel."""
    bin_hz = np.arange(1 + spec.n_fft // 2) * (spec.sample_rate / spec.n_fft)
    edges_hz = mel_to_hz(np.linspace(hz_to_mel(spec.f_min), hz_to_mel(spec.f_max), spec.n_mels + 2))
    low, center, high = edges_hz[:-2], edges_hz[1:-1], edges_hz[2:]
    rising = (bin_hz[:, None] - low) / (center - low)
    falling = (high - bin_hz[:, None]) / (high - center)
    triangles = np.maximum(0.0, np.minimum(rising, falling))
    return _read_only(triangles * (2.0 / (high - low)))


def bands_below(hertz: np.ndarray, spec: MelSpec) -> np.ndarray:
    """How many bands lie below each frequency (Hz) with their upper edge: int32, as many as there are frequencies."""
    edges_hz = mel_to_hz(np.linspace(hz_to_mel(spec.f_min), hz_to_mel(spec.f_max), spec.n_mels + 2))
    return np.searchsorted(edges_hz[2:], hertz, side="right").astype(np.int32)


@functools.lru_cache(maxsize=8)
def _filter_blocks(spec: MelSpec) -> list[tuple[slice, slice, np.ndarray]]:
    """The filterbank in `FILTER_BLOCKS` parts: bands, the bins that they cover, and the weights (bins, bands)."""
    filterbank = mel_filterbank(spec)
    blocks = []
    for bands in np.array_split(np.arange(spec.n_mels), FILTER_BLOCKS):
        band_slice = slice(int(bands[0]), int(bands[-1]) + 1)
        used = np.flatnonzero(filterbank[:, band_slice].any(axis=1))
        bin_slice = (
            slice(int(used[0]), int(used[-1]) + 1) if len(used) else slice(0, 1)
        )  # bands between two bins are empty
        blocks.append((band_slice, bin_slice, _read_only(filterbank[bin_slice, band_slice])))
    return blocks


LINEAR_HZ_PER_MEL = 200.0 / 3
LOGARITHMIC_FROM_HZ = 1000.0
LOGARITHMIC_FROM_MEL = LOGARITHMIC_FROM_HZ / LINEAR_HZ_PER_MEL
LOGARITHMIC_STEP = np.log(6.4) / 27
"""Slaney's scale: linear up to 1 kHz, then 27 mels for a factor of 6.4."""


def hz_to_mel(hz: np.ndarray | float) -> np.ndarray:
    """Slaney's mel of a frequency in Hz."""
    hz = np.asarray(hz, np.float64)
    above = LOGARITHMIC_FROM_MEL + np.log(np.maximum(hz, LOGARITHMIC_FROM_HZ) / LOGARITHMIC_FROM_HZ) / LOGARITHMIC_STEP
    return np.where(hz < LOGARITHMIC_FROM_HZ, hz / LINEAR_HZ_PER_MEL, above)


def mel_to_hz(mel: np.ndarray | float) -> np.ndarray:
    """Frequency in Hz of Slaney's mel."""
    mel = np.asarray(mel, np.float64)
    above = LOGARITHMIC_FROM_HZ * np.exp(
        LOGARITHMIC_STEP * (np.maximum(mel, LOGARITHMIC_FROM_MEL) - LOGARITHMIC_FROM_MEL)
    )
    return np.where(mel < LOGARITHMIC_FROM_MEL, mel * LINEAR_HZ_PER_MEL, above)


def _read_only(values: np.ndarray) -> np.ndarray:
    """Cached arrays are shared: writing to one would change every later mel."""
    values = np.ascontiguousarray(values, np.float32)
    values.setflags(write=False)
    return values
