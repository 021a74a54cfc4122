"""From a log-mel to samples: the vocoder that a voice names.

A neural vocoder is a file `NAME.onnx` with the inputs `mel` (frames, n_mels) and `noise` (frames, bins), the phases of the noise
in turns, and the output `samples` (samples,). It is shared by voices: the file of the package is used if it has the hash that
voice.json gives, otherwise the copy in the voice folder.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Protocol

import numpy as np
from onnx import ModelProto

import myxtts
from myxtts.audio.mel import MelSpec
from myxtts.errors import ConfigError, VoiceError
from myxtts.models.spec import VocoderSpec
from myxtts.synthesis.engine import Session
from myxtts.synthesis.griffin_lim import GriffinLim
from myxtts.synthesis.onnx_file import read_model
from myxtts.synthesis.voice_folder import GRIFFIN_LIM, VocoderReference

VOCODER_TENSORS = ("mel", "noise"), ("samples",)
"""Names of the inputs and outputs of a vocoder's file."""
NOISE_SEED = 1
"""The noise is the same for every mel, so that a mel has one sound; what differs between seeds is the mel."""


class Vocoder(Protocol):
    """Any vocoder."""

    def __call__(self, mel: np.ndarray) -> np.ndarray:
        """Log-mel (frames, n_mels) → float32 samples."""
        ...


class NeuralVocoder:
    """A vocoder that is an ONNX model. The phase of its harmonics starts at 0 with every mel; pauses are between them."""

    def __init__(self, session: Session, bins: int):
        self._session, self._bins = session, bins

    def __call__(self, mel: np.ndarray) -> np.ndarray:
        """Log-mel (frames, n_mels) → float32 samples."""
        noise = noise_phases(len(mel), self._bins)
        return self._session.run(["samples"], {"mel": mel.astype(np.float32), "noise": noise})[0]


def noise_phases(frames: int, bins: int) -> np.ndarray:
    """The phases of the noise in turns, float32 (frames, bins) from 0 to 1; a longer mel begins with the same ones."""
    return np.random.Generator(np.random.PCG64(NOISE_SEED)).random((frames, bins), np.float32)


def open_vocoder(reference: VocoderReference, mel: MelSpec, voice_folder: Path, threads: int | None = None) -> Vocoder:
    """The vocoder of a voice; a `VoiceError` if it is not here or another file than the voice was made with."""
    if reference.name == GRIFFIN_LIM:
        return GriffinLim(mel)
    return open_vocoder_file(vocoder_file(reference, voice_folder), mel, threads, reference.sha256)


def open_vocoder_file(path: Path, mel: MelSpec, threads: int | None = None, sha256: str | None = None) -> NeuralVocoder:
    """The vocoder in a file; a `VoiceError` if it cannot be used, or not with mels of this definition."""
    model = read_model(path, *VOCODER_TENSORS, sha256)
    spec = vocoder_spec(model, path)
    if spec.mel != mel:
        received, expected = spec.mel.to_dict(), mel.to_dict()
        differences = "; ".join(
            f"{name} {received[name]}, the voice has {expected[name]}"
            for name in expected
            if received[name] != expected[name]
        )
        raise VoiceError(
            f"The vocoder {path} was trained on other mels: {differences}. Use a voice and a vocoder of the same family."
        )
    return NeuralVocoder(Session(model, threads), spec.bins)


def vocoder_spec(model: ModelProto, path: Path) -> VocoderSpec:
    """The dimensions that a vocoder's file states."""
    stated = next((entry.value for entry in model.metadata_props if entry.key == "vocoder"), "")
    try:
        return VocoderSpec.from_dict(json.loads(stated))
    except (ValueError, KeyError, TypeError, ConfigError):
        raise VoiceError(f"{path} does not say what mels it was trained on. Export the vocoder again.") from None


def vocoder_file(reference: VocoderReference, voice_folder: Path) -> Path:
    """Where the file of a neural vocoder is; whoever reads it checks its hash."""
    name = f"{reference.name}.onnx"
    shared = Path(myxtts.__file__).parent / "assets" / "vocoders" / name
    if shared.is_file() and hashlib.sha256(shared.read_bytes()).hexdigest() == reference.sha256:
        return shared
    if (voice_folder / name).is_file():
        return voice_folder / name
    raise VoiceError(
        f"The voice needs the vocoder {reference.name!r}, which is neither in {voice_folder} nor in this version of MyXTTS. "
        "Update MyXTTS, or copy the vocoder's file into the voice folder."
    )
