"""From a log-mel to samples: the vocoder that a voice names, or Griffin-Lim.

A neural vocoder is a file `NAME.onnx` with the inputs `mel` (frames, n_mels) and `noise` (frames, bins), the phases of the noise
in turns, and the output `samples` (samples,). It is shared by voices: the copy in the voice folder is used, otherwise the file of
the package, and it must have the hash that voice.json gives. `universal` is the vocoder that comes with MyXTTS.

Voices without one have fast Griffin-Lim (Perraudin, Balazs & Søndergaard, 2013), with one more correction than the usual
algorithm: a mel gives the strength of each band, not of each frequency. Instead of guessing the frequencies once, every iteration
scales the spectrum of the current sound until its mel is the given one. The mel of the sound is then three times nearer to the
given one after the same number of iterations (docs/synthesis.md). Nothing is random.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from onnx import ModelProto
from pydantic import ValidationError

import myxtts
from myxtts.audio.mel import MelSpec, analysis_window, mel_filterbank
from myxtts.errors import ConfigError, VoiceError
from myxtts.models.spec import VocoderSpec
from myxtts.synthesis.engine import Session
from myxtts.synthesis.onnx_file import read_model
from myxtts.synthesis.voice_folder import GRIFFIN_LIM, VocoderReference

TINY = np.float32(1e-8)
"""Keeps a quotient finite where a band is empty; far below any `log_floor`."""
LOUDEST = np.float32(8.0)
"""No sound within full scale has a larger log-mel; larger predictions must not overflow."""
LEAST_COVERAGE = np.float32(1e-3)
FRAMES_AT_ONCE = 32
"""Frames transformed together: their spectra stay in the processor's cache."""


@dataclass(frozen=True)
class GriffinLimSettings:
    """How much the vocoder computes."""

    iterations: int = 32
    """Rounds of inverse transform, transform, correction."""
    momentum: float = 0.9
    """How far each round extrapolates. With the correction to the mel, 0.9 comes nearer than the usual 0.99."""
    spread_iterations: int = 2
    """Corrections of the first guess of the magnitudes."""


