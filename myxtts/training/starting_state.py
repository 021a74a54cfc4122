"""The state that a run starts with: that of its newest whole checkpoint, or new weights, or those of another voice.

A run that resumes reports what a changed configuration or corpus means for it. New weights are fitted to the mels of the corpus.
A network that starts from another voice may have other symbols, languages or speakers than that voice.
`myxtts.training.starting_config` is the configuration that belongs to these weights.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from myxtts.batches.gather import clip_quality
from myxtts.cache.clip_table import ClipTable
from myxtts.config.config import DataConfig, XTTSConfig
from myxtts.config.load import config_to_dict
from myxtts.errors import CheckpointError
from myxtts.models.spec import ModelSpec
from myxtts.models.xtts import TEACHER
from myxtts.text.tokenizer import text_symbols_of
from myxtts.training.checkpoint import (
    Checkpoint,
    best_state,
    checkpoints_in,
    finish_interrupted,
    folder_of_step,
    load_newest,
    mark_best,
)
from myxtts.training.starting_config import Origin, read_origin
from myxtts.training.state import RunHistory, TrainState
from myxtts.training.training_corpus import TrainingCorpus, mel_statistics
from myxtts.training.voice_export import network_with, speaker_vectors
from myxtts.training.weight_mapping import LANGUAGE_TABLE, Transfer, map_weights, read_source

EARLIER_RUN = "before-reset"
RUN_FILES = (
    "step-*", "best", "*.jsonl", "*.csv", "status.json", "alignment.png", "tensorboard", "voice", "vocoder.onnx",
    "evaluated-voice", "samples", "worker-*", "*.partial", "best.old",
)  # fmt: skip
"""What a run leaves in its folder."""
FREE_OF_SPEC = {
    "dropout", "decoder_dropout", "condition_dropout", "num_symbols", "num_languages", "num_speakers", "reference_lowpass",
    "virtual_speakers", "log_floor", "f_min", "f_max",
}  # fmt: skip
"""Numbers of the network that weights do not depend on, or that the names in the corpus describe better."""

ADDED_TO_SPEC = {
    "recording_condition": False,
    "pitch": False,
    "speaker_loss": 0.0,
    "language_adversary": 0.0,
    "distill_steps": None,
}
"""Settings with weights that checkpoints of earlier versions do not name, with what they mean there."""


@dataclass(frozen=True)
class SettingChange:
    """One setting that differs between the checkpoint and this run."""

    name: str
    before: Any
    now: Any

    def __str__(self) -> str:
        return f"{self.name}: {self.before!r} → {self.now!r}"


def compare_configs(
    before: Mapping[str, Mapping[str, Any]], now: Mapping[str, Mapping[str, Any]]
) -> list[SettingChange]:
    """The differences of two configurations (as dicts). A setting that an older version did not know is no difference."""
    return [
        SettingChange(f"{section}.{field}", before[section][field], value)
        for section, settings in now.items()
        for field, value in settings.items()
        if field in before.get(section, {}) and before[section][field] != value
    ]


def compare_facts(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Why the weights of one corpus (`corpus_facts`) do not fit another: one line each.

    A network of several speakers takes each voice from a reference, so it can continue with other speakers. A network of one
    speaker has no references.
    """
    trained = {"mel": before["mel"], "model": ADDED_TO_SPEC | before["model"]}
    found = [
        SettingChange(f"{part}.{name}", trained[part][name], value)
        for part in ("mel", "model")
        for name, value in now[part].items()
        if name not in FREE_OF_SPEC and name in trained[part] and trained[part][name] != value
    ]
    symbols_before, symbols_now = text_symbols_of(before["front_end"]), text_symbols_of(now["front_end"])
    if symbols_before != symbols_now:
        found.append(SettingChange("text_symbols", symbols_before, symbols_now))
    if (len(before["speakers"]) > 1) != (len(now["speakers"]) > 1):
        found.append(SettingChange("number of speakers", len(before["speakers"]), len(now["speakers"])))
    elif trained["model"]["speaker_loss"] and len(before["speakers"]) != len(now["speakers"]):
        counts = len(before["speakers"]), len(now["speakers"])
        found.append(SettingChange("number of speakers, which model.speaker_loss distinguishes", *counts))
    lines = [str(change) for change in found]
    for kind in ("symbols", "languages"):
        if before[kind] != now[kind]:
            lines.append(f"{kind}: {_difference(before[kind], now[kind])}")
    return lines


