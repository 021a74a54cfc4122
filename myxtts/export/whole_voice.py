"""A voice as one ONNX file from symbols to samples, for programs that are not MyXTTS: networks and vocoder in one graph.

`myxtts.export.piper` and `myxtts.export.sherpa` give it the inputs that those programs expect. `export_onnx` is for your own
program: the inputs of voice.onnx, samples as output, and next to it the symbols, the defaults and a lexicon.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

from myxtts.errors import VoiceError
from myxtts.export.exported_lexicon import exported_lexicon
from myxtts.export.graph import Graph
from myxtts.export.networks import add_speech
from myxtts.export.vocoder_graph import GriffinLimGraph
from myxtts.runtime.safe_files import cause_of, replacing_folder
from myxtts.synthesis.onnx_file import read_model, weights_of
from myxtts.synthesis.options import check_language
from myxtts.synthesis.vocoder import VOCODER_TENSORS, vocoder_file
from myxtts.synthesis.voice_folder import (
    GRIFFIN_LIM,
    LICENSE_NAME,
    REFERENCES,
    SPEAKER_INPUT,
    SPEAKER_MODEL_NAME,
    VECTORS,
    VoiceDescription,
    license_file,
    read_weights,
    speaker_vectors_of,
)

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
VOCODER_SEED = 1.0
"""Of the random noise inside an exported graph: every new session draws the same numbers."""

Shapes = dict[str, tuple[int, Sequence[str | int]]]
"""Number type and shape of named tensors."""


@dataclass(frozen=True, eq=False)
class WholeVoice:
    """A voice that was read from its folder, with everything that goes into one file."""

    folder: Path
    description: VoiceDescription
    weights: dict[str, np.ndarray]
    speaker_vectors: np.ndarray | None
    """(speakers, speaker_channels); None for a voice of one speaker."""
    vocoder: onnx.ModelProto | None
    """None: Griffin-Lim."""
    language: str

    @property
    def speaks_phonemes(self) -> bool:
        """Whether its symbols are phonemes and not letters."""
        return self.description.front_end["kind"] == "phonemes"

    def facts(self) -> dict[str, str]:
        """Metadata that every exported file has."""
        return {
            "language": self.language,
            "sample_rate": str(self.description.mel_spec().sample_rate),
            "n_speakers": str(1 if self.speaker_vectors is None else len(self.description.speakers)),
            "license": self.description.licence[:1000],
            "attribution": self.description.attribution[:5000],
        }


def read_voice(folder: Path, language: str | None = None) -> WholeVoice:
    """Read a voice folder; `language` is that of the exported voice, by default its first."""
    description, weights = read_weights(folder)
    vectors = vocoder = None
    if description.model_spec().has_speakers:
        model = read_model(folder / SPEAKER_MODEL_NAME, (REFERENCES,), (VECTORS,))
        vectors = speaker_vectors_of(weights_of(model), description)
        if not len(vectors):
            raise VoiceError(f"{folder} has no named speakers to export. Train a voice with named speakers.")
    if description.vocoder.name != GRIFFIN_LIM:
        path = vocoder_file(description.vocoder, folder)
        vocoder = read_model(path, *VOCODER_TENSORS, description.vocoder.sha256)
    language = check_language(language, description.languages)
    return WholeVoice(folder, description, weights, vectors, vocoder, language)


def add_voice(graph: Graph, voice: WholeVoice, speaker_index: str | None, noise: str | None) -> tuple[str, str]:
    """Add networks and vocoder to a graph with the tensors of `VOICE_INPUTS`; returns samples (samples,) and frames per symbol.

    Args:
        graph: a graph of the voice's weights.
        voice: what is added.
        speaker_index: tensor int64 () of the speaker's index, for voices of several.
        noise: tensor (frames, n_mels); None: the graph draws it.
    """
    description = voice.description
    if voice.speaker_vectors is not None and speaker_index is not None:
        graph.node("Gather", graph.constant(voice.speaker_vectors), speaker_index, name=SPEAKER_INPUT)
    mel, frames = add_speech(graph, description.model_spec(), description.mel_spec(), noise)
    if voice.vocoder is None:
        samples = GriffinLimGraph(graph, description.mel_spec()).samples(mel)
    else:
        samples = graph.embed(voice.vocoder, _vocoder_inputs(graph, voice.vocoder, mel), "vocoder/")["samples"]
    return graph.node("Clip", samples, graph.constant(-1.0), graph.constant(1.0)), frames


def _vocoder_inputs(graph: Graph, vocoder: onnx.ModelProto, mel: str) -> dict[str, str]:
    """The mel, and for a vocoder with noise (frames, bins) uniform numbers that the graph draws."""
    shapes = {each.name: each.type.tensor_type.shape.dim for each in vocoder.graph.input}
    given = {"mel": mel}
    if "noise" in shapes:
        first_band = graph.node("Slice", mel, graph.integers(0), graph.integers(1), graph.integers(1))
        zeros = graph.node("Mul", first_band, graph.constant(np.zeros((1, shapes["noise"][1].dim_value))))
        given["noise"] = graph.node("RandomUniformLike", zeros, seed=VOCODER_SEED)
    return given


# --- the format `onnx` ------------------------------------------------------------------------------------------------


def whole_model(voice: WholeVoice) -> onnx.ModelProto:
    """The model of `--format onnx`.

    Inputs as in voice.onnx: `tokens` int64 (symbols,), `duration_scale` float (), `noise` float (frames, n_mels) with at least as
    many frames as are spoken, `steps` int64 (), `temperature` float (), `language` int64 (), and `speaker_index` int64 ()
    for voices of several speakers.
    Outputs: `samples` float (samples,) and `frames_per_symbol` int64 (2 · symbols + 1,).
    """
    n_mels = voice.description.mel_spec().n_mels
    inputs: Shapes = {
        "tokens": (INT64, ("symbols",)),
        "duration_scale": (FLOAT, ()),
        "noise": (FLOAT, ("noise_frames", n_mels)),
        "steps": (INT64, ()),
        "temperature": (FLOAT, ()),
        "language": (INT64, ()),
    }
    if voice.speaker_vectors is not None:
        inputs["speaker_index"] = (INT64, ())
    graph = Graph(voice.weights)
    samples, frames = add_voice(graph, voice, "speaker_index", "noise")
    graph.node("Identity", samples, name="samples")
    outputs: Shapes = {"samples": (FLOAT, ("samples",)), frames: (INT64, ("expanded_symbols",))}
    return graph.model("voice", inputs, outputs, voice.facts())


def export_onnx(folder: Path, out: Path, language: str | None = None, words: Sequence[str] = ()) -> Path:
    """Write a folder with `model.onnx`, `model.json` and, for voices of phonemes, `lexicon.txt` (`word p1 p2 …`)."""
    voice = read_voice(folder, language)
    description, mel = voice.description, voice.description.mel_spec()
    content = {
        "sample_rate": mel.sample_rate,
        "hop_length": mel.hop_length,
        "n_mels": mel.n_mels,
        "symbols": description.symbols,
        "kind": description.front_end["kind"],
        "language": description.languages.index(voice.language),
        "languages": description.languages,
        "speakers": description.speakers if voice.speaker_vectors is not None else [],
        "steps": description.defaults.steps,
        "temperature": description.defaults.temperature,
        "duration_scale": description.defaults.duration_scale,
    }
    files = {
        "model.onnx": whole_model(voice).SerializeToString(deterministic=True),
        "model.json": (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode(),
    }
    if voice.speaks_phonemes:
        files["lexicon.txt"] = exported_lexicon(description, folder, voice.language, words).encode()
    return write_export(voice, out, files)


# --- files ------------------------------------------------------------------------------------------------------------


def write_export(voice: WholeVoice, out: Path, files: dict[str, bytes]) -> Path:
    """Write the files of an export, and the license of the voice, into a new folder."""
    if out.exists():
        raise VoiceError(f"{out} exists, so it was not replaced. Name a new folder.")
    if (full_license := license_file(voice.folder)) is not None:
        files[LICENSE_NAME] = full_license.read_bytes()
    try:
        with replacing_folder(out) as temporary:
            for name, content in files.items():
                (temporary / name).write_bytes(content)
    except OSError as error:
        raise VoiceError(f"{out} could not be written: {cause_of(error)}.") from error
    return out
