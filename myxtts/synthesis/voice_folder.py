"""The voice folder: what a trained voice is on disk. Reading one from an untrusted source runs nothing in it.

my-voice/
  voice.json       `VoiceDescription`: network, symbols, front end, languages, speakers, mel, license, defaults
  voice.onnx       text encoder, durations and decoder, with their weights
  speaker.onnx     speaker encoder and the vectors of the named speakers; only voices of several speakers have it
  lexicon.txt      words that are pronounced as their line says (`word<TAB>phonemes`); may be edited
  NAME.onnx        its vocoder, g2p-en.npz its pronunciation model: shared by voices, named in voice.json with their hash, and
                   copied here so that the folder is complete; a voice without copies uses the files of the package
  scores.json      what `myxtts evaluate --score-card` measured (`myxtts.synthesis.score_card`)
  sample-1.wav     two sentences to listen to, with sample-2.wav
  LICENSE          the full text of the license, where its name is not enough

`myxtts.export.voice_writer` writes it.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

import myxtts
from myxtts.audio.mel import MelSpec
from myxtts.config.config import STRICT
from myxtts.errors import VoiceError
from myxtts.models.spec import ModelSpec
from myxtts.runtime.console import printable
from myxtts.runtime.safe_files import check_regular_file, open_regular_file, read_regular_file, visible_subfolders
from myxtts.synthesis.training_split import TrainingSplit
from myxtts.text.lexicon import load_lexicon
from myxtts.text.tokenizer import FrontEnd, SymbolTable, Tokenizer

if TYPE_CHECKING:
    from onnx import ModelProto

FORMAT = "myxtts-voice"
FORMAT_VERSION = 3
"""2 added `training_split`; 3 has ONNX files instead of weights.npz, `vocoder` and `identity`."""
DESCRIPTION_NAME = "voice.json"
VOICE_MODEL_NAME = "voice.onnx"
SPEAKER_MODEL_NAME = "speaker.onnx"
OLD_WEIGHTS_NAME = "weights.npz"
"""Weights of formats 1 and 2, which `myxtts voice convert` reads."""
LICENSE_NAME = "LICENSE"
LEXICON_NAME = "lexicon.txt"
SAMPLE_NAMES = ("sample-1.wav", "sample-2.wav")
MOST_STEPS, MOST_EMPHASIS, MOST_GUIDANCE = 100, 8, 3
"""Limits of `Defaults`."""
VOICE_INPUTS = ("tokens", "duration_scale", "noise", "steps", "temperature", "language")
SPEAKER_INPUT = "speaker"
EXPRESSIVENESS_INPUT = "expressiveness"
"""Input of voices with pitch."""
FEATURES, FRAMES_PER_SYMBOL, MEL = "features", "frames_per_symbol", "mel"
"""Tensors of voice.onnx; the first is inside the graph, the others are its outputs."""
PITCH_CONDITION = "pitch_condition"
"""Tensor inside voice.onnx of voices with pitch: speaker and language of the predicted pitch."""
REFERENCES, VECTORS = "references", "vectors"
"""Input and output of speaker.onnx."""
SPEAKER_VECTORS = "speaker_vectors"
"""Initializer of speaker.onnx: the vectors of the named speakers (speakers, speaker_channels)."""
TRAINING_WEIGHTS = ("unknown_speaker",)
"""Initializers of speaker.onnx that only training uses."""
LONGEST_SYMBOL_SECONDS = 1.5
"""No symbol lasts longer, whatever an untrained network predicts."""
GRIFFIN_LIM = "griffin-lim"
MOST_DESCRIPTION_BYTES = 64 << 20
"""A lexicon may be large; anything beyond this is not a voice."""
MOST_LICENSE_BYTES = 1 << 20
MOST_FOLDERS = 10_000
"""Most folders of one level that are searched for voices."""
LARGEST_DIMENSION = 8192
MOST_LAYERS = 64
HIGHEST_RATE = 192_000
"""Hz: more than any recording of speech has, and as much as every format can hold."""
MOST_OVERLAP = 64
"""Windows over one sample: 4 to 8 are usual, and each costs a Fourier transform."""

Name = Annotated[str, Field(min_length=1, max_length=200)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Fact = Annotated[str, Field(max_length=10_000)] | Annotated[int, Field(ge=-(2**63), lt=2**63)] | float | bool | None


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Defaults:
    """What is used unless the caller chooses."""

    steps: Annotated[int, Field(ge=1, le=MOST_STEPS)] = 10
    """Euler steps of the decoder."""
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.4
    """Size of the noise that the decoder starts from; 0.4 was clearer than 0.667 and 0.9 (docs/voices.md)."""
    duration_scale: Annotated[float, Field(ge=0.25, le=4)] = 1.0
    """Predicted durations are multiplied by it; set so that held-out sentences last as long as their recordings."""
    guidance: Annotated[float, Field(ge=0, le=MOST_GUIDANCE)] = 0.0
    """How far each step of the decoder is moved away from the one for the text averaged over time (`synthesis.guidance`): 0 is
    not at all; what it gains is in docs/voices.md."""
    decoder_emphasis: Annotated[float, Field(ge=0, le=MOST_EMPHASIS)] = 1.0
    """How far the decoder's vector of a named speaker is moved away from the mean of all of them: 1 is not at all. The text
    encoder gets the speaker's own vector; what it gains is in docs/voices.md."""
    clone_emphasis: Annotated[float, Field(ge=0, le=MOST_EMPHASIS)] = 1.0
    """How far a cloned speaker is moved away from the mean of the named ones: 1 is not at all, 2 twice as far; what it gains
    and costs is in docs/voices.md."""
    clone_decoder_emphasis: Annotated[float, Field(ge=0, le=MOST_EMPHASIS)] | None = None
    """The same for the decoder alone, `clone_emphasis` then being that of the text encoder: moving the vector of the text encoder
    far causes mispronunciations, moving that of the decoder makes the speech more like the speaker. None: the same factor."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class VocoderReference:
    """The vocoder of a voice: Griffin-Lim, or a neural one that is shared by several voices."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")] = GRIFFIN_LIM
    sha256: Sha256 | None = None
    """Hash of `NAME.onnx`; None for Griffin-Lim."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class VoiceDescription:
    """Everything about a voice except its weights."""

    model: dict[str, Any]
    """`ModelSpec.to_dict()`."""
    mel: dict[str, Any]
    """`MelSpec.to_dict()`; its sample rate is the voice's."""
    symbols: list[str]
    front_end: dict[str, Any]
    """`FrontEnd.to_dict()`: phonemes or graphemes, and the lexicon, unless that is in lexicon.txt."""
    languages: Annotated[list[Name], Field(min_length=1, max_length=1000)]
    speakers: Annotated[list[Name], Field(max_length=100_000)]
    """Speakers that can be asked for by name; their vectors are in speaker.onnx."""
    default_speakers: Annotated[dict[Name, Name], Field(max_length=1000)] = Field(default_factory=dict)
    """Language → speaker who speaks it unless the caller names one; the first speaker for other languages."""
    reference_frames: Annotated[int, Field(ge=0, le=4096)] = 0
    """Frames of one reference; 0 for a voice of one speaker."""
    trim_silence_db: Annotated[float, Field(ge=0, le=200)] | None = None
    trim_noise_db: Annotated[float, Field(ge=0, le=200)] | None = None
    """How references are cut, as in training."""
    loudness_db: Annotated[float, Field(ge=-100, le=0)] | None = None
    """Level that references are brought to, as in training."""
    max_characters: Annotated[int, Field(ge=10, le=2000)] = 180
    """Longer sentences are cut at clauses."""
    defaults: Defaults = Defaults()
    licence: Annotated[str, Field(max_length=100_000)] = ""
    """Name of the license; the full text is in the file LICENSE (older voices have the text here)."""
    attribution: Annotated[str, Field(max_length=100_000)] = ""
    about: Annotated[dict[Name, Fact], Field(max_length=100)] = Field(default_factory=dict)
    """Where it comes from: training steps and the like; shown, never used."""
    training_split: TrainingSplit | None = None
    """What it was trained on; None in voices of format 1."""
    vocoder: VocoderReference = VocoderReference()
    g2p: dict[Annotated[str, Field(pattern="^(en|fa)$")], Sha256] = Field(default_factory=dict)
    """Hashes of the pronunciation models that it was made with; empty for letters and for espeak-ng."""
    identity: Annotated[str, Field(max_length=100)] = ""
    """Name that saved speakers of this voice carry; if empty, the checksum of voice.onnx. Converted voices keep their old one."""
    format: Literal["myxtts-voice"] = FORMAT
    format_version: Annotated[int, Field(ge=1)] = FORMAT_VERSION
    written_by: str = f"myxtts {myxtts.__version__}"

    def model_spec(self) -> ModelSpec:
        """The network's dimensions, checked."""
        try:
            spec = TypeAdapter(ModelSpec).validate_json(json.dumps(self.model), strict=True)
            if unknown := sorted(set(self.model) - set(spec.to_dict())):
                raise ValueError(f"unknown entries {unknown}")
        except (ValidationError, ValueError, KeyError) as error:
            raise VoiceError(
                f"voice.json does not describe a network that this version of MyXTTS has: {_short(error)}"
            ) from None
        _check_network(spec)
        return spec

    def mel_spec(self) -> MelSpec:
        """The mel that the network speaks, checked."""
        try:
            spec = TypeAdapter(MelSpec).validate_json(json.dumps(self.mel), strict=True)
        except ValidationError as error:
            raise VoiceError(f"voice.json has invalid mel settings: {_short(error)}") from None
        is_possible = (
            set(self.mel) == set(spec.to_dict())
            and 1000 <= spec.sample_rate <= HIGHEST_RATE
            and 16 <= spec.win_length <= spec.n_fft <= 65_536
            and spec.n_fft / MOST_OVERLAP <= spec.hop_length <= spec.win_length
            and 1 <= spec.n_mels <= 1024
            and 0 <= spec.f_min < spec.f_max <= spec.sample_rate / 2
            and 0 < spec.log_floor < 1
        )
        if not is_possible:
            raise VoiceError(f"voice.json has invalid mel settings: {self.mel!r:.200}.")
        return spec

    def tokenizer(self) -> Tokenizer:
        """From text to the network's symbols."""
        return Tokenizer(SymbolTable.from_list(self.symbols), FrontEnd.from_dict(self.front_end))


