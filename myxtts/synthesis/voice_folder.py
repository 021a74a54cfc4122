"""The voice folder: what a trained voice is on disk. Written whole or not at all; read from strangers without running anything.

my-voice/
  voice.json       `VoiceDescription`: network, symbols, front end, languages, speakers, mel, licence, defaults
  weights.npz      the network's weights, and the vectors of the named speakers
  LICENSE          the full text of the licence, where its name alone would not do
"""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

import myxtts
from myxtts.audio.mel import MelSpec
from myxtts.config.config import STRICT
from myxtts.errors import VoiceError
from myxtts.models.spec import ModelSpec
from myxtts.runtime.atomic import cause_of
from myxtts.runtime.console import printable
from myxtts.runtime.files import open_regular_file, read_regular_file
from myxtts.synthesis.training_split import TrainingSplit
from myxtts.synthesis.weights_file import count_weights, write_weights
from myxtts.text.tokenizer import FrontEnd, SymbolTable, Tokenizer

FORMAT = "myxtts-voice"
FORMAT_VERSION = 2
"""2 added `training_split`."""
DESCRIPTION_NAME = "voice.json"
WEIGHTS_NAME = "weights.npz"
LICENCE_NAME = "LICENSE"
SPEAKER_VECTORS = "speaker_vectors"
"""Name in the weights file of the named speakers' vectors (speakers, speaker_channels)."""
MOST_DESCRIPTION_BYTES = 64 << 20
"""A lexicon may be large; anything beyond this is not a voice."""
MOST_LICENCE_BYTES = 1 << 20
MOST_FOLDERS = 10_000
"""Of one level in which voices are looked for."""
LARGEST_DIMENSION = 8192
MOST_LAYERS = 64
HIGHEST_RATE = 192_000
"""Hz: more than any recording of speech has, and as much as every format can hold."""
MOST_OVERLAP = 64
"""Windows over one sample: 4 to 8 are usual, and each costs a Fourier transform."""

Name = Annotated[str, Field(min_length=1, max_length=200)]
Fact = Annotated[str, Field(max_length=10_000)] | Annotated[int, Field(ge=-(2**63), lt=2**63)] | float | bool | None


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Defaults:
    """What is used where the caller says nothing."""

    steps: Annotated[int, Field(ge=1, le=100)] = 10
    """Euler steps of the decoder."""
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.667
    """Size of the noise that the decoder starts from."""
    duration_scale: Annotated[float, Field(ge=0.25, le=4)] = 1.0
    """Predicted durations are multiplied by it; set so that held-out sentences last as long as their recordings."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class VoiceDescription:
    """Everything about a voice except its weights."""

    model: dict[str, Any]
    """`ModelSpec.to_dict()`."""
    mel: dict[str, Any]
    """`MelSpec.to_dict()`; its sample rate is the voice's."""
    symbols: list[str]
    front_end: dict[str, Any]
    """`FrontEnd.to_dict()`: phonemes or graphemes, and the lexicon."""
    languages: Annotated[list[Name], Field(min_length=1, max_length=1000)]
    speakers: Annotated[list[Name], Field(max_length=100_000)]
    """Speakers that can be asked for by name; their vectors are in the weights file."""
    reference_frames: Annotated[int, Field(ge=0, le=4096)] = 0
    """Frames of one reference; 0 for a voice of one speaker."""
    trim_silence_db: Annotated[float, Field(ge=0, le=200)] | None = None
    """How references are cut, as in training."""
    loudness_db: Annotated[float, Field(ge=-100, le=0)] | None = None
    """Level that references are brought to, as in training."""
    max_characters: Annotated[int, Field(ge=10, le=2000)] = 180
    """Longer sentences are cut at clauses."""
    defaults: Defaults = Defaults()
    licence: Annotated[str, Field(max_length=100_000)] = ""
    """Its name; the full text is the file LICENSE (older voices have the text here)."""
    attribution: Annotated[str, Field(max_length=100_000)] = ""
    about: Annotated[dict[Name, Fact], Field(max_length=100)] = Field(default_factory=dict)
    """Where it comes from: training steps and the like; shown, never used."""
    training_split: TrainingSplit | None = None
    """What it was trained on; None in voices of format 1."""
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
            raise VoiceError(f"voice.json does not describe a mel: {_short(error)}") from None
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
            raise VoiceError(f"voice.json describes an impossible mel: {self.mel!r:.200}.")
        return spec

    def tokenizer(self) -> Tokenizer:
        """From text to the network's symbols."""
        return Tokenizer(SymbolTable.from_list(self.symbols), FrontEnd.from_dict(self.front_end))