def _difference(before: Sequence[str], now: Sequence[str]) -> str:
    new = [name for name in now if name not in before]
    gone = [name for name in before if name not in now]
    parts = [f"{word} {' '.join(names)}" for word, names in (("new", new), ("gone", gone)) if names]
    return ", ".join(parts) or "the same in another order"


def find_run(
    folder: Path,
    config: XTTSConfig,
    facts: Mapping[str, Any],
    fingerprint: str,
    announce: Callable[[str], None],
    *,
    reset_training: bool,
    writes: bool,
) -> tuple[Checkpoint | None, RunHistory]:
    """The checkpoint that the run in `folder` resumes from, and its history; None and an empty one for a new run.

    Args:
        facts: of the current corpus (`corpus_facts`).
        fingerprint: of the current batch order (`Plan.fingerprint`).
        reset_training: move an earlier run out of the way instead of resuming it.
        writes: whether this process changes the folder; only one process of a run does.
    """
    if reset_training:
        if writes:
            move_earlier_run(folder, announce)
        return None, RunHistory()
    if writes:
        finish_interrupted(folder)
    saved = read_saved(folder, config, facts, fingerprint, announce)
    if saved is None:
        return None, RunHistory()
    history = RunHistory.restored(saved.progress)
    agree_on_best(folder, history, writes)
    return saved, history


def read_saved(
    folder: Path, config: XTTSConfig, facts: Mapping[str, Any], fingerprint: str, announce: Callable[[str], None]
) -> Checkpoint | None:
    """The checkpoint to resume from, if there is one. Announces what changed; a `CheckpointError` if its weights do not fit."""
    saved, damaged = load_newest(folder)
    for line in damaged:
        announce(line)
    if saved is None:
        return None
    _check_start(folder, saved, config.training.init_from)
    if differences := compare_facts(saved.corpus, facts):
        raise CheckpointError(
            f"{folder} holds a run whose weights do not fit this corpus and configuration:\n"
            + "\n".join(f"  - {line}" for line in differences)
            + "\nUse those of the run; or keep the weights that fit, with symbols and languages mapped by name (another "
            f"--checkpoint-dir with --init-from {folder}); or start again (--reset-training)."
        )
    for change in compare_configs(saved.config, config_to_dict(config)):
        announce(f"Changed since the checkpoint: {change}")
    if saved.plan_fingerprint != fingerprint:  # a checkpoint of an earlier version has none
        announce("The batch order changed, so training continues from the start of the next epoch.")
        saved = saved.with_position((saved.position[0] + 1, 0))
    announce(f"Resuming at step {saved.step} from {folder}")
    return saved


def _check_start(folder: Path, saved: Checkpoint, init_from: str | None) -> None:
    """Refuse weights to start from for a run that has its own."""
    before = saved.config["training"]["init_from"]
    if init_from is not None and (before is None or Path(before) != Path(init_from)):
        raise CheckpointError(
            f"{folder} holds a run at step {saved.step}, and --init-from {init_from} only sets the weights that a run begins "
            "with. Leave out --init-from to resume; to start from it, use another --checkpoint-dir or --reset-training."
        )


def agree_on_best(folder: Path, history: RunHistory, writes: bool) -> None:
    """Make `folder`/best and `history` refer to the same step, in case the run was ended before one of them was written.

    With `writes` the checkpoint of the best step becomes best/. If it is missing (a full disk), the best is the one in best/.
    """
    if history.best_loss is None or history.best_evaluation is not None:  # then best/ was chosen by evaluation
        return
    kept = best_state(folder)
    if kept is not None and kept["step"] >= history.best_step:
        return
    checkpoint = folder_of_step(folder, history.best_step)
    if checkpoint not in checkpoints_in(folder):
        earlier = RunHistory.restored(kept["progress"]) if kept else RunHistory()
        history.best_loss, history.best_step = earlier.best_loss, earlier.best_step
    elif writes:
        mark_best(folder, checkpoint)


def move_earlier_run(folder: Path, announce: Callable[[str], None]) -> None:
    """Move an earlier run in `folder` into a subfolder, so that a new run is not taken for its continuation."""
    earlier = {path for pattern in RUN_FILES for path in folder.glob(pattern)}
    if not earlier:
        return
    targets = (folder / f"{EARLIER_RUN}-{count}" for count in itertools.count(1))
    target = next(path for path in targets if not path.exists())
    target.mkdir()
    for path in earlier:
        path.rename(target / path.name)
    announce(f"Starting again; the earlier run was moved to {target}.")


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


def _describe(origin: Origin, transfer: Transfer) -> list[str]:
    """Lines for the user: which weights are used, and which are newly initialized."""
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
