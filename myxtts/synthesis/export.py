"""From a network's weights and what they mean to a voice folder; used by the trainer and by `myxtts voice export`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.audio.mel import MelSpec
from myxtts.config.config import DataConfig
from myxtts.models.spec import ModelSpec
from myxtts.synthesis.engine import Engine
from myxtts.synthesis.voice_folder import Defaults, VoiceDescription, save_voice
from myxtts.text.tokenizer import FrontEnd, SymbolTable


def describe_voice(
    *,
    model: ModelSpec,
    mel: MelSpec,
    symbols: SymbolTable,
    front_end: FrontEnd,
    languages: Sequence[str],
    speakers: Sequence[str],
    data: DataConfig,
    defaults: Defaults | None = None,
    licence: str = "",
    attribution: str = "",
    about: dict[str, Any] | None = None,
) -> VoiceDescription:
    """The description of a voice that was trained with the settings `data`; `speakers` are those with a reference."""
    return VoiceDescription(
        model=model.to_dict(),
        mel=mel.to_dict(),
        symbols=symbols.to_list(),
        front_end=front_end.to_dict(),
        languages=list(languages),
        speakers=list(speakers),
        reference_frames=data.reference_frames if model.has_speakers else 0,
        trim_silence_db=data.trim_silence_db,
        loudness_db=data.loudness_db,
        max_characters=max(10, min(180, data.max_text_length - 20)),  # symbols are a little more than characters
        defaults=defaults or Defaults(),
        licence=licence,
        attribution=attribution,
        about=about or {},
    )


def export_voice(
    folder: str | Path,
    description: VoiceDescription,
    weights: Mapping[str, np.ndarray],
    references: Sequence[np.ndarray] = (),
) -> Path:
    """Write a voice folder.

    `references[n]` are pieces (pieces, reference_frames, n_mels) of recordings of `description.speakers[n]`.
    """
    spec = description.model_spec()
    vectors = None
    if spec.has_speakers:
        engine = Engine(spec, description.mel_spec())
        engine.assign(weights)
        vectors = np.zeros((0, spec.speaker_channels), np.float32)
        if references:
            vectors = np.stack([engine.speaker_vectors(pieces).mean(axis=0) for pieces in references])
    return save_voice(folder, description, weights, vectors)