def _check_network(spec: ModelSpec) -> None:
    """Raise a `VoiceError` for dimensions that no network has."""
    sizes = [value for value in asdict(spec).values() if isinstance(value, int)]
    if min(sizes) < 1 or max(sizes[3:]) > LARGEST_DIMENSION or max(spec.text_layers, spec.decoder_layers) > MOST_LAYERS:
        raise VoiceError(f"voice.json describes a network of impossible size: {spec!r:.200}.")
    if spec.text_channels % (2 * spec.text_heads):
        raise VoiceError(
            f"voice.json describes a network of impossible size: {spec.text_channels} channels cannot be shared by "
            f"{spec.text_heads} heads, an even number each."
        )
    dilations = spec.decoder_dilations
    if not 1 <= len(dilations) <= MOST_LAYERS or not all(0 < dilation < 100 for dilation in dilations):
        raise VoiceError(f"voice.json has impossible dilations ({len(dilations)}): {dilations[:10]!r:.100}.")
    shares = (spec.dropout, spec.decoder_dropout, spec.condition_dropout)
    if not all(0 <= share < 1 for share in shares):
        raise VoiceError(f"voice.json drops impossible shares: {shares!r:.100}. Expected 0 to 1.")


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
            raise VoiceError(f"voice.json contradicts itself: {found} {what}, but a network for {expected}.")
    if len(set(description.speakers)) != len(description.speakers) or len(description.speakers) > model.num_speakers:
        raise VoiceError(
            f"voice.json names {len(description.speakers)} speakers; expected {model.num_speakers} different ones."
        )
    if description.training_split is not None:
        description.training_split.check()
    if model.has_speakers != (description.reference_frames > 0):
        raise VoiceError(
            f"voice.json contradicts itself: {model.num_speakers} speakers, but references of "
            f"{description.reference_frames} frames."
        )


def save_voice(
    folder: str | Path,
    description: VoiceDescription,
    weights: Mapping[str, np.ndarray],
    speaker_vectors: np.ndarray | None = None,
    licence_text: str = "",
) -> Path:
    """Write a voice folder, or replace one, so that a reader sees the old voice or the whole new one.

    `weights` are those of `XTTS.weights_by_name()`; `speaker_vectors` (speakers, speaker_channels) belong to
    `description.speakers`, for voices of several speakers; `licence_text` is the licence in full, if it is more than a name.
    """
    folder = Path(folder)
    check_description(description)
    arrays = dict(weights)
    if description.model_spec().has_speakers:
        if speaker_vectors is None or len(speaker_vectors) != len(description.speakers):
            count = 0 if speaker_vectors is None else len(speaker_vectors)
            raise VoiceError(f"{len(description.speakers)} speakers need as many speaker vectors. Received: {count}.")
        arrays[SPEAKER_VECTORS] = np.asarray(speaker_vectors, np.float32)
    licence_bytes = licence_text.encode("utf-8", "replace")
    if len(licence_bytes) > MOST_LICENCE_BYTES:
        raise VoiceError(f"The licence has {len(licence_bytes):,} bytes; expected {MOST_LICENCE_BYTES:,} at most.")
    # Short, because the folder's own name may be as long as a name can be.
    partial = folder.with_name(f".{zlib.crc32(os.fsencode(folder.name)):08x}.{os.getpid()}.partial")
    old = partial.with_suffix(".old.partial")
    try:
        if folder.exists() and not _may_be_replaced(folder):
            raise VoiceError(f"{folder} exists and is not a voice, so it is not replaced. Name a new folder.")
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial.mkdir()
        write_weights(partial / WEIGHTS_NAME, arrays)
        content = json.dumps(asdict(description), ensure_ascii=False, indent=1)
        (partial / DESCRIPTION_NAME).write_text(content + "\n", encoding="utf-8")
        if licence_bytes:
            (partial / LICENCE_NAME).write_bytes(licence_bytes)
        if folder.exists():
            folder.rename(old)
        partial.rename(folder)
    except OSError as error:
        if old.exists() and not folder.exists():
            old.rename(folder)
        raise VoiceError(f"The voice {folder} could not be written: {cause_of(error)}.") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
    return folder


def _may_be_replaced(folder: Path) -> bool:
    return (folder / DESCRIPTION_NAME).is_file() or (folder.is_dir() and not any(folder.iterdir()))