def _check_network(spec: ModelSpec) -> None:
    """Raise a `VoiceError` for dimensions that no network has."""
    sizes = [value for value in asdict(spec).values() if type(value) is int]
    if min(sizes) < 1 or max(sizes[3:]) > LARGEST_DIMENSION or max(spec.text_layers, spec.decoder_layers) > MOST_LAYERS:
        raise VoiceError(f"voice.json describes a network of invalid size: {spec!r:.200}.")
    if spec.text_channels % (2 * spec.text_heads):
        raise VoiceError(
            f"voice.json describes a network of invalid size: {spec.text_channels} channels cannot be divided among "
            f"{spec.text_heads} heads, an even number each."
        )
    dilations = spec.decoder_dilations
    if not 1 <= len(dilations) <= MOST_LAYERS or not all(0 < dilation < 100 for dilation in dilations):
        raise VoiceError(f"voice.json has invalid dilations ({len(dilations)}): {dilations[:10]!r:.100}.")
    rates = (spec.dropout, spec.decoder_dropout, spec.condition_dropout)
    if not all(0 <= rate < 1 for rate in rates):
        raise VoiceError(f"voice.json has invalid dropout rates: {rates!r:.100}. Expected 0 to below 1.")


def check_description(description: VoiceDescription) -> None:
    """Raise a `VoiceError` if its parts contradict each other."""
    model, mel, tokenizer = description.model_spec(), description.mel_spec(), description.tokenizer()
    pairs = {
        "symbols": (len(tokenizer.symbols), model.num_symbols),
        "languages": (len(description.languages), model.num_languages),
        "different languages": (len(set(description.languages)), model.num_languages),
        "mel bands": (mel.n_mels, model.n_mels),
    }
    for what, (found, expected) in pairs.items():
        if found != expected:
            raise VoiceError(f"voice.json is inconsistent: {found} {what}, but a network for {expected}.")
    if len(set(description.speakers)) != len(description.speakers) or len(description.speakers) > model.num_speakers:
        raise VoiceError(
            f"voice.json names {len(description.speakers)} speakers; expected {model.num_speakers} different ones."
        )
    unknown = set(description.default_speakers) - set(description.languages)
    unknown |= set(description.default_speakers.values()) - set(description.speakers)
    if unknown:
        raise VoiceError(f"voice.json names default speakers that it does not have: {sorted(unknown)[0]!r:.60}.")
    if description.training_split is not None:
        description.training_split.check()
    if (description.vocoder.sha256 is None) != (description.vocoder.name == GRIFFIN_LIM):
        raise VoiceError(
            f"voice.json must have a hash for a neural vocoder and none for Griffin-Lim. Received: {description.vocoder}."
        )
    if model.has_speakers != (description.reference_frames > 0):
        raise VoiceError(
            f"voice.json is inconsistent: {model.num_speakers} speakers, but references of "
            f"{description.reference_frames} frames."
        )


