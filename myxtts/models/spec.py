"""The dimensions of the networks, saved with them, and the vocoder's constants. Plain numbers; no TensorFlow here."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from myxtts.audio.mel import MelSpec, hz_to_mel, mel_filterbank, mel_to_hz
from myxtts.config.config import DEFAULT_SIZE, ModelConfig
from myxtts.errors import ConfigError

SIZES = {
    "tiny": {"text_channels": 144, "text_layers": 4, "text_heads": 2, "decoder_channels": 192, "decoder_layers": 8},
    "small": {"text_channels": 224, "text_layers": 5, "text_heads": 4, "decoder_channels": 288, "decoder_layers": 10},
    "normal": {"text_channels": 288, "text_layers": 6, "text_heads": 4, "decoder_channels": 384, "decoder_layers": 12},
    "big": {"text_channels": 448, "text_layers": 8, "text_heads": 8, "decoder_channels": 640, "decoder_layers": 12},
}
"""Dimensions of each size; a value given in `ModelConfig` takes precedence. Chosen for 3, 10, 20 and 60 million parameters."""
DURATION_LAYERS = 2
"""Convolutions of the duration predictor, as in Glow-TTS (arXiv 2005.11129)."""
SPEAKER_LAYERS = 3
"""Convolutions of the speaker encoder. Chosen; not measured."""
FRAMES_PER_STEP = 4
"""Neighboring frames of a reference that the speaker encoder stacks, which takes a quarter of the computation. Chosen; not
measured."""
TIME_CHANNELS = 64
"""Channels of the embedded flow time and of the condition of a clip. Chosen; not measured."""
RECORDING_FEATURES = 3
"""Missing bandwidth, noise, whether both are hidden."""
PITCH_CHANNELS = 128
"""Of the pitch predictor. Chosen; not measured."""
PITCH_DILATIONS = (1, 2, 4)
"""Of its convolutions over frames."""
PITCH_CENTER_HZ, PITCH_LOG_SPREAD = 150.0, 0.35
"""A pitch is predicted as the logarithm of its ratio to the center, in multiples of the spread: roughly standardized for the
voices of women and men."""
HIGHEST_PITCH = 4.0
"""In these units (37 to 608 Hz): beyond what `audio.clips` labels. A predicted pitch is limited to it."""
NORM_EPSILON = 1e-5
"""Added to the mean square in every norm. Chosen; not measured."""


def mel_bands(n_mels: int, f_min: float, f_max: float) -> tuple[np.ndarray, np.ndarray]:
    """Center of each mel band and half the width of its triangle, in Hz: float32 (n_mels,) each."""
    edges = mel_to_hz(np.linspace(hz_to_mel(f_min), hz_to_mel(f_max), n_mels + 2))
    return edges[1:-1].astype(np.float32), ((edges[2:] - edges[:-2]) / 2).astype(np.float32)


@dataclass(frozen=True)
class ModelSpec:
    """Everything that the shapes of the weights depend on, and the dropout rates."""

    num_symbols: int
    num_languages: int
    num_speakers: int
    """1: the network takes no reference and cannot clone."""
    n_mels: int
    text_channels: int
    text_layers: int
    text_heads: int
    decoder_channels: int
    decoder_layers: int
    speaker_channels: int = 96
    """Length of the speaker vector. Chosen; not measured."""
    dropout: float = 0.1
    """Dropout of the text encoder and the durations, as in Matcha-TTS."""
    decoder_dropout: float = 0.0
    condition_dropout: float = 0.1
    """Fraction of the clips whose speaker, language or recording is hidden. Chosen; not measured."""
    decoder_dilations: tuple[int, ...] = (1, 2, 4)
    """Repeated cyclically over the decoder's layers. `data.gap_frames` must be at least the largest (kernels have 3 taps)."""
    recording_condition: bool = False
    """Whether the decoder is conditioned on the bandwidth and the noise of a recording."""
    pitch: bool = False
    """Whether the decoder gets the pitch of every frame, which is predicted when the voice speaks."""
    reference_lowpass: float = 0.0
    virtual_speakers: float = 0.0
    speaker_loss: float = 0.0
    language_adversary: float = 0.0
    distill_steps: int | None = None
    """Steps that the decoder is distilled to; None: it is not."""
    log_floor: float = 1e-5
    """As in the mel: what a low-passed reference holds in its empty bands."""
    f_min: float = 0.0
    f_max: float = 8000.0
    """As in the mel: what virtual speakers are warped by."""

    @property
    def without_heads(self) -> ModelSpec:
        """The spec of a voice, which has no weights that only training uses."""
        return dataclasses.replace(self, speaker_loss=0.0, language_adversary=0.0, distill_steps=None)

    @property
    def has_speakers(self) -> bool:
        """Whether the network is conditioned on a reference recording."""
        return self.num_speakers > 1

    @property
    def frame_reach(self) -> int:
        """Frames that the widest single convolution reads to each side."""
        return max(self.decoder_dilations[: self.decoder_layers])

    @classmethod
    def from_config(
        cls,
        config: ModelConfig,
        *,
        num_symbols: int,
        num_languages: int,
        num_speakers: int,
        n_mels: int,
        log_floor: float = 1e-5,
        f_min: float = 0.0,
        f_max: float = 8000.0,
    ) -> ModelSpec:
        """The spec of a configured size for a corpus; a `ConfigError` if its dimensions do not fit each other."""
        given = {name: value for name, value in dataclasses.asdict(config).items() if value is not None}
        size = DEFAULT_SIZE if config.size == "auto" else config.size
        dimensions: dict[str, Any] = SIZES[size] | {name: value for name, value in given.items() if name != "size"}
        channels, heads = dimensions["text_channels"], dimensions["text_heads"]
        if channels % (2 * heads):
            suggested = -(-channels // (2 * heads)) * 2 * heads
            raise ConfigError(
                f"model.text_channels must be a multiple of twice model.text_heads. Received: {channels} channels and {heads} "
                f"heads (model.size {size} sets what is null). Try model.text_channels: {suggested}, or "
                f"model.text_heads: {SIZES[size]['text_heads']}."
            )
        return cls(
            num_symbols=num_symbols,
            num_languages=num_languages,
            num_speakers=num_speakers,
            n_mels=n_mels,
            log_floor=log_floor,
            f_min=f_min,
            f_max=f_max,
            **dimensions,
        )

    def to_dict(self) -> dict:
        """Plain values for JSON."""
        return dataclasses.asdict(self) | {"decoder_dilations": list(self.decoder_dilations)}

    @classmethod
    def from_dict(cls, values: dict) -> ModelSpec:
        """The inverse of `to_dict`. Raises `TypeError` for unknown or missing names; readers of files turn it into a message."""
        fields: dict[str, Any] = values | {"decoder_dilations": tuple(values["decoder_dilations"])}
        return cls(**fields)


# --- the vocoder -------------------------------------------------------------------------------------------------------

INPUT_MEAN, INPUT_DEVIATION = -5.0, 2.5
"""About the mean and deviation of log-mels of speech; they only bring the input near unit scale."""
LOWEST_HZ, HIGHEST_HZ = 50.0, 650.0
"""Range of the pitch, a little wider than what `audio.clips` labels."""
PITCH_CLASSES = 160
"""Classes of equal width in log frequency, 1.6 % each. Chosen; not measured."""
PITCH_NEIGHBORS = 4
"""The pitch is the mean over so many classes on both sides of the likeliest one. Chosen; not measured."""
LOBE_SHARPNESS = math.log(2.0)
"""A sinusoid that is one bin away from a frequency has half its magnitude there (Hann window)."""
LOBE_BINS = math.sqrt(math.pi / LOBE_SHARPNESS)
"""Sum of the magnitudes that a sinusoid adds to the bins around it, in multiples of its peak."""
HIGHEST_LOG_MAGNITUDE = 8.0
"""Keeps the exponential finite. Chosen; not measured."""
MIDDLE_HZ = 150.0
"""The pitch that is 0 in the input of the trunk."""
NOISE_START = -1.0
"""Log magnitude of the noise next to the envelope, before training. Chosen; not measured."""
CHIRP_BINS = LOBE_SHARPNESS / math.pi
"""Bend of the phase over the peak of a harmonic that changes, for frequencies in bins: 2 pi times the variance of
the Gaussian that fits the window."""
LARGEST_PITCH_STEP = 0.2
"""A pitch that changes by a larger fraction over two frames jumps; it has no slope there. Chosen; not measured."""
LEVEL_ROUNDS = 2
"""How often the bands are brought to the level of the mel. Chosen; not measured."""
LARGEST_LEVEL_CHANGE = 4.0
"""Largest change of a band by a round, and of the time gains; natural logarithm. Chosen; not measured."""
TIME_POINTS = 8
"""Gains over the samples of a frame, so that a sound can begin within it: 5 ms each. Chosen; not measured."""


@dataclasses.dataclass(frozen=True)
class VocoderSpec:
    """What a vocoder is made of; saved with it."""

    mel: MelSpec
    channels: int = 256
    blocks: int = 8
    widening: int = 3
    """Channels inside a block, as a multiple of `channels`."""
    first_kernel: int = 7
    pitch_channels: int = 128
    pitch_blocks: int = 3
    noise_gain: float = 0.0
    """Natural logarithm, added to the level of the noise; 0 while training."""

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for JSON; `from_dict` reads them back."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> VocoderSpec:
        """The spec that `to_dict` wrote."""
        fields: dict[str, Any] = dict(values) | {"mel": MelSpec.from_dict(values["mel"])}
        return cls(**fields)

    @property
    def bins(self) -> int:
        """Frequencies of the transform."""
        return self.mel.n_fft // 2 + 1


def envelope_matrix(mel: MelSpec) -> tuple[np.ndarray, np.ndarray]:
    """Log-mels to the log magnitude of every frequency, by interpolating between the centers of the bands.

    Returns:
        float32 (n_mels,), to be subtracted from the log-mel: the mean magnitude of a band is its mel over its area;
        float32 (n_mels, bins), the interpolation.
    """
    edges = mel_to_hz(np.linspace(hz_to_mel(mel.f_min), hz_to_mel(mel.f_max), mel.n_mels + 2))
    hertz = np.arange(mel.n_fft // 2 + 1) * (mel.sample_rate / mel.n_fft)
    weights = np.stack([np.interp(hertz, edges[1:-1], band) for band in np.eye(mel.n_mels)])
    area = np.maximum(mel_filterbank(mel).sum(axis=0), 1e-6)  # a band may lie between two bins
    return np.log(area).astype(np.float32), weights.astype(np.float32)


def time_interpolation(n_fft: int) -> np.ndarray:
    """Linear interpolation from points spread over a frame to its samples: float32 (TIME_POINTS, n_fft)."""
    points = (np.arange(TIME_POINTS) + 0.5) * (n_fft / TIME_POINTS)
    return np.stack([np.interp(np.arange(n_fft) + 0.5, points, one) for one in np.eye(TIME_POINTS)]).astype(np.float32)


def pitch_classes() -> np.ndarray:
    """The natural logarithm of the frequency of each class: float32 (PITCH_CLASSES,)."""
    return np.linspace(math.log(LOWEST_HZ), math.log(HIGHEST_HZ), PITCH_CLASSES).astype(np.float32)
