"""The batch that the loader produces and the model consumes, and its static shape.

A row holds one clip (plans `fixed`, `buckets`, `dynamic`) or several (`packed`), each in its own slot. The start and length of
each clip are all that is stored; segments, positions and masks are derived from them in the graph
(`myxtts.models.layout.RowLayout`). Between two clips of a row, and after the last one, tokens are 0 and mel frames are 0.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

BLANK_TOKEN = 1
"""Token that the model inserts between two symbols; a tokenizer never emits it."""
NO_CLIP = -1
"""Clip index of an empty slot."""


class Batch(NamedTuple):
    """One batch of static shape; the sizes are those of its `BatchShape`."""

    tokens: Any
    """int32 (rows, tokens): symbols from the tokenizer, without blanks; 0 is padding."""
    mel: Any
    """float32 (rows, frames, n_mels): log-mel frames; 0 is padding."""
    text_lengths: Any
    """int32 (rows, slots): number of symbols of each clip, 0 for an empty slot."""
    mel_lengths: Any
    """int32 (rows, slots): number of frames of each clip, 0 for an empty slot."""
    token_starts: Any
    """int32 (rows, slots): index in the row of each clip's first symbol."""
    frame_starts: Any
    """int32 (rows, slots): index in the row of each clip's first frame."""
    clips: Any
    """int32 (rows, slots): index of each clip in the cache; -1 for an empty slot."""
    speakers: Any
    """int32 (rows, slots): index of each clip's speaker."""
    languages: Any
    """int32 (rows, slots): index of each clip's language."""
    bands: Any
    """int32 (rows, slots): mel bands that each clip's recording really contains, from the lowest; 0 for an empty slot."""
    noise: Any
    """float32 (rows, slots): 0 for a clean recording, 1 for a noisy one."""
    references: Any
    """float32 (rows, slots, reference_frames, n_mels): part of *another* clip of the same speaker, repeated if too short."""
    pitch: Any
    """float32 (rows, frames): Hz, 0 where a frame is unvoiced and outside clips; (rows, 0) for a network without pitch."""


@dataclass(frozen=True, order=True)
class BatchShape:
    """The static sizes of a batch; hashable, so that each shape has one compiled step."""

    rows: int
    tokens: int
    frames: int
    slots: int = 1
    n_mels: int = 80
    reference_frames: int = 0
    """0 for a corpus with one speaker: the model is not conditioned on a reference, and none is loaded."""
    has_pitch: bool = False
    """Whether the pitch of every frame is loaded."""

    def signature(self) -> Batch:
        """A batch of `tf.TensorSpec`s, for an input signature."""
        import tensorflow as tf

        slot = tf.TensorSpec((self.rows, self.slots), tf.int32)
        return Batch(
            tokens=tf.TensorSpec((self.rows, self.tokens), tf.int32),
            mel=tf.TensorSpec((self.rows, self.frames, self.n_mels), tf.float32),
            text_lengths=slot,
            mel_lengths=slot,
            token_starts=slot,
            frame_starts=slot,
            clips=slot,
            speakers=slot,
            languages=slot,
            bands=slot,
            noise=tf.TensorSpec((self.rows, self.slots), tf.float32),
            references=tf.TensorSpec((self.rows, self.slots, self.reference_frames, self.n_mels), tf.float32),
            pitch=tf.TensorSpec((self.rows, self.frames if self.has_pitch else 0), tf.float32),
        )

    def empty(self) -> Batch:
        """A batch of this shape without clips: it changes no weights and warms up everything compiled for the shape."""
        import tensorflow as tf

        zeros = Batch(*(tf.zeros(spec.shape, spec.dtype) for spec in self.signature()))
        return zeros._replace(clips=tf.fill((self.rows, self.slots), NO_CLIP))

    def __str__(self) -> str:
        return f"{self.rows} rows x {self.tokens} tokens x {self.frames} frames"


def shape_of(batch: Batch) -> BatchShape:
    """The static shape of a concrete batch of tensors."""
    rows, frames, n_mels = batch.mel.shape
    return BatchShape(
        rows,
        batch.tokens.shape[1],
        frames,
        batch.clips.shape[1],
        n_mels,
        batch.references.shape[2],
        has_pitch=batch.pitch.shape[1] != 0,
    )
