"""Start from another voice: the settings that its weights require, and its weights mapped by name onto a new network.

The new network may have other symbols, languages or speakers. No TensorFlow here.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.audio.mel import MelSpec, voice_rate
from myxtts.cache.location import with_prepared_language
from myxtts.cache.writer import ignore_line
from myxtts.config.config import DEFAULT_LANGUAGE, DEFAULT_SIZE, ModelConfig, XTTSConfig
from myxtts.config.load import config_to_dict, parse_config
from myxtts.errors import CheckpointError, ConfigError
from myxtts.models.spec import SIZES, ModelSpec
from myxtts.synthesis.voice import Voice
from myxtts.synthesis.voice_folder import DESCRIPTION_NAME, bundled_voice, read_description
from myxtts.text.tokenizer import text_symbols_of
from myxtts.training.checkpoint import checkpoints_in, load_checkpoint, read_state, resolve_checkpoint
from myxtts.training.corpus import TrainingCorpus, mel_statistics
from myxtts.training.state import TrainState

BUNDLED = "bundled"
"""Stands for the voice that comes with the package in `init_from`."""
MEL_FIELDS = ("sample_rate", "n_fft", "win_length", "hop_length", "n_mels", "mel_f_min", "mel_f_max", "log_floor")
DIMENSIONS = (
    "text_channels",
    "text_layers",
    "text_heads",
    "decoder_channels",
    "decoder_layers",
    "speaker_channels",
)
FOLLOWED = {"data": (*MEL_FIELDS, "text_symbols", "language"), "model": ("size", *DIMENSIONS)}
"""Settings that belong to weights: left at their default, they are those that the weights were trained with."""
SYMBOL_TABLE = "text_encoder/embedding/embeddings"
LANGUAGE_TABLE = "language_embedding/embeddings"


@dataclass(frozen=True)
class Origin:
    """The network whose weights a run starts from, without the weights."""

    name: str
    """As the user gave it."""
    mel: MelSpec
    model: ModelSpec
    text_symbols: str
    languages: tuple[str, ...]

    @property
    def size(self) -> str:
        """The model size with these dimensions, or the one that is nearest to them."""
        return min(SIZES, key=lambda name: abs(SIZES[name]["decoder_channels"] - self.model.decoder_channels))


def locate_origin(init_from: str) -> Path:
    """The voice folder or checkpoint folder that `init_from` names."""
    path = bundled_voice() if init_from == BUNDLED else Path(init_from)
    return path if os.path.isfile(path / DESCRIPTION_NAME) else resolve_checkpoint(path)


def read_origin(init_from: str) -> Origin:
    """Read what `init_from` was trained with; its weights are not read."""
    path = locate_origin(init_from)
    if (path / DESCRIPTION_NAME).is_file():
        voice = read_description(path)
        return Origin(
            init_from, voice.mel_spec(), voice.model_spec(), text_symbols_of(voice.front_end), tuple(voice.languages)
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
        )
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{path} does not hold what a checkpoint holds: {error}.") from None


def settle_start(
    config: XTTSConfig, starts_anew: bool = False, announce: Callable[[str], None] = ignore_line
) -> XTTSConfig:
    """The configuration with the settings that the first weights decide, before the corpus is prepared.

    Those weights are the run in `checkpoint_dir`, unless it `starts_anew`; otherwise those of `init_from`. Settings at their
    default take the values that the weights were trained with. A setting that contradicts `init_from` is a `ConfigError`;
    one that contradicts the run is left to `myxtts.training.resume`, which knows the corpus. Without such weights, the language
    is the one that the corpus was prepared in.
    """
    init_from = config.training.init_from
    settings: dict[str, dict[str, Any]] = {}
    run = None if starts_anew else _newest_state(Path(config.training.checkpoint_dir))
    if run is not None:
        settings = _settings_of_run(run, config.training.checkpoint_dir)
    elif init_from is not None:
        origin = read_origin(init_from)
        _refuse_contradictions(config, origin)
        settings = _settings_of_origin(config.model, origin)
    taken_from = config.training.checkpoint_dir if run is not None else init_from
    filled = _filled_in(config_to_dict(config), settings)
    data = (
        config.data if filled["data"]["language"] is not None else with_prepared_language(config.data, None, announce)
    )
    language = data.language or DEFAULT_LANGUAGE
    filled = _filled_in(filled, {"data": {"language": language}, "model": {"size": DEFAULT_SIZE}})
    return parse_config(filled, source=f"the settings taken from {taken_from}")


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
        raise CheckpointError(f"{folder} holds a run whose state cannot be read: {error}.") from None
    return settings


def _settings_of_origin(model: ModelConfig, origin: Origin) -> dict[str, dict[str, Any]]:
    size = origin.size if model.size == "auto" else model.size
    usual = SIZES[size] | {"speaker_channels": ModelSpec.speaker_channels}
    trained = {name: getattr(origin.model, name) for name in DIMENSIONS}
    return {
        "data": {
            **origin.mel.to_config(),
            "text_symbols": origin.text_symbols,
            "language": origin.languages[0] if len(origin.languages) == 1 else None,
        },
        "model": {"size": size, **{name: trained[name] for name in DIMENSIONS if trained[name] != usual[name]}},
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
    usual = config_to_dict(XTTSConfig())
    return {
        section: dict(values)
        | {
            name: value
            for name, value in settings.get(section, {}).items()
            if value is not None and values[name] == usual[section][name]
        }
        for section, values in sections.items()
    }


def _default_of(settings: Any, name: str) -> Any:
    return next(field.default for field in dataclasses.fields(settings) if field.name == name)


@dataclass(frozen=True)
class Transfer:
    """Weights for the new network, and what could not be taken over."""

    weights: dict[str, np.ndarray]
    new_symbols: list[str]
    new_languages: list[str]
    kept_as_initialised: list[str]
    """Weights that the source lacks or has in another shape."""


def map_weights(
    source: Mapping[str, np.ndarray],
    target: Mapping[str, np.ndarray],
    source_symbols: Sequence[str],
    target_symbols: Sequence[str],
    source_languages: Sequence[str],
    target_languages: Sequence[str],
) -> Transfer:
    """The target's weights (by name) with all that the source has of the same name and shape; tables row by row by name."""
    tables = {
        SYMBOL_TABLE: (source_symbols, target_symbols, 0),
        LANGUAGE_TABLE: (source_languages, target_languages, 1),
    }
    weights, missing = {}, []
    for name, initial in target.items():
        if name in tables and name in source and source[name].shape[1:] == initial.shape[1:]:
            weights[name] = _mapped_rows(source[name], initial, *tables[name])
        elif name in source and source[name].shape == initial.shape:
            weights[name] = source[name]
        else:
            weights[name] = initial
            missing.append(name)
    return Transfer(
        weights,
        new_symbols=[symbol for symbol in target_symbols if symbol not in source_symbols],
        new_languages=[language for language in target_languages if language not in source_languages],
        kept_as_initialised=missing,
    )


