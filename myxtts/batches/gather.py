"""From rows of clip numbers to runs of table rows: pure NumPy, vectorised over many batches.

In: the columns of a cache and rows of clip numbers (batches, rows, slots). Out: `BatchRuns`, a few integers for each clip. A row
of a batch is a sequence of runs: a clip's rows in the table of frames, the gap after it, the next clip. A run is written as the
range [start, limit); a gap of n places is [-n, 0), which the loader raises to 0, the table's padding row.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from myxtts.batch import NO_CLIP, BatchShape
from myxtts.batches.order import mixed

# MERGED: Reference clips for speaker conditioning: another clip of the same speaker, chosen by arithmetic.
#
# In: the speakers and lengths of the clips, clip and pass numbers. Out: which piece of which clip tells the speaker: a pure
# function of (seed, pass, clip), so that a resumed run hears the same references.


class ReferenceChooser:
    """Chooses, for each clip, another clip of the same speaker; the clip itself where the speaker has no other."""

    def __init__(
        self,
        speaker_numbers: np.ndarray,
        frame_starts: np.ndarray,
        frame_counts: np.ndarray,
        candidates: np.ndarray,
        seed: int,
    ):
        """`candidates` are the clip numbers that may be references; the arrays are those of the whole cache."""
        self._speakers, self._frame_starts, self._frame_counts = speaker_numbers, frame_starts, frame_counts
        self._seed = seed
        candidates = np.asarray(candidates, np.int64)
        candidate_speakers = speaker_numbers[candidates]
        self._ordered = candidates[np.argsort(candidate_speakers, kind="stable")]
        self._counts = np.bincount(candidate_speakers, minlength=int(speaker_numbers.max(initial=0)) + 1)
        self._starts = np.cumsum(self._counts) - self._counts
        self._places = np.full(
            len(speaker_numbers), -1, np.int64
        )  # place among the speaker's candidates, -1 if not one
        self._places[self._ordered] = np.arange(len(candidates)) - np.repeat(self._starts, self._counts)

    def choose(self, clips: np.ndarray, passes: np.ndarray) -> np.ndarray:
        """The reference clip of each clip (any shape; every slot filled)."""
        speakers = self._speakers[clips]
        counts, places = self._counts[speakers], self._places[clips]
        others = np.where(places >= 0, counts - 1, counts)
        drawn = (mixed(self._seed, passes, clips, 3) % np.maximum(others, 1).astype(np.uint64)).astype(np.int64)
        # Counting on from the clip's own place never comes back to it.
        place = np.where(places >= 0, (places + 1 + drawn) % np.maximum(counts, 1), drawn)
        return np.where(others > 0, self._ordered[np.where(others > 0, self._starts[speakers] + place, 0)], clips)

    def pieces(self, clips: np.ndarray, passes: np.ndarray, reference_frames: int) -> tuple[np.ndarray, np.ndarray]:
        """First row in the table of frames of each clip's reference, and after how many rows it is repeated."""
        references = self.choose(clips, passes)
        counts = self._frame_counts[references].astype(np.int64)
        choices = np.maximum(counts - reference_frames, 0) + 1
        offsets = (mixed(self._seed, passes, clips, 4) % choices.astype(np.uint64)).astype(np.int64)
        return self._frame_starts[references] + offsets, np.minimum(counts, reference_frames)


if TYPE_CHECKING:
    from myxtts.audio.mel import MelSpec


class ClipTable(Protocol):
    """What the loader reads of an opened cache (`myxtts.cache.format.Cache`)."""

    @property
    def frame_starts(self) -> np.ndarray: ...
    @property
    def frame_counts(self) -> np.ndarray: ...
    @property
    def token_starts(self) -> np.ndarray: ...
    @property
    def token_counts(self) -> np.ndarray: ...
    @property
    def speaker_numbers(self) -> np.ndarray: ...
    @property
    def language_numbers(self) -> np.ndarray: ...
    @property
    def is_validation(self) -> np.ndarray: ...
    @property
    def frames_path(self) -> Path: ...
    @property
    def tokens_path(self) -> Path: ...
    @property
    def num_rows(self) -> int: ...
    @property
    def num_tokens(self) -> int: ...
    @property
    def mel(self) -> MelSpec: ...
    @property
    def speakers(self) -> tuple[str, ...]: ...