def license_file(folder: str | Path) -> Path | None:
    """The file with the full text of a voice's license, if it has one; its size is checked, its content not read."""
    path = Path(folder) / LICENSE_NAME
    if not path.is_file():
        return None
    if path.stat().st_size > MOST_LICENSE_BYTES:
        raise VoiceError(f"{path} is too large to be a license: expected {MOST_LICENSE_BYTES:,} bytes at most.")
    return path


def read_description(folder: str | Path) -> VoiceDescription:
    """Read and check `voice.json` of a folder, and check that the model files are there; they are not read."""
    folder = Path(folder)
    description = parse_description(folder)
    if description.format_version < 3 and not os.path.lexists(folder / VOICE_MODEL_NAME):
        name = printable(str(folder), keeps_lines=False)
        raise VoiceError(
            f"{name:.200} is a voice of an earlier version of MyXTTS (format {description.format_version}). Convert it: "
            f"`myxtts voice convert {name:.200} OUT`."
        )
    for path in model_files(folder, description):
        try:
            check_regular_file(path)
        except OSError as error:
            raise VoiceError(
                f"{path} is missing or cannot be read ({error.strerror}). Copy the whole voice folder."
            ) from None
    return description


def model_files(folder: str | Path, description: VoiceDescription) -> list[Path]:
    """The .onnx files with a voice's weights."""
    names = (VOICE_MODEL_NAME, SPEAKER_MODEL_NAME) if description.model_spec().has_speakers else (VOICE_MODEL_NAME,)
    return [Path(folder) / name for name in names]