class GriffinLim:
    """Built once for a `MelSpec`; may be called by several threads."""

    def __init__(self, spec: MelSpec, settings: GriffinLimSettings | None = None):
        self.spec = spec
        self.settings = settings or GriffinLimSettings()
        self._window = analysis_window(spec)
        self._bands = _Bands(mel_filterbank(spec))
        self._hops_per_frame = -(-spec.n_fft // spec.hop_length)

    def __call__(self, mel: np.ndarray) -> np.ndarray:
        """Log-mel (frames, n_mels) → float32 samples ((frames - 1) * hop_length,)."""
        spec, settings, frames = self.spec, self.settings, len(mel)
        mel = np.asarray(mel, np.float32)
        # Bands at the floor are silence: the smallest magnitude that a mel can express must not become hiss.
        is_heard = mel > np.float32(np.log(spec.log_floor) + 1e-3)
        bands = np.where(is_heard, np.exp(np.minimum(mel, LOUDEST)), np.float32(0))
        squares = np.broadcast_to(self._window**2, (frames, spec.n_fft))
        coverage = 1 / np.maximum(self._overlap_add(squares), LEAST_COVERAGE)

        # Phases start at zero: as good as random ones, and better than phases continued from frame to frame
        # (docs/synthesis.md).
        spectrum = self._spread(bands).astype(np.complex64)
        previous = None
        for _ in range(settings.iterations):
            found = self._transform(self._sound(spectrum) * coverage, frames)
            ahead = found if previous is None else found + np.float32(settings.momentum) * (found - previous)
            # Not np.abs: its guard against overflow takes longer than the transform.
            magnitude = np.sqrt(ahead.real**2 + ahead.imag**2)
            spectrum, previous = ahead * self._correction(magnitude, bands), found
        left = spec.n_fft // 2
        return (self._sound(spectrum) * coverage)[left : left + (frames - 1) * spec.hop_length]

    def _spread(self, bands: np.ndarray) -> np.ndarray:
        """A first guess of the magnitudes (frames, bins) whose mel is `bands`."""
        magnitude = self._bands.spread(bands)
        for _ in range(self.settings.spread_iterations):
            magnitude *= self._correction(magnitude, bands)
        return magnitude

    def _correction(self, magnitude: np.ndarray, bands: np.ndarray) -> np.ndarray:
        """Factor of each frequency that brings the mel of `magnitude` nearer to `bands`."""
        return self._bands.spread(bands / (self._bands.sum(magnitude) + TINY))

    def _sound(self, spectrum: np.ndarray) -> np.ndarray:
        """Overlapping sum of the inverse transforms, not yet divided by the sum of the windows."""
        return self._overlap_add(np.fft.irfft(spectrum, self.spec.n_fft) * self._window)

    def _overlap_add(self, frames: np.ndarray) -> np.ndarray:
        """(frames, n_fft) → ((frames + hops per frame - 1) * hop_length,)."""
        hop, hops = self.spec.hop_length, self._hops_per_frame
        total = np.zeros((len(frames) + hops - 1, hop), np.float32)
        for index in range(hops):
            part = frames[:, index * hop : (index + 1) * hop]
            total[index : index + len(frames), : part.shape[1]] += part
        return total.reshape(-1)

    def _transform(self, samples: np.ndarray, count: int) -> np.ndarray:
        """The spectra (count, bins) of overlapping frames."""
        frames = np.lib.stride_tricks.sliding_window_view(samples, self.spec.n_fft)[:: self.spec.hop_length]
        spectra = np.empty((count, 1 + self.spec.n_fft // 2), np.complex64)
        for start in range(0, count, FRAMES_AT_ONCE):
            block = slice(start, min(start + FRAMES_AT_ONCE, count))
            spectra[block] = np.fft.rfft(frames[block] * self._window)
        return spectra


class _Bands:
    """Products with the filterbank and back. Triangles overlap only their neighbors, so a frequency is in two bands at most.

    Matrix products of this size make BLAS start threads, whose waiting for each other took six times the processor time.
    """

    def __init__(self, filterbank: np.ndarray):
        """`filterbank` (bins, n_mels)."""
        bins, self._n_mels = filterbank.shape
        lower = np.where(filterbank.any(axis=1), (filterbank > 0).argmax(axis=1), 0)
        self._lower = np.maximum.accumulate(np.minimum(lower, max(0, self._n_mels - 2)))
        self._upper = np.minimum(self._lower + 1, self._n_mels - 1)
        index = np.arange(bins)
        self._lower_weight = filterbank[index, self._lower]
        self._upper_weight = np.where(self._upper > self._lower, filterbank[index, self._upper], np.float32(0))
        # A frequency outside every band (above f_max, the 0 Hz bin) stays silent: it gets nothing back.
        total = self._lower_weight + self._upper_weight + TINY
        self._lower_back, self._upper_back = self._lower_weight / total, self._upper_weight / total
        self._touched, self._starts = np.unique(self._lower, return_index=True)

    def sum(self, magnitude: np.ndarray) -> np.ndarray:
        """Magnitudes (frames, bins) → bands (frames, n_mels): the product with the filterbank."""
        bands = np.zeros((len(magnitude), self._n_mels), np.float32)
        bands[:, self._touched] += np.add.reduceat(magnitude * self._lower_weight, self._starts, axis=1)
        upper = np.minimum(self._touched + 1, self._n_mels - 1)
        bands[:, upper] += np.add.reduceat(magnitude * self._upper_weight, self._starts, axis=1)
        return bands

    def spread(self, bands: np.ndarray) -> np.ndarray:
        """Bands (frames, n_mels) → frequencies (frames, bins): each the mean of its bands, by their weights there."""
        return (
            np.take(bands, self._lower, axis=1) * self._lower_back
            + np.take(bands, self._upper, axis=1) * self._upper_back
        )


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
