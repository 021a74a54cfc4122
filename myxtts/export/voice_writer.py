"""Write voice folders: the description of a voice and the weights of its network become voice.json and .onnx files.

A folder is complete: copies of the vocoder and of the pronunciation models are in it, so that it speaks the same with every
version of MyXTTS. Only a voice of the package itself refers to the files there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import onnx

from myxtts.errors import VoiceError
from myxtts.export.networks import speaker_model, voice_model
from myxtts.runtime.safe_files import TEMPORARY_SUFFIX, cause_of, read_regular_file, replacing_folder
from myxtts.synthesis.onnx_file import LARGEST_FILE, read_model
from myxtts.synthesis.reader import g2p_file, g2p_name
from myxtts.synthesis.samples import SAMPLE_TEXTS, speak_sample
from myxtts.synthesis.score_card import SCORES_NAME
from myxtts.synthesis.vocoder import VOCODER_TENSORS, find_vocoder, refer_to, vocoder_file
from myxtts.synthesis.voice import Voice
from myxtts.synthesis.voice_folder import (
    DESCRIPTION_NAME,
    GRIFFIN_LIM,
    LEXICON_NAME,
    LICENSE_NAME,
    MOST_LICENSE_BYTES,
    OLD_WEIGHTS_NAME,
    SAMPLE_NAMES,
    SPEAKER_MODEL_NAME,
    VOICE_MODEL_NAME,
    VocoderReference,
    VoiceDescription,
    check_description,
    model_files,
    read_description,
    read_models,
)
from myxtts.text import g2p
from myxtts.text.cleanup import base_language

VOICE_FILES = (
    DESCRIPTION_NAME,
    LICENSE_NAME,
    LEXICON_NAME,
    SCORES_NAME,
    OLD_WEIGHTS_NAME,
    *SAMPLE_NAMES,
    g2p_name("*"),
    "*.onnx",
    f"*{TEMPORARY_SUFFIX}",
)
"""Patterns of the files of a voice folder, which a new voice replaces; the last is what a killed process was writing."""


def save_voice(
    folder: str | Path,
    description: VoiceDescription,
    weights: Mapping[str, np.ndarray],
    speaker_vectors: np.ndarray | None = None,
    license_text: str = "",
    *,
    copies_assets: bool = True,
    vocoder: str | Path | None = None,
) -> Path:
    """Write a voice folder, or replace one, so that a reader sees the old voice or the whole new one.

    Args:
        folder: a new folder, an empty one, or a voice to replace.
        description: everything about the voice except its weights.
        weights: those of `XTTS.weights_by_name()`.
        speaker_vectors: (speakers, speaker_channels) of `description.speakers`, for voices of several speakers.
        license_text: the license in full, if it is more than a name.
        copies_assets: whether the vocoder and the pronunciation models are copied into the folder.
        vocoder: file or name of a vocoder that replaces that of the description; `griffin-lim`: none.
    """
    folder = Path(folder)
    description, vocoder = _with_vocoder(_with_g2p_hashes(description), vocoder)
    check_description(description)
    license_bytes = license_text.encode("utf-8", "replace")
    if len(license_bytes) > MOST_LICENSE_BYTES:
        raise VoiceError(
            f"The license has {len(license_bytes):,} bytes; expected {MOST_LICENSE_BYTES:,} at most. Shorten it."
        )
    files = _model_files(description, weights, speaker_vectors)
    if license_bytes:
        files[LICENSE_NAME] = license_bytes
    return _write(folder, description, files, folder if copies_assets else None, vocoder)


def copy_voice(
    source: Path,
    folder: Path,
    *,
    copies_assets: bool = True,
    vocoder: str | Path | None = None,
    guidance: float | None = None,
) -> Path:
    """Write a complete copy of a voice: with its vocoder and pronunciation models, its scores and its samples.

    With another vocoder (as in `save_voice`) or guidance the scores and samples, which are those of the old one, are left out.
    """
    description, vocoder = _with_vocoder(_with_g2p_hashes(read_description(source)), vocoder)
    read_models(source, description)
    own_guidance = description.defaults.guidance
    sounds_alike = vocoder is None and guidance in (None, own_guidance)
    if guidance is not None:
        description = replace(description, defaults=replace(description.defaults, guidance=guidance))
    sounding = (SCORES_NAME, *SAMPLE_NAMES) if sounds_alike else ()
    names = [path.name for path in model_files(source, description)]
    names += [name for name in (LICENSE_NAME, *sounding) if (source / name).is_file()]
    try:
        files = {name: read_regular_file(source / name, LARGEST_FILE) for name in names}
    except OSError as error:
        raise VoiceError(f"{error.filename} cannot be read: {error.strerror}. Copy the whole voice folder.") from None
    return _write(folder, description, files, source if copies_assets else None, vocoder)


def check_voice_target(folder: Path) -> None:
    """Raise a `VoiceError` if a voice cannot be written to `folder`, or would replace more than a voice."""
    try:
        names = sorted(path.name for path in folder.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise VoiceError(f"The voice {folder} could not be written: {cause_of(error)}. Name another folder.") from None
    if names and not _may_be_replaced(folder):
        raise VoiceError(_not_a_voice(folder))
    if others := [name for name in names if not any(fnmatchcase(name, pattern) for pattern in VOICE_FILES)]:
        raise VoiceError(
            f"{folder} holds more than a voice, so it was not replaced: {', '.join(others)!s:.100}. "
            "Move that, or name another folder."
        )


def write_samples(folder: Path) -> list[Path]:
    """Speak the sample texts of a voice's first language into its folder; returns the files, none for other languages."""
    voice = Voice.load(folder)
    texts = SAMPLE_TEXTS.get(base_language(voice.languages[0]), ())
    paths = [folder / name for name, _ in zip(SAMPLE_NAMES, texts, strict=False)]
    for path, text in zip(paths, texts, strict=True):
        speak_sample(voice, text, voice.languages[0], path)
    return paths