def licence_file(folder: str | Path) -> Path | None:
    """The file with the full text of a voice's licence, if it has one; its size checked, its content not read."""
    path = Path(folder) / LICENCE_NAME
    if not path.is_file():
        return None
    if path.stat().st_size > MOST_LICENCE_BYTES:
        raise VoiceError(f"{path} is too large to be a licence: expected {MOST_LICENCE_BYTES:,} bytes at most.")
    return path


def read_description(folder: str | Path) -> VoiceDescription:
    """`voice.json` of a folder, checked in itself and against the size of the weights."""
    folder = Path(folder)
    path = folder / DESCRIPTION_NAME
    try:
        content = read_regular_file(path, MOST_DESCRIPTION_BYTES)
    except OSError as error:
        reason = error.strerror
        if os.path.isdir(folder):
            reason = f"{DESCRIPTION_NAME}: {reason}" if os.path.lexists(path) else f"it has no {DESCRIPTION_NAME}"
        name = printable(str(folder), keeps_lines=False)
        raise VoiceError(
            f"{name:.200} is not a voice ({reason}). Expected a folder with {DESCRIPTION_NAME} and {WEIGHTS_NAME}; "
            "`myxtts voice export CHECKPOINT OUT` makes one."
        ) from None
    description = _parse_description(path, content)
    check_description(description)
    if count_weights(folder / WEIGHTS_NAME) < fewest_weights(description.model_spec()):
        raise VoiceError(
            f"{folder / WEIGHTS_NAME} is cut off or belongs to another voice: it is too small for the network that "
            f"{DESCRIPTION_NAME} describes. Copy the whole voice folder again, or export it again."
        )
    return description


def _parse_description(path: Path, content: bytes) -> VoiceDescription:
    try:
        values = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise VoiceError(f"{path} is cut off, damaged or not a voice: {_short(error)}.") from None
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise VoiceError(f'{path} is JSON, but not a voice of MyXTTS (it lacks "format": "{FORMAT}").')
    version = values.get("format_version")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise VoiceError(
            f"{path} has voice format {version!r:.20}; this version of MyXTTS reads up to {FORMAT_VERSION}. "
            "Update MyXTTS: `git pull` and `pip install .` in the project folder."
        )
    try:
        return TypeAdapter(VoiceDescription).validate_json(content)
    except ValidationError as error:
        raise VoiceError(f"{path} is cut off, damaged or not a voice: {_short(error)}") from None


def fewest_weights(spec: ModelSpec) -> int:
    """Fewer numbers than this no network of these dimensions has; checked before a stranger's network is built."""
    return (
        spec.num_symbols * spec.text_channels
        + spec.num_languages * spec.speaker_channels
        + spec.text_layers * 4 * spec.text_channels**2
        + spec.decoder_layers * 6 * spec.decoder_channels**2
    )


def bundled_voice() -> Path:
    """The folder of the voice that comes with MyXTTS."""
    folder = Path(myxtts.__file__).parent / "assets" / "voices" / "default"
    if not (folder / DESCRIPTION_NAME).is_file():
        raise VoiceError(
            "No voice comes with this copy of MyXTTS. Train one (python train_main.py), export it (myxtts voice export "
            "checkpointsmain my-voice), and name it: --voice my-voice."
        )
    return folder


def find_voices(folder: str | Path) -> list[Path]:
    """Folders with a voice.json: `folder` itself, and up to two levels below it (`voices/anna`, `my-run/voice`)."""
    folder = Path(folder)
    found = [folder] if (folder / DESCRIPTION_NAME).is_file() else []
    level = [folder]
    for _ in range(2):
        level = [child for parent in level for child in _subfolders(parent)][:MOST_FOLDERS]
        found += [child for child in level if (child / DESCRIPTION_NAME).is_file()]
    return found


def _subfolders(folder: Path) -> list[Path]:
    """Folders that are not hidden, by name; none where the folder cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return sorted(folder / each.name for each in entries if each.name[0] != "." and each.is_dir())
    except OSError:
        return []


def voice_identity(folder: str | Path) -> str:
    """Eight hex digits of the weights: a saved speaker vector belongs to one voice."""
    checksum = 0
    with open_regular_file(Path(folder) / WEIGHTS_NAME) as file:
        while part := file.read(1 << 20):
            checksum = zlib.crc32(part, checksum)
    return f"{checksum:08x}"


def _short(error: Exception) -> str:
    """The first complaint of a validation, on one line; a stranger's own names in it are spelled out."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        where = ".".join(f"{part!s:.80}" for part in first["loc"])
        text = f"{where + ': ' if where else ''}{first['msg']}."
    else:
        text = str(error)
    return printable(text, keeps_lines=False)[:300]
