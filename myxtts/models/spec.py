"""The dimensions of a network: counts of the corpus and widths of the size. Plain numbers, saved with every voice."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from myxtts.config.config import DEFAULT_SIZE, ModelConfig
from myxtts.errors import ConfigError

SIZES = {
    "tiny": {"text_channels": 144, "text_layers": 4, "text_heads": 2, "decoder_channels": 192, "decoder_layers": 8},
    "small": {"text_channels": 224, "text_layers": 5, "text_heads": 4, "decoder_channels": 288, "decoder_layers": 10},
    "normal": {"text_channels": 288, "text_layers": 6, "text_heads": 4, "decoder_channels": 384, "decoder_layers": 12},
    "big": {"text_channels": 448, "text_layers": 8, "text_heads": 8, "decoder_channels": 640, "decoder_layers": 12},
}
"""Dimensions of each size; a value given in `ModelConfig` takes precedence. Chosen for 3, 10, 20 and 60 million parameters."""


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
    dropout: float = 0.1
    decoder_dropout: float = 0.0
    condition_dropout: float = 0.1
    decoder_dilations: tuple[int, ...] = (1, 2, 4)
    """Repeated cyclically over the decoder's layers. `data.gap_frames` must be at least the largest (kernels have 3 taps)."""
    recording_condition: bool = False
    """Whether the decoder is told the bandwidth and the noise of a recording."""
    reference_lowpass: float = 0.0
    virtual_speakers: float = 0.0
    speaker_loss: float = 0.0
    language_adversary: float = 0.0
    log_floor: float = 1e-5
    """As in the mel: what a low-passed reference holds in its empty bands."""
    f_min: float = 0.0
    f_max: float = 8000.0
    """As in the mel: what virtual speakers are warped by."""

    @property
    def without_heads(self) -> ModelSpec:
        """The spec of a voice, which has no weights that only training uses."""
        return dataclasses.replace(self, speaker_loss=0.0, language_adversary=0.0)

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
