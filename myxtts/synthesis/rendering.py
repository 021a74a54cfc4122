"""From pieces of text to mels and samples, in batches of static shape. No files, no sentences: symbols in, sound out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from myxtts.synthesis.engine import Engine
from myxtts.synthesis.shapes import (
    FRAME_SHAPES,
    TOKEN_SHAPES,
    batches_of,
    cut_frames,
    frames_of_symbols,
    noise_of,
    round_up,
)


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


class Rendered(NamedTuple):
    """A spoken piece: usually one part; more where it lasts longer than the largest shape."""

    mels: list[np.ndarray]
    """Log-mels (frames, n_mels)."""
    parts: list[np.ndarray]
    """Samples of each."""


class _Run(NamedTuple):
    """What is decoded in one go: a piece after the encoder, or a run of its frames."""

    piece: int
    features: np.ndarray
    durations: np.ndarray
    """0 outside the run."""
    noise: np.ndarray
    """(frames, n_mels)."""

    @property
    def frames(self) -> int:
        return len(self.noise)


class Renderer:
    """Pads, calls the engine and cuts the padding off again. `rows` pieces are spoken at once."""

    def __init__(
        self,
        engine: Engine,
        rows: int = 1,
        token_shapes: Sequence[int] = TOKEN_SHAPES,
        frame_shapes: Sequence[int] = FRAME_SHAPES,
        boundaries: Collection[int] = (),
    ):
        """`boundaries`: ids after which a piece of too many frames is best cut."""
        self.engine = engine
        self.rows = rows
        self.token_shapes = token_shapes
        self.frame_shapes = frame_shapes
        self.boundaries = np.array(sorted(boundaries), np.int32)

    def render(self, pieces: Sequence[Piece], sampling: Sampling) -> list[Rendered]:
        """The sound of each piece, made at the smallest shapes that hold it and never at a larger one than there is."""
        runs_of: dict[int, list[_Run]] = {}
        for group in batches_of([len(piece.ids) for piece in pieces], self.rows):
            runs_of |= zip(group, self._encode(pieces, group, sampling), strict=True)
        runs = [run for index in range(len(pieces)) for run in runs_of[index]]
        spoken: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        for group in batches_of([run.frames for run in runs], self.rows):
            spoken |= zip(group, self._speak([runs[index] for index in group], sampling), strict=True)
        rendered = [Rendered([], []) for _ in pieces]
        for index, run in enumerate(runs):
            mel, samples = spoken[index]
            rendered[run.piece].mels.append(mel)
            rendered[run.piece].parts.append(samples)
        return rendered

    def _encode(self, pieces: Sequence[Piece], group: list[int], sampling: Sampling) -> list[list[_Run]]:
        members = [
            pieces[index] for index in group + group[:1] * (self.rows - len(group))
        ]  # empty rows repeat the first
        lengths = np.array([len(piece.ids) for piece in members], np.int32)
        tokens = np.zeros((self.rows, round_up(int(lengths.max()), self.token_shapes)), np.int32)
        for row, piece in enumerate(members):
            tokens[row, : lengths[row]] = piece.ids
        features, log_durations = self.engine.encode(tokens, lengths, *self._condition(sampling))
        scale, rate = sampling.duration_scale, self.engine.mel.frames_per_second
        return [
            self._runs(
                index,
                pieces[index],
                features[row],
                frames_of_symbols(log_durations[row], 2 * int(lengths[row]) + 1, scale, rate),
            )
            for row, index in enumerate(group)
        ]

    def _runs(self, index: int, piece: Piece, features: np.ndarray, durations: np.ndarray) -> list[_Run]:
        is_boundary = np.zeros(len(durations), bool)
        is_boundary[1 : 2 * len(piece.ids) : 2] = np.isin(piece.ids, self.boundaries)  # symbols stand between blanks
        parts = cut_frames(durations, is_boundary, self.frame_shapes[-1])
        noise = noise_of(piece.seed, piece.number, int(durations.sum()), self.engine.mel.n_mels)
        starts = np.cumsum([part.sum() for part in parts])[:-1]
        return [_Run(index, features, part, own) for part, own in zip(parts, np.split(noise, starts), strict=True)]

    def _speak(self, runs: list[_Run], sampling: Sampling) -> list[tuple[np.ndarray, np.ndarray]]:
        mel = self.engine.mel
        symbols, channels = max(len(run.durations) for run in runs), runs[0].features.shape[1]
        frames = round_up(max(run.frames for run in runs), self.frame_shapes)
        features = np.zeros((self.rows, symbols, channels), np.float32)
        durations = np.zeros((self.rows, symbols), np.int32)
        noise = np.zeros((self.rows, frames, mel.n_mels), np.float32)
        for row, run in enumerate(runs + runs[:1] * (self.rows - len(runs))):
            features[row, : len(run.durations)], durations[row, : len(run.durations)] = run.features, run.durations
            noise[row, : run.frames] = run.noise
        vectors, languages = self._condition(sampling)
        mels, samples = self.engine.speak(
            features, durations, noise, vectors, languages, sampling.steps, sampling.temperature
        )
        return [
            (mels[row, : run.frames], samples[row, : max(1, run.frames - 1) * mel.hop_length])
            for row, run in enumerate(runs)
        ]

    def _condition(self, sampling: Sampling) -> tuple[np.ndarray, np.ndarray]:
        return np.tile(sampling.vector, (self.rows, 1)), np.full(self.rows, sampling.language, np.int32)
