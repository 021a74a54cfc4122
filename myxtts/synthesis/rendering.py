"""From pieces of text to mels and samples, in batches of static shape. No files, no sentences: symbols in, sound out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from myxtts.synthesis.engine import Engine
from myxtts.synthesis.shapes import FRAME_SHAPES, TOKEN_SHAPES, batches_of, frames_of_symbols, noise_of, round_up


class Piece(NamedTuple):
    """What is spoken in one go."""

    text: str
    ids: list[int]
    unknown: Counter
    seed: int
    number: int
    """Place in its text: with the seed, it decides the noise."""
    pause_seconds: float
    owner: int
    """Which of several texts it belongs to."""


class Sampling(NamedTuple):
    """The numbers of the sampler that are the same for all pieces of a call."""

    vector: np.ndarray
    """Speaker vector (speaker_channels,)."""
    language: int
    duration_scale: float
    """Predicted durations are multiplied by it."""
    steps: int
    temperature: float


class _Text(NamedTuple):
    """A piece after the encoder."""

    features: np.ndarray
    durations: np.ndarray

    @property
    def frames(self) -> int:
        return int(self.durations.sum())


class Renderer:
    """Pads, calls the engine and cuts the padding off again. `rows` pieces are spoken at once."""

    def __init__(
        self,
        engine: Engine,
        rows: int = 1,
        token_shapes: Sequence[int] = TOKEN_SHAPES,
        frame_shapes: Sequence[int] = FRAME_SHAPES,
    ):
        self.engine = engine
        self.rows = rows
        self.token_shapes = token_shapes
        self.frame_shapes = frame_shapes

    def render(self, pieces: Sequence[Piece], sampling: Sampling) -> list[tuple[np.ndarray, np.ndarray]]:
        """Mel (frames, n_mels) and samples of each piece, at the smallest shapes that hold it."""
        texts: dict[int, _Text] = {}
        for group in batches_of([len(piece.ids) for piece in pieces], self.rows):
            texts |= zip(group, self._encode([pieces[index] for index in group], sampling), strict=True)
        rendered: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        for group in batches_of([texts[index].frames for index in range(len(pieces))], self.rows):
            spoken = self._speak([pieces[index] for index in group], [texts[index] for index in group], sampling)
            rendered |= zip(group, spoken, strict=True)
        return [rendered[index] for index in range(len(pieces))]

    def _encode(self, pieces: list[Piece], sampling: Sampling) -> list[_Text]:
        members = pieces + pieces[:1] * (self.rows - len(pieces))  # empty rows repeat the first one
        lengths = np.array([len(piece.ids) for piece in members], np.int32)
        tokens = np.zeros((self.rows, round_up(int(lengths.max()), self.token_shapes)), np.int32)
        for row, piece in enumerate(members):
            tokens[row, : lengths[row]] = piece.ids
        features, log_durations = self.engine.encode(tokens, lengths, *self._condition(sampling))
        scale, rate = sampling.duration_scale, self.engine.mel.frames_per_second
        return [
            _Text(features[row], frames_of_symbols(log_durations[row], 2 * int(lengths[row]) + 1, scale, rate))
            for row in range(len(pieces))
        ]

    def _speak(
        self, pieces: list[Piece], texts: list[_Text], sampling: Sampling
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        mel = self.engine.mel
        symbols, channels = max(len(text.durations) for text in texts), texts[0].features.shape[1]
        frames = round_up(max(text.frames for text in texts), self.frame_shapes)
        features = np.zeros((self.rows, symbols, channels), np.float32)
        durations = np.zeros((self.rows, symbols), np.int32)
        noise = np.zeros((self.rows, frames, mel.n_mels), np.float32)
        for row in range(self.rows):
            index = row if row < len(pieces) else 0
            piece, text = pieces[index], texts[index]
            features[row, : len(text.durations)], durations[row, : len(text.durations)] = text
            noise[row, : text.frames] = noise_of(piece.seed, piece.number, text.frames, mel.n_mels)
        vectors, languages = self._condition(sampling)
        mels, samples = self.engine.speak(
            features, durations, noise, vectors, languages, sampling.steps, sampling.temperature
        )
        return [
            (mels[row, : text.frames], samples[row, : max(1, text.frames - 1) * mel.hop_length])
            for row, text in enumerate(texts)
        ]

    def _condition(self, sampling: Sampling) -> tuple[np.ndarray, np.ndarray]:
        return np.tile(sampling.vector, (self.rows, 1)), np.full(self.rows, sampling.language, np.int32)
