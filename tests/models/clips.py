"""Clips made by code, laid out alone, padded, or packed next to others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.batch import NO_CLIP, Batch
from myxtts.models.flow_matching import Alignment, ClipLosses, clip_losses
from myxtts.models.layout import ClipRandomness
from myxtts.models.spec import ModelSpec
from myxtts.models.xtts import XTTS

N_MELS = 20
NUM_SYMBOLS = 30
GAP_FRAMES = 4
GAP_TOKENS = 1


@dataclass(frozen=True)
class Clip:
    index: int
    tokens: np.ndarray
    mel: np.ndarray
    speaker: int
    language: int
    reference: np.ndarray
    pitch: np.ndarray


def make_clips(count: int, seed: int = 0) -> list[Clip]:
    """Clips whose mels follow their symbols, so that there is something to align."""
    random = np.random.default_rng(seed)
    sounds = random.normal(size=(NUM_SYMBOLS, N_MELS))
    clips = []
    for index in range(count):
        tokens = random.integers(2, NUM_SYMBOLS, random.integers(3, 9)).astype(np.int32)
        durations = random.integers(4, 9, len(tokens))
        mel = np.repeat(sounds[tokens], durations, axis=0) + 0.1 * random.normal(size=(durations.sum(), N_MELS))
        reference = random.normal(size=(16, N_MELS)).astype(np.float32)
        pitch = np.where(np.arange(len(mel)) % 7 < 5, 120.0 + 2 * np.arange(len(mel)), 0.0).astype(np.float32)
        clips.append(Clip(index, tokens, mel.astype(np.float32), index % 2, index % 2, reference, pitch))
    return clips


def lay_out(
    rows: list[list[Clip]], tokens: int, frames: int, slots: int, has_references: bool = True, has_pitch: bool = False
) -> Batch:
    """A batch with the given clips in each row, with gaps between them."""
    shape = (len(rows), slots)
    values = {
        "tokens": np.zeros((len(rows), tokens), np.int32),
        "mel": np.zeros((len(rows), frames, N_MELS), np.float32),
        "text_lengths": np.zeros(shape, np.int32),
        "mel_lengths": np.zeros(shape, np.int32),
        "token_starts": np.zeros(shape, np.int32),
        "frame_starts": np.zeros(shape, np.int32),
        "clips": np.full(shape, NO_CLIP, np.int32),
        "speakers": np.zeros(shape, np.int32),
        "languages": np.zeros(shape, np.int32),
        "bands": np.full(shape, N_MELS, np.int32),
        "noise": np.zeros(shape, np.float32),
        "references": np.zeros((*shape, 16 if has_references else 0, N_MELS), np.float32),
        "pitch": np.zeros((len(rows), frames if has_pitch else 0), np.float32),
    }
    for row, clips in enumerate(rows):
        token, frame = 0, 0
        for slot, clip in enumerate(clips):
            values["tokens"][row, token : token + len(clip.tokens)] = clip.tokens
            values["mel"][row, frame : frame + len(clip.mel)] = clip.mel
            values["text_lengths"][row, slot] = len(clip.tokens)
            values["mel_lengths"][row, slot] = len(clip.mel)
            values["token_starts"][row, slot], values["frame_starts"][row, slot] = token, frame
            values["clips"][row, slot] = clip.index
            values["speakers"][row, slot], values["languages"][row, slot] = clip.speaker, clip.language
            if has_references:
                values["references"][row, slot] = clip.reference
            if has_pitch:
                values["pitch"][row, frame : frame + len(clip.mel)] = clip.pitch
            token += len(clip.tokens) + GAP_TOKENS
            frame += len(clip.mel) + GAP_FRAMES
    return Batch(**{name: tf.constant(value) for name, value in values.items()})


def tiny_spec(
    num_speakers: int = 2, dropout: float = 0.0, dilations: tuple[int, ...] = (1, 2, 4), **changes: Any
) -> ModelSpec:
    return ModelSpec(
        num_symbols=NUM_SYMBOLS,
        num_languages=2,
        num_speakers=num_speakers,
        n_mels=N_MELS,
        text_channels=16,
        text_layers=2,
        text_heads=2,
        decoder_channels=16,
        decoder_layers=4,
        speaker_channels=8,
        dropout=dropout,
        decoder_dropout=dropout,
        condition_dropout=dropout,
        decoder_dilations=dilations,
        **changes,
    )


def tiny_model(
    num_speakers: int = 2,
    dropout: float = 0.0,
    dtype: str = "float32",
    dilations: tuple[int, ...] = (1, 2, 4),
    **changes: Any,
) -> XTTS:
    """A small network whose weights are all random: the zeros that training starts with would hide differences."""
    model = XTTS(tiny_spec(num_speakers, dropout, dilations, **changes), dtype=dtype)
    model.build()
    random = np.random.default_rng(3)
    for variable in model.trainable_variables:
        scale = 0.3 if len(variable.shape) > 1 else 0.1
        noise = scale * random.normal(size=variable.shape)
        variable.assign(noise + (1.0 if variable.path.endswith("scale") else 0.0))
    return model


def batch_of(clips: list[Clip], bands: list[int]) -> Batch:
    """One row of clips whose recordings contain so many bands."""
    batch = lay_out([clips], 50, 260, len(clips))
    return batch._replace(bands=tf.constant([bands], tf.int32))


def losses_of(model: XTTS, batch: Batch, drops: bool = True) -> tuple[ClipLosses, Alignment]:
    return clip_losses(model, batch, ClipRandomness(1, 5, batch.clips, drops=drops))