def _with_g2p_hashes(description: VoiceDescription) -> VoiceDescription:
    """The description with the hashes of the models of the package, if it uses some and names none."""
    if description.g2p or description.front_end.get("phonemizer") != "myxtts":
        return description
    codes = {base_language(each) for each in description.languages if g2p.covers(each)}
    needed = codes | {"en"} if codes else codes  # Latin words inside Persian text are read as English
    return replace(description, g2p={code: g2p.model_sha256(code) for code in g2p.LANGUAGES if code in needed})


def _with_vocoder(description: VoiceDescription, vocoder: str | Path | None) -> tuple[VoiceDescription, Path | None]:
    """The description with another vocoder, and the file of that one."""
    if vocoder is None:
        return description, None
    if str(vocoder) == GRIFFIN_LIM:
        return replace(description, vocoder=VocoderReference()), Path(GRIFFIN_LIM)
    path = find_vocoder(vocoder)
    return replace(description, vocoder=refer_to(path, description.mel_spec())), path


def _assets_of(description: VoiceDescription, source: Path, vocoder: Path | None) -> dict[str, bytes]:
    """The vocoder and the pronunciation models of a voice, from the package or the folder `source`; their hashes are checked.

    Args:
        vocoder: the file of the vocoder if it is elsewhere.
    """
    files = {}
    if description.vocoder.name != GRIFFIN_LIM:
        path = vocoder or vocoder_file(description.vocoder, source)
        read_model(path, *VOCODER_TENSORS, description.vocoder.sha256)
        files[path.name] = path.read_bytes()
    for code in description.g2p:
        files[g2p_name(code)] = g2p_file(description, code, source).read_bytes()
    return files


def _write(
    folder: Path,
    description: VoiceDescription,
    files: dict[str, bytes],
    assets_from: Path | None,
    vocoder: Path | None,
) -> Path:
    """Write the files, the description, and the assets unless `assets_from` is None."""
    if assets_from is not None:
        files = files | _assets_of(description, assets_from, vocoder)
    elif description.vocoder.name != GRIFFIN_LIM and vocoder not in (None, find_vocoder(description.vocoder.name)):
        raise VoiceError(
            f"The vocoder {vocoder} is not part of MyXTTS, so it must be copied. Leave out --shared-assets."
        )
    lexicon = description.front_end["lexicon"]
    if lexicon:
        files[LEXICON_NAME] = "".join(f"{word}\t{phonemes}\n" for word, phonemes in sorted(lexicon.items())).encode()
        description = replace(description, front_end=description.front_end | {"lexicon": {}})
    files[DESCRIPTION_NAME] = (json.dumps(asdict(description), ensure_ascii=False, indent=1) + "\n").encode()
    try:
        if folder.exists() and not _may_be_replaced(folder):
            raise VoiceError(_not_a_voice(folder))
        with replacing_folder(folder) as temporary:
            for name, content in files.items():
                (temporary / name).write_bytes(content)
    except OSError as error:
        raise VoiceError(f"The voice {folder} could not be written: {cause_of(error)}. Name another folder.") from error
    return folder


def _model_files(
    description: VoiceDescription, weights: Mapping[str, np.ndarray], speaker_vectors: np.ndarray | None
) -> dict[str, bytes]:
    spec = description.model_spec()
    models: dict[str, onnx.ModelProto] = {VOICE_MODEL_NAME: voice_model(spec, description.mel_spec(), weights)}
    if spec.has_speakers:
        if speaker_vectors is None or len(speaker_vectors) != len(description.speakers):
            count = 0 if speaker_vectors is None else len(speaker_vectors)
            raise VoiceError(
                f"{len(description.speakers)} speakers need one speaker vector each. Received: {count} vectors."
            )
        models[SPEAKER_MODEL_NAME] = speaker_model(spec, weights, speaker_vectors)
    written = {tensor.name for model in models.values() for tensor in model.graph.initializer}
    if left_over := sorted(set(weights) - written):
        raise VoiceError(
            f"{len(left_over)} weights do not belong to a voice, such as {left_over[0]!r:.80}. "
            "Use a checkpoint of this version of MyXTTS."
        )
    return {name: model.SerializeToString(deterministic=True) for name, model in models.items()}


def _may_be_replaced(folder: Path) -> bool:
    return (folder / DESCRIPTION_NAME).is_file() or (folder.is_dir() and not any(folder.iterdir()))


def _not_a_voice(folder: Path) -> str:
    return f"{folder} exists and is not a voice, so it was not replaced. Name a new folder."
