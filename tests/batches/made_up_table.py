"""A prepared table made by code: random lengths, speakers, frames and tokens in two files."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from myxtts.audio.mel import MelSpec
from myxtts.cache.clip_table import PreparedTable
from myxtts.text.tokenizer import SymbolTable


@dataclass(frozen=True, eq=False, kw_only=True)
class MadeUpTable(PreparedTable):
    frames: np.ndarray
    tokens: np.ndarray
    frames_path: Path
    tokens_path: Path
    num_rows: int
    num_tokens: int

    def clip_frames(self, clip: int) -> np.ndarray:
        start = int(self.frame_starts[clip])
        return self.frames[start : start + int(self.frame_counts[clip])]

    def pitches_of_frames(self) -> np.ndarray:
        return self.frames[:, 0]  # as good as any other number per frame

    def clip_tokens(self, clip: int) -> np.ndarray:
        start = int(self.token_starts[clip])
        return self.tokens[start : start + int(self.token_counts[clip])]


def speech_lengths(clips: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Frames and tokens distributed as in recorded prompts: many short, a few long, about 5 frames per token."""
    generator = np.random.default_rng(seed)
    frames = np.clip(generator.lognormal(4.5, 0.75, clips), 30, 780).astype(np.int32)
    tokens = np.clip(frames / generator.uniform(4, 8, clips), 2, 200).astype(np.int32)
    return frames, tokens


def make_table(
    folder: Path, clips: int = 40, speakers: int = 1, n_mels: int = 20, seed: int = 0, longest: int = 60
) -> MadeUpTable:
    generator = np.random.default_rng(seed)
    frame_counts = generator.integers(3, longest, clips, dtype=np.int32)
    token_counts = generator.integers(1, 12, clips, dtype=np.int32)
    frames = generator.standard_normal((1 + frame_counts.sum(), n_mels)).astype(np.float32)
    tokens = generator.integers(2, 40, 1 + token_counts.sum(), dtype=np.int32)
    frames[0], tokens[0] = 0, 0
    frames.tofile(folder / "frames.f32")
    tokens.tofile(folder / "tokens.i32")
    return MadeUpTable(
        folder=folder,
        ids=tuple(f"clip{index}" for index in range(clips)),
        texts=tuple(f"text {index}" for index in range(clips)),
        symbols=SymbolTable(),
        front_end_kind="graphemes",
        languages=("en", "fa"),
        frames=frames,
        tokens=tokens,
        frame_starts=1 + np.cumsum(frame_counts, dtype=np.int64) - frame_counts,
        frame_counts=frame_counts,
        token_starts=1 + np.cumsum(token_counts, dtype=np.int64) - token_counts,
        token_counts=token_counts,
        speaker_numbers=(np.arange(clips) % speakers).astype(np.int32),
        language_numbers=(np.arange(clips) % 2).astype(np.int32),
        is_validation=np.arange(clips) % 8 == 0,
        frames_path=folder / "frames.f32",
        tokens_path=folder / "tokens.i32",
        num_rows=len(frames),
        num_tokens=len(tokens),
        mel=MelSpec(16000, n_mels=n_mels),
        speakers=tuple(f"speaker{index}" for index in range(speakers)),
    )


def graph_of(dataset):
    """All nodes of the dataset's graph, including those of its functions."""
    import tensorflow as tf

    serialized = tf.raw_ops.DatasetToGraphV2(
        input_dataset=tf.data.experimental.to_variant(dataset), external_state_policy=1, strip_device_assignment=True
    )
    graph = tf.compat.v1.GraphDef.FromString(serialized.numpy())
    return list(graph.node) + [node for function in graph.library.function for node in function.node_def]


def operations_of(dataset) -> set[str]:
    """The types of all nodes of the dataset's graph."""
    return {node.op for node in graph_of(dataset)}


def first_fields(table, plan, config, count: int) -> list[list[np.ndarray]]:
    """The fields of the first batches of a feed."""
    from myxtts.batches.feed import open_feed

    with open_feed(table, plan, config) as feed:
        return [[field.numpy() for field in batch] for batch in itertools.islice(feed, count)]
