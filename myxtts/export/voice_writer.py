"""Write voice folders: the description of a voice and the weights of its network become voice.json and .onnx files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np
import onnx

from myxtts.errors import VoiceError
from myxtts.export.networks import speaker_model, voice_model
from myxtts.runtime.atomic import cause_of, replacing_folder
from myxtts.synthesis.voice_folder import (
    DESCRIPTION_NAME,
    LICENSE_NAME,
    MOST_LICENSE_BYTES,
    SPEAKER_MODEL_NAME,
    VOICE_MODEL_NAME,
    VoiceDescription,
    check_description,
)


def save_voice(
    folder: str | Path,
    description: VoiceDescription,
    weights: Mapping[str, np.ndarray],
    speaker_vectors: np.ndarray | None = None,
    license_text: str = "",
) -> Path:
    """Write a voice folder, or replace one, so that a reader sees the old voice or the whole new one.

    Args:
        folder: a new folder, an empty one, or a voice to replace.
        description: everything about the voice except its weights.
        weights: those of `XTTS.weights_by_name()`.
        speaker_vectors: (speakers, speaker_channels) of `description.speakers`, for voices of several speakers.
        license_text: the license in full, if it is more than a name.
    """
    folder = Path(folder)
    check_description(description)
    license_bytes = license_text.encode("utf-8", "replace")
    if len(license_bytes) > MOST_LICENSE_BYTES:
        raise VoiceError(f"The license has {len(license_bytes):,} bytes; expected {MOST_LICENSE_BYTES:,} at most.")
    files = _model_files(description, weights, speaker_vectors)
    files[DESCRIPTION_NAME] = (json.dumps(asdict(description), ensure_ascii=False, indent=1) + "\n").encode()
    if license_bytes:
        files[LICENSE_NAME] = license_bytes
    try:
        if folder.exists() and not _may_be_replaced(folder):
            raise VoiceError(f"{folder} exists and is not a voice, so it is not replaced. Name a new folder.")
        with replacing_folder(folder) as temporary:
            for name, content in files.items():
                (temporary / name).write_bytes(content)
    except OSError as error:
        raise VoiceError(f"The voice {folder} could not be written: {cause_of(error)}.") from error
    return folder


def _model_files(
    description: VoiceDescription, weights: Mapping[str, np.ndarray], speaker_vectors: np.ndarray | None
) -> dict[str, bytes]:
    spec = description.model_spec()
    models: dict[str, onnx.ModelProto] = {VOICE_MODEL_NAME: voice_model(spec, description.mel_spec(), weights)}
    if spec.has_speakers:
        if speaker_vectors is None or len(speaker_vectors) != len(description.speakers):
            count = 0 if speaker_vectors is None else len(speaker_vectors)
            raise VoiceError(f"{len(description.speakers)} speakers need as many speaker vectors. Received: {count}.")
        models[SPEAKER_MODEL_NAME] = speaker_model(spec, weights, speaker_vectors)
    written = {tensor.name for model in models.values() for tensor in model.graph.initializer}
    if left_over := sorted(set(weights) - written):
        raise VoiceError(f"{len(left_over)} weights have no place in a voice, such as {left_over[0]!r:.80}.")
    return {name: model.SerializeToString(deterministic=True) for name, model in models.items()}


def _may_be_replaced(folder: Path) -> bool:
    return (folder / DESCRIPTION_NAME).is_file() or (folder.is_dir() and not any(folder.iterdir()))
