"""From training to speaking: what a checkpoint says about its corpus, and the voice folder that is made of it."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.config.config import DataConfig
from myxtts.data.cache import Cache
from myxtts.data.manifest import read_notices
from myxtts.models.spec import ModelSpec
from myxtts.models.xtts import XTTS
from myxtts.synthesis.training_split import TrainingSplit
from myxtts.synthesis.voice_folder import DESCRIPTION_NAME, Defaults, VoiceDescription, read_description, save_voice
from myxtts.text.tokenizer import build_front_end
from myxtts.training.checkpoint import Checkpoint, load_checkpoint
from myxtts.training.transfer import locate_origin

VOICE_NAME = "voice"
LONGEST_LICENCE_NAME = 200
_DECLARED_LICENCE = re.compile(r"^(?:License|SPDX-License-Identifier): *(\S.*?) *$", re.MULTILINE)
REFERENCES_PER_SPEAKER = 8
"""Clips whose vectors are averaged for a speaker who is asked for by name."""


def corpus_facts(spec: ModelSpec, cache: Cache, config: DataConfig, data_folder: Path) -> dict[str, Any]:
    """Everything that a voice needs to know of its corpus; saved with every checkpoint."""
    licence, attribution = read_notices(data_folder)
    return {
        "model": spec.to_dict(),
        "mel": cache.mel.to_dict(),
        "symbols": cache.symbols.to_list(),
        "front_end": build_front_end(config.text_symbols, config.lexicon).to_dict(),
        "languages": list(cache.languages),
        "speakers": list(cache.speakers),
        "reference_frames": config.reference_frames if spec.has_speakers else 0,
        "trim_silence_db": config.trim_silence_db,
        "loudness_db": config.loudness_db,
        # Sentences as long as those of training, and no longer than is pleasant; symbols are a little more than characters.
        "max_characters": max(10, min(180, config.max_text_length - 20)),
        "licence": licence,
        "attribution": attribution,
        "content_id": cache.content_id,
        "training_split": asdict(_split_of(cache)),
    }


def _split_of(cache: Cache) -> TrainingSplit:
    training, held_out = np.flatnonzero(~cache.is_validation).tolist(), np.flatnonzero(cache.is_validation).tolist()
    return TrainingSplit.of(
        cache.content_id,
        (cache.texts[clip] for clip in training),
        ((cache.ids[clip], cache.texts[clip]) for clip in held_out),
    )


def add_earlier_training(facts: dict[str, Any], saved: Checkpoint | None, init_from: str | None) -> dict[str, Any]:
    """`facts` that also record the training texts of the checkpoint that is resumed, or of the voice that a run starts from."""
    if saved is None and init_from is None:
        return facts
    split = TrainingSplit(**facts["training_split"]).after(_split_before(saved, init_from))
    return facts | {"training_split": asdict(split)}


def _split_before(saved: Checkpoint | None, init_from: str | None) -> TrainingSplit | None:
    if saved is None:
        path = locate_origin(init_from)
        if (path / DESCRIPTION_NAME).is_file():
            return read_description(path).training_split
        saved = load_checkpoint(path)
    recorded = saved.corpus.get("training_split")  # checkpoints of 0.1.0 have none
    return None if recorded is None else TrainingSplit(**recorded)


def export_voice(checkpoint: Checkpoint, folder: Path, licence: str = "", attribution: str = "") -> Path:
    """Write the voice of a checkpoint: its averaged weights where there are any. The corpus's own terms hold unless given."""
    facts = {name: value for name, value in checkpoint.corpus.items() if name != "content_id"}
    facts |= {name: text for name, text in (("licence", licence), ("attribution", attribution)) if text}
    licence_text = facts["licence"]
    facts["licence"] = licence_name(licence_text, facts["attribution"])
    scale = float(np.clip(checkpoint.progress["duration_scale"], 0.5, 2.0))
    if "training_split" in facts:  # checkpoints of 0.1.0 have none
        facts["training_split"] = TrainingSplit(**facts["training_split"])
    description = VoiceDescription(
        **facts, defaults=Defaults(duration_scale=scale), about={"training steps": checkpoint.step}
    )
    kind = "average" if "average" in checkpoint.arrays else "weights"
    return save_voice(
        folder,
        description,
        checkpoint.named_weights(kind),
        checkpoint.arrays.get("speaker_vectors"),
        licence_text=licence_text if licence_text.strip() != facts["licence"] else "",
    )


def licence_name(licence: str, attribution: str) -> str:
    """What a licence file is called: one line as it is; of several the names that it declares, else the first line.

    A Debian copyright file declares every licence of a whole package (`License: NAME`): of those, the ones that the attribution
    names, because it was written for these recordings.
    """
    lines = [line.strip() for line in licence.splitlines() if line.strip()]
    if len(lines) <= 1:
        return "".join(lines)[:LONGEST_LICENCE_NAME]
    declared = dict.fromkeys(_DECLARED_LICENCE.findall(licence))
    own = [name for name in declared if re.search(rf"(?<![\w.+-]){re.escape(name)}(?![\w+-])", attribution)]
    return (", ".join(own or declared) or lines[0])[:LONGEST_LICENCE_NAME]


def speaker_vectors(model: XTTS, cache: Cache, clips: np.ndarray, reference_frames: int) -> np.ndarray:
    """One vector (speakers, speaker_channels) for every speaker: the mean over references from the given clips."""
    vectors = np.zeros((len(cache.speakers), model.spec.speaker_channels), np.float32)
    for number in range(len(cache.speakers)):
        of_speaker = clips[cache.speaker_numbers[clips] == number]
        # The longest clips repeat the least.
        chosen = of_speaker[np.argsort(-cache.frame_counts[of_speaker], kind="stable")[:REFERENCES_PER_SPEAKER]]
        if not len(chosen):
            continue
        references = np.stack([_reference(cache.clip_frames(int(clip)), reference_frames) for clip in chosen])
        vectors[number] = model.speaker_vectors(tf.constant(references)).numpy().mean(axis=0)
    return vectors


def _reference(frames: np.ndarray, reference_frames: int) -> np.ndarray:
    """The middle of a clip; a short one is repeated."""
    repeated = np.tile(frames, (-(-reference_frames // len(frames)), 1))
    start = (len(repeated) - reference_frames) // 2
    return repeated[start : start + reference_frames]
