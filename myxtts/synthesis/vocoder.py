"""From a log-mel to samples: the vocoder that a voice names.

A neural vocoder is a file `NAME.onnx` with the inputs `mel` (frames, n_mels) and `noise` (frames, bins), the phases of the noise
in turns, and the output `samples` (samples,). It is shared by voices: the copy in the voice folder is used, otherwise the file of
the package, and it must have the hash that voice.json gives. `universal` is the vocoder that comes with MyXTTS.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Protocol

import numpy as np
from onnx import ModelProto
from pydantic import ValidationError

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
UNIVERSAL = "universal"
"""The vocoder of the package that any voice with its mels can use."""
RESERVED_NAMES = ("voice", "speaker", GRIFFIN_LIM)
"""Names that a vocoder's file in a voice folder cannot have."""
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


def open_vocoder(reference: VocoderReference, mel: MelSpec, voice_folder: Path, threads: int = 1) -> Vocoder:
    """The vocoder of a voice; a `VoiceError` if it is not here or another file than the voice was made with."""
    if reference.name == GRIFFIN_LIM:
        return GriffinLim(mel)
    return open_vocoder_file(vocoder_file(reference, voice_folder), mel, threads, reference.sha256)


def check_vocoder(reference: VocoderReference, mel: MelSpec, voice_folder: Path) -> None:
    """Raise the `VoiceError` that `open_vocoder` would; nothing is run."""
    if reference.name != GRIFFIN_LIM:
        _read(vocoder_file(reference, voice_folder), mel, reference.sha256)


def open_vocoder_file(path: Path, mel: MelSpec, threads: int = 1, sha256: str | None = None) -> NeuralVocoder:
    """The vocoder in a file; a `VoiceError` if it cannot be used, or not with mels of this definition."""
    model, spec = _read(path, mel, sha256)
    return NeuralVocoder(Session(model, threads), spec.bins)


def _read(path: Path, mel: MelSpec, sha256: str | None = None) -> tuple[ModelProto, VocoderSpec]:
    model = read_model(path, *VOCODER_TENSORS, sha256)
    spec = vocoder_spec(model, path)
    if spec.mel != mel:
        differences = spec.mel.compared_with(mel, "the voice has")
        raise VoiceError(
            f"The vocoder {path} was trained with different mel settings: {differences}. Use a vocoder made for this voice."
        )
    return model, spec


def vocoder_spec(model: ModelProto, path: Path) -> VocoderSpec:
    """The dimensions that a vocoder's file states."""
    stated = next((entry.value for entry in model.metadata_props if entry.key == "vocoder"), "")
    try:
        return VocoderSpec.from_dict(json.loads(stated))
    except (ValueError, KeyError, TypeError, ConfigError):
        raise VoiceError(
            f"{path} does not state the mel settings that it was trained with. Export the vocoder again."
        ) from None


def find_vocoder(name: str | Path) -> Path:
    """The .onnx file of a vocoder given by its file or by its name in the package."""
    is_name = Path(name).name == str(name) and Path(name).suffix != ".onnx"
    return shared if is_name and (shared := _shared_file(str(name))).is_file() else Path(name)


def refer_to(path: Path, mel: MelSpec) -> VocoderReference:
    """What voice.json says of the vocoder in a file; a `VoiceError` if it is not one for these mels."""
    _read(path, mel)
    if path.stem in RESERVED_NAMES:
        raise VoiceError(f"A vocoder in a voice folder cannot be named {path.stem!r}. Rename {path}.")
    try:
        return VocoderReference(name=path.stem, sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    except ValidationError:
        raise VoiceError(
            f"The name of a vocoder must have 1 to 64 letters, digits, dots, dashes or underscores. Rename {path}."
        ) from None


def universal_vocoder(mel: MelSpec) -> VocoderReference | None:
    """The vocoder that comes with MyXTTS, if it does and if it was trained on these mels."""
    path = _shared_file(UNIVERSAL)
    if not path.is_file() or vocoder_spec(read_model(path, *VOCODER_TENSORS), path).mel != mel:
        return None
    return refer_to(path, mel)


def _shared_file(name: str) -> Path:
    return Path(myxtts.__file__).parent / "assets" / "vocoder" / f"{name}.onnx"


def vocoder_file(reference: VocoderReference, voice_folder: Path) -> Path:
    """Where the file of a neural vocoder is; the reader checks its hash."""
    for path in (voice_folder / f"{reference.name}.onnx", _shared_file(reference.name)):
        if path.is_file():
            return path
    raise VoiceError(
        f"The voice needs the vocoder {reference.name!r}, which is in neither {voice_folder} nor this version of MyXTTS. "
        "Update MyXTTS, or copy the vocoder's file into the voice folder."
    )
