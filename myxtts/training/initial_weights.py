"""The weights that a new run begins with: new ones fitted to the corpus's mels, or those of another voice.

The new network may have other symbols, languages or speakers than the one whose weights it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from myxtts.batches.gather import clip_quality
from myxtts.cache.clip_table import ClipTable
from myxtts.config.config import DataConfig
from myxtts.models.spec import ModelSpec
from myxtts.models.xtts import TEACHER
from myxtts.synthesis.voice_folder import DESCRIPTION_NAME, read_weights
from myxtts.training.checkpoint import load_checkpoint
from myxtts.training.starting_config import Origin, locate_origin, read_origin
from myxtts.training.state import TrainState
from myxtts.training.training_corpus import TrainingCorpus, mel_statistics
from myxtts.training.voice_export import LANGUAGE_TABLE, network_with, speaker_vectors

SYMBOL_TABLE = "text_encoder/embedding/embeddings"


def initialize_weights(state: TrainState, corpus: TrainingCorpus, bandwidth_aware: bool | Literal["always"]) -> None:
    """New weights (those that the network was built with), fitted to the mels of the corpus."""
    bands = clip_quality(corpus.cache, bandwidth_aware).bands
    mean, deviation = mel_statistics(corpus.cache, corpus.plan.clips, bands)
    state.model.mel_mean.assign(mean)
    state.model.mel_deviation.assign(deviation)


def start_from(state: TrainState, init_from: str, corpus: TrainingCorpus, announce: Callable[[str], None]) -> None:
    """The weights of another voice or checkpoint, mapped by name onto the network of this corpus."""
    origin = read_origin(init_from)
    symbols, weights = read_source(origin.name)
    if origin.model.has_speakers and not state.model.spec.has_speakers:
        weights = for_one_speaker(origin.model, weights, corpus.cache, corpus.plan.clips)
    transfer = map_weights(
        weights,
        {name: variable.numpy() for name, variable in state.model.weights_by_name().items()},
        symbols,
        corpus.cache.symbols.to_list(),
        origin.languages,
        corpus.cache.languages,
    )
    for name, variable in state.model.weights_by_name().items():
        variable.assign(transfer.weights[name.replace(f"{TEACHER}/", "decoder/", 1)])
    if state.keeps_ema:
        state.ema.assign(state.layout.join(state.weights))
    for line in _describe(origin, transfer):
        announce(line)


def for_one_speaker(
    spec: ModelSpec, weights: Mapping[str, np.ndarray], table: ClipTable, clips: np.ndarray
) -> dict[str, np.ndarray]:
    """Weights of a network of several speakers for one with only the speaker of the given clips.

    Speaker vector and language embedding are added wherever they are used, so the vector becomes a part of every language.
    """
    model = network_with(spec.without_heads, weights)
    vector = speaker_vectors(model, table, clips, DataConfig.reference_frames)[0]
    return {**weights, LANGUAGE_TABLE: weights[LANGUAGE_TABLE] + vector}


@dataclass(frozen=True)
class Transfer:
    """Weights for the new network, and what the source lacks."""

    weights: dict[str, np.ndarray]
    new_symbols: list[str]
    new_languages: list[str]
    kept_as_initialized: list[str]
    """Weights that the source lacks or has in another shape."""


def map_weights(
    source: Mapping[str, np.ndarray],
    target: Mapping[str, np.ndarray],
    source_symbols: Sequence[str],
    target_symbols: Sequence[str],
    source_languages: Sequence[str],
    target_languages: Sequence[str],
) -> Transfer:
    """The target's weights, replaced by those of the source with the same name and shape.

    The tables of symbols and languages are mapped row by row, by the name of the symbol or language.
    """
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
        kept_as_initialized=missing,
    )


def _mapped_rows(
    source: np.ndarray, initial: np.ndarray, source_names: Sequence[str], target_names: Sequence[str], offset: int
) -> np.ndarray:
    """Rows of `initial` replaced by the source's rows of the same name; `offset` rows at the start belong to no name."""
    rows = np.array(initial)
    rows[:offset] = source[:offset]
    source_index = {name: index for index, name in enumerate(source_names)}
    for index, name in enumerate(target_names):
        if name in source_index:
            rows[offset + index] = source[offset + source_index[name]]
    return rows


def read_source(init_from: str) -> tuple[list[str], dict[str, np.ndarray]]:
    """The symbols and the weights by name of a voice or a checkpoint."""
    path = locate_origin(init_from)
    if (path / DESCRIPTION_NAME).is_file():
        description, weights = read_weights(path)
        return description.symbols, weights
    checkpoint = load_checkpoint(path)
    return checkpoint.corpus["symbols"], checkpoint.named_weights(prefers_ema=True)


def _describe(origin: Origin, transfer: Transfer) -> list[str]:
    """Lines for the user: which weights are used, and which start fresh."""
    parts = [
        f"Starting from {origin.name} ({origin.size}, {origin.mel.sample_rate} Hz, {origin.text_symbols}, "
        f"{', '.join(origin.languages)})"
    ]
    if transfer.new_symbols:
        parts.append(f"new symbols: {' '.join(transfer.new_symbols)}")
    if transfer.kept_as_initialized:
        parts.append(f"{len(transfer.kept_as_initialized)} weights are newly initialized")
    lines = ["; ".join(parts)]
    if transfer.new_languages:
        lines.append(
            f"This corpus has clips in {', '.join(transfer.new_languages)}, and {origin.name} was trained on "
            f"{', '.join(origin.languages)}: symbols of the same name keep their weights, the language is newly initialized."
        )
    return lines
