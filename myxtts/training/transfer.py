"""Start from another voice: its weights, mapped by name onto a network that may know other symbols, languages or speakers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

SYMBOL_TABLE = "text_encoder/embedding/embeddings"
LANGUAGE_TABLE = "language_embedding/embeddings"


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