def parse_description(folder: Path) -> VoiceDescription:
    """Read and check `voice.json` of a folder, of this or an earlier format."""
    path = folder / DESCRIPTION_NAME
    try:
        content = read_regular_file(path, MOST_DESCRIPTION_BYTES)
    except OSError as error:
        reason = error.strerror
        if os.path.isdir(folder):
            reason = f"{DESCRIPTION_NAME}: {reason}" if os.path.lexists(path) else f"it has no {DESCRIPTION_NAME}"
        name = printable(str(folder), keeps_lines=False)
        raise VoiceError(
            f"{name:.200} is not a voice ({reason}). Expected a folder with {DESCRIPTION_NAME} and {VOICE_MODEL_NAME}; "
            "`myxtts voice export CHECKPOINT OUT` creates one."
        ) from None
    description = _parse_description(path, content)
    if os.path.lexists(folder / LEXICON_NAME):
        lexicon = load_lexicon(folder / LEXICON_NAME)
        front_end = FrontEnd.from_dict(description.front_end).to_dict()
        front_end["lexicon"] |= lexicon.entries
        description = replace(description, front_end=front_end)
    try:
        check_description(description)
    except VoiceError as error:
        raise VoiceError(
            f"{path} is not valid: {str(error).rstrip('.')}. Copy the whole folder again, or export it again."
        ) from None
    return description


def _parse_description(path: Path, content: bytes) -> VoiceDescription:
    try:
        values = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise VoiceError(
            f"{path} is cut off, damaged or not a voice: {_short(error)}. Copy the whole voice folder again."
        ) from None
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise VoiceError(f'{path} is not a voice of MyXTTS: it lacks "format": "{FORMAT}". Name another folder.')
    version = values.get("format_version")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise VoiceError(
            f"{path} has voice format {version!r:.20}; this version of MyXTTS reads up to {FORMAT_VERSION}. "
            "Update MyXTTS: `git pull` and `pip install .` in the project folder."
        )
    try:
        return TypeAdapter(VoiceDescription).validate_json(content)
    except ValidationError as error:
        raise VoiceError(
            f"{path} is cut off, damaged or not a voice: {_short(error)} Copy the whole voice folder again."
        ) from None


