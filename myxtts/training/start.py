"""The weights that a new run begins with: fresh ones fitted to the corpus's mels, or those of another voice."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from myxtts.synthesis.voice import Voice
from myxtts.synthesis.voice_folder import DESCRIPTION_NAME
from myxtts.training.checkpoint import load_checkpoint
from myxtts.training.corpus import TrainingCorpus, mel_statistics
from myxtts.training.state import TrainState
from myxtts.training.transfer import Origin, Transfer, locate_origin, map_weights, read_origin


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
