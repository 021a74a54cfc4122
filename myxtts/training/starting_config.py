"""The configuration that a run starts with: what its first weights require, and what is refused before anything is prepared.

The first weights are those of the run in `checkpoint_dir`, otherwise those of `training.init_from`, otherwise new ones. No
TensorFlow here.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from myxtts.audio.mel import MelSpec, voice_rate
from myxtts.batches.plan import plan_kind
from myxtts.cache.joint import part_configs
from myxtts.cache.location import with_prepared_language
from myxtts.config.config import DEFAULT_LANGUAGE, DEFAULT_SIZE, DataConfig, ModelConfig, TrainingConfig, XTTSConfig
from myxtts.config.load import config_to_dict, parse_config
from myxtts.errors import CheckpointError, ConfigError
from myxtts.models.spec import SIZES, ModelSpec
from myxtts.runtime.progress import ignore_line
from myxtts.synthesis.bundled import BUNDLED, NAMES, bundled_origin, find_voice
from myxtts.synthesis.voice_folder import DESCRIPTION_NAME, Defaults, read_description, read_models
from myxtts.text.tokenizer import text_symbols_of
from myxtts.training.checkpoint import checkpoints_in, read_state, resolve_checkpoint

MEL_FIELDS = ("sample_rate", "n_fft", "win_length", "hop_length", "n_mels", "mel_f_min", "mel_f_max", "log_floor")
DIMENSIONS = (
    "text_channels",
    "text_layers",
    "text_heads",
    "decoder_channels",
    "decoder_layers",
    "speaker_channels",
)
FOLLOWED = {
    "data": (*MEL_FIELDS, "text_symbols", "language", "bandwidth_aware"),
    "model": ("size", "recording_condition", "pitch", *DIMENSIONS),
}
"""Settings that belong to weights: at their default, they take the values that the weights were trained with."""


@dataclass(frozen=True)
class Origin:
    """The network whose weights a run starts from, without the weights."""

    name: str
    """Name as the user gave it."""
    mel: MelSpec
    model: ModelSpec
    text_symbols: str
    languages: tuple[str, ...]
    distilled_to: int | None = None
    """Steps that its decoder was distilled to; None: it was not."""

    @property
    def size(self) -> str:
        """The model size with these dimensions, or the nearest one."""
        return min(SIZES, key=lambda name: abs(SIZES[name]["decoder_channels"] - self.model.decoder_channels))


def locate_origin(init_from: str) -> Path:
    """The voice folder, bundled voice or checkpoint folder that `init_from` names."""
    path = find_voice(init_from)
    return path if os.path.isfile(path / DESCRIPTION_NAME) else resolve_checkpoint(path)


def read_origin(init_from: str) -> Origin:
    """Read what `init_from` was trained with. The models of a voice are checked: damage shows before the corpus is prepared."""
    path = locate_origin(init_from)
    if (path / DESCRIPTION_NAME).is_file():
        voice = read_description(path)
        read_models(path, voice)
        return Origin(
            init_from,
            voice.mel_spec(),
            voice.model_spec(),
            text_symbols_of(voice.front_end),
            tuple(voice.languages),
            distilled_to=voice.defaults.steps if voice.defaults.steps < Defaults.steps else None,
        )
    state = read_state(path)
    try:
        corpus = state["corpus"]
        return Origin(
            init_from,
            MelSpec.from_dict(corpus["mel"]),
            ModelSpec.from_dict(corpus["model"]),
            text_symbols_of(corpus["front_end"]),
            tuple(corpus["languages"]),
            distilled_to=corpus["model"].get("distill_steps"),
        )
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is not a valid checkpoint: {error}. Use another one.") from None


def resolve_starting_config(
    config: XTTSConfig, reset_training: bool = False, announce: Callable[[str], None] = ignore_line
) -> XTTSConfig:
    """The configuration with the settings that the first weights decide, of a network that can be built (`check_network`).

    Settings at their default take the values that the weights were trained with. A setting that contradicts `init_from` is a
    `ConfigError`; one that contradicts the run in `checkpoint_dir` is left to `myxtts.training.starting_state`, which has the
    corpus. Without such weights, the language is the one that the corpus was prepared in.

    Args:
        reset_training: ignore the run in `checkpoint_dir`.
        announce: prints a line.
    """
    run = None if reset_training else _newest_state(Path(config.training.checkpoint_dir))
    if config.training.init_from == BUNDLED:
        named = _bundled_origin(config.data, run)
        config = dataclasses.replace(config, training=dataclasses.replace(config.training, init_from=named))
    init_from = config.training.init_from
    settings: dict[str, dict[str, Any]] = {}
    if run is not None:
        settings = _settings_of_run(run, config.training.checkpoint_dir)
    elif init_from is not None:
        origin = read_origin(init_from)
        _refuse_contradictions(config, origin)
        if origin.distilled_to is not None:
            announce(
                f"The decoder of {init_from} was distilled to {origin.distilled_to} steps and must learn the others again. "
                "Start from a voice that was not distilled, such as base, if you have one."
            )
        settings = _settings_of_origin(config.model, origin)
    taken_from = config.training.checkpoint_dir if run is not None else init_from
    filled = _filled_in(config_to_dict(config), settings)
    data = config.data
    if filled["data"]["language"] is None and not data.corpora:
        data = with_prepared_language(data, None, announce)
    language = data.language or DEFAULT_LANGUAGE
    if data.corpora:  # each corpus has its own, and one that names none has the one it was prepared in
        filled["data"]["language"] = language = data.language
    filled = _filled_in(filled, {"data": {"language": language}, "model": {"size": DEFAULT_SIZE}})
    resolved = parse_config(filled, source=f"the settings taken from {taken_from}")
    check_network(resolved)
    return resolved


def _bundled_origin(data: DataConfig, run: Mapping[str, Any] | None) -> str:
    """The name of the bundled voice that a run started from, or that is the one to start from in the languages of the corpora."""
    before = None if run is None else run["config"]["training"]["init_from"]
    if before in (BUNDLED, *NAMES):
        return before
    parts = [with_prepared_language(part) for part in part_configs(data).values()]
    return bundled_origin(*{part.language or DEFAULT_LANGUAGE for part in parts}).name


def _newest_state(folder: Path) -> dict[str, Any] | None:
    """The state of the newest checkpoint that can be read; damaged ones are reported when the run is resumed."""
    for path in reversed(checkpoints_in(folder)):
        try:
            return read_state(path)
        except CheckpointError:
            continue
    return None


def _settings_of_run(state: Mapping[str, Any], folder: str) -> dict[str, dict[str, Any]]:
    try:
        saved = state["config"]
        settings = {
            section: {name: saved[section][name] for name in names if name in saved[section]}
            for section, names in FOLLOWED.items()
        }
        rate = state["corpus"]["mel"]["sample_rate"]
        if settings["data"]["sample_rate"] == "auto" and voice_rate(rate) != rate:
            settings["data"]["sample_rate"] = rate  # a run of version 0.1, whose `auto` kept every rate
        if settings["data"].get("text_symbols") in ("auto", "phonemes"):
            settings["data"]["text_symbols"] = text_symbols_of(state["corpus"]["front_end"])
    except (KeyError, TypeError) as error:
        raise CheckpointError(
            f"{folder} holds a run whose state cannot be read: {error}. Use another --checkpoint-dir, or --reset-training."
        ) from None
    return settings


def _settings_of_origin(model: ModelConfig, origin: Origin) -> dict[str, dict[str, Any]]:
    size = origin.size if model.size == "auto" else model.size
    standard = SIZES[size] | {"speaker_channels": ModelSpec.speaker_channels}
    trained = {name: getattr(origin.model, name) for name in DIMENSIONS}
    return {
        "data": {
            **origin.mel.to_config(),
            "text_symbols": origin.text_symbols,
            "language": origin.languages[0] if len(origin.languages) == 1 else None,
            "bandwidth_aware": "always",
        },
        "model": {
            "size": size,
            "recording_condition": origin.model.recording_condition,
            "pitch": origin.model.pitch,
            **{name: trained[name] for name in DIMENSIONS if trained[name] != standard[name]},
        },
    }


def _refuse_contradictions(config: XTTSConfig, origin: Origin) -> None:
    """Raise a `ConfigError` that names every given setting with which the weights would mean something else."""
    trained = {
        "data": origin.mel.to_config() | {"text_symbols": origin.text_symbols},
        "model": {name: getattr(origin.model, name) for name in DIMENSIONS},
    }
    found = []
    for section, values in trained.items():
        settings = getattr(config, section)
        for name, value in values.items():
            given = getattr(settings, name)
            if given not in (_default_of(settings, name), value):
                found.append(f"{section}.{name}: {given}; {origin.name} was trained with {value}")
    size = config.model.size
    if size != "auto" and any(
        getattr(config.model, name) is None and SIZES[size][name] != trained["model"][name] for name in SIZES[size]
    ):
        dimensions = ", ".join(f"{name} {trained['model'][name]}" for name in DIMENSIONS)
        found.append(f"model.size: {size}; {origin.name} is {origin.size} ({dimensions})")
    if config.model.distill_steps is not None and origin.distilled_to is not None:
        raise ConfigError(
            f"model.distill_steps needs a teacher that takes {Defaults.steps} steps. Received: {origin.name}, which was "
            f"distilled to {origin.distilled_to} itself. Distill the voice that it was made from."
        )
    if found:
        raise ConfigError(
            f"Settings contradict --init-from {origin.name}:\n"
            + "\n".join(f"  - {line}" for line in found)
            + f"\nLeave them out to use those of {origin.name}, or train without --init-from."
        )


def _filled_in(
    sections: Mapping[str, Mapping[str, Any]], settings: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """The sections of a configuration with `settings` where a field has its default."""
    defaults = config_to_dict(XTTSConfig())
    return {
        section: dict(values)
        | {
            name: value
            for name, value in settings.get(section, {}).items()
            if value is not None and values[name] == defaults[section][name]
        }
        for section, values in sections.items()
    }


def _default_of(settings: Any, name: str) -> Any:
    return next(field.default for field in dataclasses.fields(settings) if field.name == name)


def check_network(config: XTTSConfig) -> None:
    """Raise a `ConfigError` if the network cannot be built, or if it would look from one clip of a packed row into the next."""
    # The counts of the corpus are not known yet, and do not matter for what is checked.
    counts = {"num_symbols": 2, "num_languages": 1, "num_speakers": 1, "n_mels": config.data.n_mels}
    reach = ModelSpec.from_config(config.model, **counts).frame_reach
    if plan_kind(config.data) == "packed" and config.data.gap_frames < reach:
        raise ConfigError(
            f"data.gap_frames must be at least {reach}, the frames that the widest convolution of the decoder reaches: with "
            f"fewer, the clips of a packed row mix. Received: {config.data.gap_frames}. Set data.gap_frames: {reach}, or "
            "data.plan: buckets."
        )


def make_run_folders(training: TrainingConfig) -> None:
    """Make the folders that a run writes to; raises a `ConfigError` now instead of at the first checkpoint."""
    make_writable("training.checkpoint_dir", "--checkpoint-dir", training.checkpoint_dir)
    if training.tensorboard_log_dir is not None:
        make_writable("training.tensorboard_log_dir", "--tensorboard-log-dir", training.tensorboard_log_dir)


def make_writable(name: str, flag: str, folder: str) -> None:
    """Make the folder of a setting; raises a `ConfigError` that names its flag if it cannot be written to."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(
            f"{name} cannot be written to. Received: {folder} ({error.strerror}). Expected: a folder, or a path "
            f"where one can be created. Choose another with {flag}."
        ) from None