def read_models(folder: str | Path, description: VoiceDescription) -> tuple[ModelProto, ModelProto | None]:
    """The checked models of a voice: voice.onnx, and speaker.onnx of a voice of several speakers.

    A `VoiceError` for files that are damaged, foreign or do not fit voice.json. Nothing is run.
    """
    from myxtts.synthesis.onnx_file import read_model

    folder = Path(folder)
    voice = read_model(folder / VOICE_MODEL_NAME, *voice_tensors(description))
    _check_shapes(folder, description, voice)
    if not description.model_spec().has_speakers:
        return voice, None
    return voice, read_model(folder / SPEAKER_MODEL_NAME, (REFERENCES,), (VECTORS,))


def _check_shapes(folder: Path, description: VoiceDescription, model: ModelProto) -> None:
    """Raise a `VoiceError` unless voice.onnx and voice.json describe the same symbols, languages and bands."""
    spec = description.model_spec()
    shapes = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    expected = {
        "text_encoder/embedding/embeddings": (spec.num_symbols, spec.text_channels),
        "language_embedding/embeddings": (spec.num_languages + 1, spec.speaker_channels),
        "mel_mean": (spec.n_mels,),
    }
    for name, shape in expected.items():
        if shapes.get(name) != shape:
            raise VoiceError(
                f"{folder / VOICE_MODEL_NAME} does not fit voice.json: {name} has shape {shapes.get(name)}, expected {shape}. "
                "Copy the whole voice folder again, or export it again."
            )


def read_weights(folder: str | Path) -> tuple[VoiceDescription, dict[str, np.ndarray]]:
    """The description of a voice and every weight of its network by name, float32; training starts from them."""
    from myxtts.synthesis.onnx_file import weights_of

    description = read_description(folder)
    voice, speaker = read_models(folder, description)
    weights = weights_of(voice) | ({} if speaker is None else weights_of(speaker))
    weights.pop(SPEAKER_VECTORS, None)
    return description, weights


def speaker_vectors_of(weights: Mapping[str, np.ndarray], description: VoiceDescription) -> np.ndarray:
    """The vectors (speakers, speaker_channels) of the named speakers, from the weights of speaker.onnx."""
    vectors = weights.get(SPEAKER_VECTORS)
    expected = (len(description.speakers), description.model_spec().speaker_channels)
    if vectors is None or vectors.shape != expected:
        found = None if vectors is None else vectors.shape
        raise VoiceError(
            f"{SPEAKER_MODEL_NAME} has speaker vectors {found}; expected {expected}. Export the voice again."
        )
    return vectors


def voice_tensors(description: VoiceDescription) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the inputs and outputs of voice.onnx."""
    spec = description.model_spec()
    speaker = (SPEAKER_INPUT,) if spec.has_speakers else ()
    expressiveness = (EXPRESSIVENESS_INPUT,) if spec.pitch else ()
    return (*VOICE_INPUTS, *speaker, *expressiveness), (MEL, FRAMES_PER_SYMBOL)


def find_voices(folder: str | Path) -> list[Path]:
    """Folders with a voice.json: `folder` itself, and up to two levels below it (`voices/anna`, `my-run/voice`)."""
    folder = Path(folder)
    found = [folder] if (folder / DESCRIPTION_NAME).is_file() else []
    level = [folder]
    for _ in range(2):
        level = [child for parent in level for child in visible_subfolders(parent)][:MOST_FOLDERS]
        found += [child for child in level if (child / DESCRIPTION_NAME).is_file()]
    return found


def voice_identity(folder: str | Path, description: VoiceDescription) -> str:
    """The name that a saved speaker vector carries, because it belongs to one voice: eight hex digits of its weights."""
    return description.identity or file_checksum(Path(folder) / VOICE_MODEL_NAME)


def file_checksum(path: Path) -> str:
    """CRC-32 of a file as eight hex digits."""
    checksum = 0
    with open_regular_file(path) as file:
        while part := file.read(1 << 20):
            checksum = zlib.crc32(part, checksum)
    return f"{checksum:08x}"


def _short(error: Exception) -> str:
    """The first problem that a validation found, on one line without control characters."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        where = ".".join(f"{part!s:.80}" for part in first["loc"])
        text = f"{where + ': ' if where else ''}{first['msg']}."
    else:
        text = str(error)
    return printable(text, keeps_lines=False)[:300]
