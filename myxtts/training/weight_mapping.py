"""Weights of one network mapped by name onto another, whose symbols and languages may be others; averages of two networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from myxtts.errors import VoiceError
from myxtts.synthesis.voice_folder import DESCRIPTION_NAME, read_weights
from myxtts.training.checkpoint import load_checkpoint
from myxtts.training.starting_config import locate_origin, read_origin

SYMBOL_TABLE = "text_encoder/embedding/embeddings"
LANGUAGE_TABLE = "language_embedding/embeddings"
"""The weight with a row for the unknown language, then one for each language."""
BAND_STATISTICS = ("mel_mean", "mel_deviation")
"""Weights that a network takes over from the one that it starts from, so that equal ones show a common origin."""
SAME_STATISTICS = 0.02
"""Largest difference of band statistics, in nepers: those of a voice are float16."""


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


def average_weights(
    weights: Mapping[str, np.ndarray], symbols: Sequence[str], languages: Sequence[str], other: str, fraction: float
) -> dict[str, np.ndarray]:
    """The mean of the weights of a network and of another one with the same origin, which has `fraction` of it.

    A network that was trained further can lose some of what it could do before, for speakers that it is not trained on. Between
    it and the one that it came from lies a compromise that can be better than both (WiSE-FT, Wortsman et al., 2022, arXiv
    2109.01903). Weights, symbols and languages that the other one lacks stay.

    Args:
        weights: by name, as in `XTTS.weights_by_name`.
        symbols, languages: of these weights.
        other: voice, bundled voice or checkpoint.
        fraction: from 0 to 1.
    """
    other_symbols, other_weights = read_source(other)
    transfer = map_weights(other_weights, weights, other_symbols, symbols, read_origin(other).languages, languages)
    if different := sorted(set(transfer.kept_as_initialized) & set(other_weights)):
        raise VoiceError(
            f"{other} has another size: {different[0]} differs. Average with a voice of the same dimensions."
        )
    for name in BAND_STATISTICS:
        if np.abs(weights[name] - transfer.weights[name]).max() > SAME_STATISTICS:
            raise VoiceError(
                f"{other} cannot be averaged with this network: their mels are normalized in different ways, so neither was "
                "trained from the other. Name the voice that the training started from."
            )
    return {name: value + fraction * (transfer.weights[name] - value) for name, value in weights.items()}