def _mapped_rows(
    source: np.ndarray, initial: np.ndarray, source_names: Sequence[str], target_names: Sequence[str], offset: int
) -> np.ndarray:
    """Rows of `initial` replaced by the source's rows of the same name; `offset` rows at the start belong to no name."""
    rows = np.array(initial)
    rows[:offset] = source[:offset]
    places = {name: number for number, name in enumerate(source_names)}
    for number, name in enumerate(target_names):
        if name in places:
            rows[offset + number] = source[offset + places[name]]
    return rows


# MERGED: The weights that a new run begins with: fresh ones fitted to the corpus's mels, or those of another voice.


def start_weights(
    state: TrainState, init_from: str | None, corpus: TrainingCorpus, announce: Callable[[str], None]
) -> None:
    """Set the network's weights for step 0."""
    model = state.model
    if init_from is None:
        mean, deviation = mel_statistics(corpus.cache, corpus.plan.clips)
        model.mel_mean.assign(mean)
        model.mel_deviation.assign(deviation)
    else:
        origin = read_origin(init_from)
        transfer = _transfer(origin, state, corpus)
        for name, variable in model.weights_by_name().items():
            variable.assign(transfer.weights[name])
        for line in _describe(origin, transfer):
            announce(line)
    if state.keeps_average:
        state.average.assign(state.layout.join(state.weights))


def _transfer(origin: Origin, state: TrainState, corpus: TrainingCorpus) -> Transfer:
    cache = corpus.cache
    symbols, weights = _read_weights(origin.name)
    return map_weights(
        weights,
        {name: variable.numpy() for name, variable in state.model.weights_by_name().items()},
        symbols,
        cache.symbols.to_list(),
        origin.languages,
        cache.languages,
    )


def _read_weights(init_from: str) -> tuple[list[str], dict[str, np.ndarray]]:
    """The symbols and the weights by name of a voice or a checkpoint."""
    path = locate_origin(init_from)
    if (path / DESCRIPTION_NAME).is_file():
        voice = Voice.load(path)
        weights = {name: variable.numpy() for name, variable in voice.engine.model.weights_by_name().items()}
        return voice.description.symbols, weights
    checkpoint = load_checkpoint(path)
    kind = "average" if "average" in checkpoint.arrays else "weights"
    return checkpoint.corpus["symbols"], checkpoint.named_weights(kind)


def _describe(origin: Origin, transfer: Transfer) -> list[str]:
    """What is taken over, and what is not, in lines for the user."""
    parts = [
        f"Starting from {origin.name} ({origin.size}, {origin.mel.sample_rate} Hz, {origin.text_symbols}, "
        f"{', '.join(origin.languages)})"
    ]
    if transfer.new_symbols:
        parts.append(f"new symbols: {' '.join(transfer.new_symbols)}")
    if transfer.kept_as_initialised:
        parts.append(f"{len(transfer.kept_as_initialised)} weights start fresh")
    lines = ["; ".join(parts)]
    if transfer.new_languages:
        lines.append(
            f"This corpus has clips in {', '.join(transfer.new_languages)}, and {origin.name} was trained on "
            f"{', '.join(origin.languages)}: symbols of the same name keep their weights, the language starts fresh."
        )
    return lines
