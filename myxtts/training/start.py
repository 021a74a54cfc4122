"""The weights that a new run begins with: fresh ones fitted to the corpus's mels, or those of another voice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from myxtts.audio.mel import MelSpec
from myxtts.errors import CheckpointError
from myxtts.synthesis.voice import Voice
from myxtts.synthesis.voice_folder import DESCRIPTION_NAME, bundled_voice
from myxtts.training.checkpoint import load_checkpoint, resolve_checkpoint
from myxtts.training.corpus import TrainingCorpus, mel_statistics
from myxtts.training.state import TrainState
from myxtts.training.transfer import Transfer, map_weights

BUNDLED = "bundled"
"""Stands for the voice that comes with the package in `init_from`."""


@dataclass(frozen=True)
class Source:
    """Weights of another network, and what they mean."""

    weights: dict[str, np.ndarray]
    mel: MelSpec
    symbols: list[str]
    languages: list[str]


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
        transfer = _transfer(_read_source(Path(init_from)), init_from, state, corpus)
        for name, variable in model.weights_by_name().items():
            variable.assign(transfer.weights[name])
        announce(_told(init_from, transfer))
    if state.keeps_average:
        state.average.assign(state.layout.join(state.weights))


def _transfer(source: Source, init_from: str, state: TrainState, corpus: TrainingCorpus) -> Transfer:
    cache = corpus.cache
    if source.mel != cache.mel:
        raise CheckpointError(
            f"{init_from} was trained on other mels than this corpus gives. Received: {source.mel}. "
            f"Expected: {cache.mel}. Set the mel fields of data: (sample_rate among them) to the voice's."
        )
    transfer = map_weights(
        source.weights,
        {name: variable.numpy() for name, variable in state.model.weights_by_name().items()},
        source.symbols,
        cache.symbols.to_list(),
        source.languages,
        cache.languages,
    )
    if len(transfer.kept_as_initialised) > len(transfer.weights) // 2:
        raise CheckpointError(
            f"{init_from} has another size than this network: {len(transfer.kept_as_initialised)} of "
            f"{len(transfer.weights)} weights differ in shape. Use the --model-size that it was trained with."
        )
    return transfer


def _read_source(path: Path) -> Source:
    if path == Path(BUNDLED):
        path = bundled_voice()
    if (path / DESCRIPTION_NAME).is_file():
        voice = Voice.load(path)
        weights = {name: variable.numpy() for name, variable in voice.engine.model.weights_by_name().items()}
        return Source(weights, voice.mel, voice.description.symbols, voice.description.languages)
    checkpoint = load_checkpoint(resolve_checkpoint(path))
    kind = "average" if "average" in checkpoint.arrays else "weights"
    corpus = checkpoint.corpus
    return Source(
        checkpoint.named_weights(kind), MelSpec.from_dict(corpus["mel"]), corpus["symbols"], corpus["languages"]
    )


def _told(init_from: str, transfer: Transfer) -> str:
    parts = [f"Starting from {init_from}"]
    if transfer.new_symbols:
        parts.append(f"new symbols: {' '.join(transfer.new_symbols)}")
    if transfer.new_languages:
        parts.append(f"new languages: {', '.join(transfer.new_languages)}")
    if transfer.kept_as_initialised:
        parts.append(f"{len(transfer.kept_as_initialised)} weights start fresh")
    return "; ".join(parts)
