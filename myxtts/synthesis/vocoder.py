"""From a log-mel to samples: the vocoder that a voice names.

A neural vocoder is a file `NAME.onnx` with the input `mel` (frames, n_mels) and the output `samples` (samples,). It is shared by
voices: the file of the package is used if it has the hash that voice.json gives, otherwise the copy in the voice folder.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Protocol

import numpy as np

import myxtts
from myxtts.audio.mel import MelSpec
from myxtts.errors import VoiceError
from myxtts.synthesis.engine import Session
from myxtts.synthesis.griffin_lim import GriffinLim
from myxtts.synthesis.onnx_file import read_model
from myxtts.synthesis.voice_folder import GRIFFIN_LIM, VocoderReference

VOCODER_TENSORS = ("mel",), ("samples",)
"""Names of the inputs and outputs of a vocoder's file."""


class Vocoder(Protocol):
    """Any vocoder."""

    def __call__(self, mel: np.ndarray) -> np.ndarray:
        """Log-mel (frames, n_mels) → float32 samples."""
        ...


class NeuralVocoder:
    """A vocoder that is an ONNX model."""

    def __init__(self, session: Session):
        self._session = session

    def __call__(self, mel: np.ndarray) -> np.ndarray:
        """Log-mel (frames, n_mels) → float32 samples."""
        return self._session.run(["samples"], {"mel": mel.astype(np.float32)})[0]


def open_vocoder(reference: VocoderReference, mel: MelSpec, voice_folder: Path, threads: int | None = None) -> Vocoder:
    """The vocoder of a voice; a `VoiceError` if it is not here or another file than the voice was made with."""
    if reference.name == GRIFFIN_LIM:
        return GriffinLim(mel)
    path = vocoder_file(reference, voice_folder)
    return NeuralVocoder(Session(read_model(path, *VOCODER_TENSORS, reference.sha256), threads))


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