class BatchRuns(NamedTuple):
    """Everything of some batches of one shape but the frames and tokens themselves. The first axis is the batch."""

    frame_runs: np.ndarray
    """(batches, 2, rows x slots x 2): starts and limits of the runs in the table of frames."""
    token_runs: np.ndarray
    """(batches, 2, rows x slots x 2): the same in the table of tokens."""
    reference_runs: np.ndarray
    """(batches, 2, rows, slots): first row in the table of frames of each reference, and its length before it is repeated."""
    text_lengths: np.ndarray
    """This and all below: int32 (batches, rows, slots), as in `myxtts.batch.Batch`."""
    mel_lengths: np.ndarray
    token_starts: np.ndarray
    frame_starts: np.ndarray
    clips: np.ndarray
    speakers: np.ndarray
    languages: np.ndarray


def batch_runs(
    table: ClipTable,
    shape: BatchShape,
    rows: np.ndarray,
    passes: np.ndarray,
    *,
    gap_frames: int,
    gap_tokens: int,
    references: ReferenceChooser | None = None,
    is_static: bool = True,
    part: slice = slice(None),
) -> BatchRuns:
    """The runs of batches of one shape. `rows`: (batches, rows, slots) clip numbers; `passes`: (batches, rows).

    Without `is_static` (one clip a row), each batch is only as wide as its longest clip. `part`: the rows of one replica.
    """
    num_frames, num_tokens = shape.frames, shape.tokens
    if not is_static:
        num_frames, num_tokens = _longest(table.frame_counts, rows), _longest(table.token_counts, rows)
    rows, passes = rows[:, part], passes[:, part]
    is_clip = rows != NO_CLIP
    known = np.where(is_clip, rows, 0)
    mel_lengths, frame_starts = _layout(table.frame_counts[known], is_clip, gap_frames)
    text_lengths, token_starts = _layout(table.token_counts[known], is_clip, gap_tokens)
    reference_starts = np.zeros(rows.shape, np.int64)
    reference_lengths = np.ones(rows.shape, np.int64)
    if shape.reference_frames and references is not None:
        passes_of_clips = np.broadcast_to(passes[:, :, None], rows.shape)[is_clip]
        reference_starts[is_clip], reference_lengths[is_clip] = references.pieces(
            rows[is_clip], passes_of_clips, shape.reference_frames
        )
    return BatchRuns(
        frame_runs=_runs(num_frames, is_clip, frame_starts, mel_lengths, table.frame_starts[known]),
        token_runs=_runs(num_tokens, is_clip, token_starts, text_lengths, table.token_starts[known]),
        reference_runs=_narrowed(np.stack([reference_starts, reference_lengths], axis=1)),
        text_lengths=text_lengths,
        mel_lengths=mel_lengths,
        token_starts=token_starts,
        frame_starts=frame_starts,
        clips=rows.astype(np.int32),
        speakers=np.where(is_clip, table.speaker_numbers[known], 0).astype(np.int32),
        languages=np.where(is_clip, table.language_numbers[known], 0).astype(np.int32),
    )


def _longest(counts: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The longest clip of each batch: (batches, 1, 1)."""
    return np.where(rows != NO_CLIP, counts[np.maximum(rows, 0)], 0).max(axis=(1, 2), keepdims=True)


def _layout(counts: np.ndarray, is_clip: np.ndarray, gap: int) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of the slots and where each begins in its row: clip after clip with a gap between; empty slots are 0, 0."""
    lengths = np.where(is_clip, counts, 0).astype(np.int32)
    steps = np.where(is_clip, lengths + gap, 0)
    starts = np.where(is_clip, np.cumsum(steps, axis=-1) - steps, 0).astype(np.int32)
    return lengths, starts


def _runs(
    width: int | np.ndarray, is_clip: np.ndarray, starts: np.ndarray, lengths: np.ndarray, table_starts: np.ndarray
) -> np.ndarray:
    """(batches, 2, runs): two runs for each slot, which together cover exactly `width` places of each row."""
    batches = len(is_clip)
    widths = np.broadcast_to(width, is_clip.shape)
    ends = np.where(is_clip, starts + lengths, widths)
    ends[..., 0] = np.where(is_clip[..., 0], ends[..., 0], 0)
    next_starts = np.concatenate([np.where(is_clip, starts, widths)[..., 1:], widths[..., :1]], axis=-1)
    clip_starts = np.where(is_clip, table_starts, 0)
    run_starts = np.stack([clip_starts, ends - next_starts], axis=-1)
    run_limits = np.stack([clip_starts + lengths, np.zeros_like(clip_starts)], axis=-1)
    return _narrowed(np.stack([run_starts.reshape(batches, -1), run_limits.reshape(batches, -1)], axis=1))


def _narrowed(indexes: np.ndarray) -> np.ndarray:
    """As int32 where that is enough: up to 9,500 hours of frames of 16 ms."""
    return indexes.astype(np.int32) if indexes.max(initial=0) <= np.iinfo(np.int32).max else indexes
