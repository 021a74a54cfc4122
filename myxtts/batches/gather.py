"""From rows of clip indices to ranges of table rows: pure NumPy, vectorized over many batches.

A row of a batch is a sequence of runs: a clip's rows in the table of frames, the gap after it, the next clip. A run is the range
[start, limit); a gap of n positions is [-n, 0), whose negative indices the loader replaces by 0, the table's padding row.

A reference, which conditions the model on the speaker, is a piece of another clip of the same speaker. It is a pure function of
(seed, epoch, clip), so that a resumed run gets the same references.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from myxtts.audio.mel import bands_below
from myxtts.batch import NO_CLIP, BatchShape
from myxtts.batches.order import random_bits
from myxtts.cache.clip_table import ClipTable

COVERED_FRACTION = 0.05
"""Fraction of the training frames that must contain a band before it is masked elsewhere. Chosen; not measured."""
SPEAKER_SNR_QUANTILE = 0.9
"""Quantile over the clips of a speaker, for `_snrs_of_speakers`. Chosen; not measured."""
CLEAN_SNR_DB, NOISY_RANGE_DB = 40.0, 25.0
"""A recording with this much above its pauses is clean; with so much less it is noisy. Chosen; not measured."""


class BatchRuns(NamedTuple):
    """Some batches of one shape without their frames and tokens. The first axis is the batch."""

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
    bands: np.ndarray
    noise: np.ndarray
    """float32, all others int32."""


class ClipQuality(NamedTuple):
    """The quality of the recordings of a table, one value per clip."""

    bands: np.ndarray
    """int32 (clips,): mel bands that the recording really contains, from the lowest."""
    noise: np.ndarray
    """float32 (clips,): 0 clean, 1 noisy."""


def clip_quality(table: ClipTable, bandwidth_aware: bool | Literal["always"]) -> ClipQuality:
    """The quality of every clip; recordings that were not measured count as whole and clean.

    Bands that fewer than `COVERED_FRACTION` of the training frames contain are not masked in any clip that reaches the others:
    there is nothing to learn them from, so the voice learns that they are empty. With `always` they are masked: the voice has
    learned them.
    """
    n_mels, is_measured = table.mel.n_mels, np.asarray(table.bandwidths) > 0
    snrs = _snrs_of_speakers(table.snrs, table.speaker_numbers, is_measured)
    noise = np.where(is_measured, np.clip((CLEAN_SNR_DB - snrs) / NOISY_RANGE_DB, 0.0, 1.0), 0.0).astype(np.float32)
    bands = np.full(len(is_measured), n_mels, np.int32)
    if bandwidth_aware and is_measured.any():
        bands = np.where(is_measured, bands_below(table.bandwidths, table.mel), n_mels).astype(np.int32)
    if bandwidth_aware is True and is_measured.any():
        frames = np.where(table.is_validation, 0, table.frame_counts).astype(np.float64)
        covered = 1 - np.cumsum(np.bincount(bands, frames, minlength=n_mels + 1)[:n_mels]) / max(frames.sum(), 1.0)
        top = int((covered >= COVERED_FRACTION).sum())
        bands = np.where(bands >= top, n_mels, bands).astype(np.int32)
    return ClipQuality(bands, noise)


def _snrs_of_speakers(snrs: np.ndarray, speakers: np.ndarray, is_measured: np.ndarray) -> np.ndarray:
    """For each clip, the SNR (dB) that a tenth of its speaker's clips exceed.

    A short prompt has no pauses to compare its speech with, so the SNR of one clip says little: of studio prompts it was 15 to
    37 dB. The room and the microphone are those of the speaker.
    """
    result = np.zeros(len(snrs), np.float32)
    for speaker in np.unique(speakers[is_measured]):
        clips = is_measured & (speakers == speaker)
        result[clips] = np.quantile(snrs[clips], SPEAKER_SNR_QUANTILE)
    return result


def batch_runs(
    table: ClipTable,
    shape: BatchShape,
    rows: np.ndarray,
    epochs: np.ndarray,
    *,
    gap_frames: int,
    gap_tokens: int,
    references: ReferenceChooser | None = None,
    quality: ClipQuality | None = None,
    is_static: bool = True,
    part: slice = slice(None),
) -> BatchRuns:
    """The runs of batches of one shape.

    Args:
        table: the clips.
        shape: of the whole batches.
        rows: (batches, rows, slots), clip indices.
        epochs: (batches, rows), epoch of each row.
        gap_frames: frames between two clips of a row.
        gap_tokens: tokens between two clips of a row.
        references: chooses the references, if the shape has them.
        quality: of all clips of the table; None: every recording is whole and clean.
        is_static: False (one clip per row): each batch is only as wide as its longest clip.
        part: the rows of one replica.
    """
    num_frames, num_tokens = shape.frames, shape.tokens
    if not is_static:
        num_frames, num_tokens = _longest(table.frame_counts, rows), _longest(table.token_counts, rows)
    rows, epochs = rows[:, part], epochs[:, part]
    is_clip = rows != NO_CLIP
    known = np.where(is_clip, rows, 0)
    mel_lengths, frame_starts = _layout(table.frame_counts[known], is_clip, gap_frames)
    text_lengths, token_starts = _layout(table.token_counts[known], is_clip, gap_tokens)
    reference_starts = np.zeros(rows.shape, np.int64)
    reference_lengths = np.ones(rows.shape, np.int64)
    if shape.reference_frames and references is not None:
        epochs_of_clips = np.broadcast_to(epochs[:, :, None], rows.shape)[is_clip]
        reference_starts[is_clip], reference_lengths[is_clip] = references.pieces(
            rows[is_clip], epochs_of_clips, shape.reference_frames
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
        bands=np.where(is_clip, shape.n_mels if quality is None else quality.bands[known], 0).astype(np.int32),
        noise=np.where(is_clip, 0.0 if quality is None else quality.noise[known], 0.0).astype(np.float32),
    )


def _longest(counts: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The longest clip of each batch: (batches, 1, 1)."""
    return np.where(rows != NO_CLIP, counts[np.maximum(rows, 0)], 0).max(axis=(1, 2), keepdims=True)


def _layout(counts: np.ndarray, is_clip: np.ndarray, gap: int) -> tuple[np.ndarray, np.ndarray]:
    """Length of each slot and its start in the row: clip after clip with a gap between; empty slots are 0, 0."""
    lengths = np.where(is_clip, counts, 0).astype(np.int32)
    steps = np.where(is_clip, lengths + gap, 0)
    starts = np.where(is_clip, np.cumsum(steps, axis=-1) - steps, 0).astype(np.int32)
    return lengths, starts


def _runs(
    width: int | np.ndarray, is_clip: np.ndarray, starts: np.ndarray, lengths: np.ndarray, table_starts: np.ndarray
) -> np.ndarray:
    """(batches, 2, runs): two runs for each slot, which together cover exactly `width` positions of each row."""
    batches = len(is_clip)
    widths = np.broadcast_to(width, is_clip.shape)
    ends = np.where(is_clip, starts + lengths, widths)
    ends[..., 0] = np.where(is_clip[..., 0], ends[..., 0], 0)
    next_starts = np.concatenate([np.where(is_clip, starts, widths)[..., 1:], widths[..., :1]], axis=-1)
    clip_starts = np.where(is_clip, table_starts, 0)
    run_starts = np.stack([clip_starts, ends - next_starts], axis=-1)
    run_limits = np.stack([clip_starts + lengths, np.zeros_like(clip_starts)], axis=-1)
    return _narrowed(np.stack([run_starts.reshape(batches, -1), run_limits.reshape(batches, -1)], axis=1))


def _narrowed(indices: np.ndarray) -> np.ndarray:
    """As int32 where that is enough: up to 9,500 hours of frames of 16 ms."""
    return indices.astype(np.int32) if indices.max(initial=0) <= np.iinfo(np.int32).max else indices


class ReferenceChooser:
    """Chooses, for each clip, another clip of the same speaker; the clip itself where the speaker has no other.

    Args:
        table: the clips.
        candidates: indices of the clips that may be references.
        seed: of the choice.
    """

    def __init__(self, table: ClipTable, candidates: np.ndarray, seed: int):
        self._speakers, self._seed = table.speaker_numbers, seed
        self._frame_starts, self._frame_counts = table.frame_starts, table.frame_counts
        candidates = np.asarray(candidates, np.int64)
        candidate_speakers = self._speakers[candidates]
        self._ordered = candidates[np.argsort(candidate_speakers, kind="stable")]
        self._counts = np.bincount(candidate_speakers, minlength=int(self._speakers.max(initial=0)) + 1)
        self._starts = np.cumsum(self._counts) - self._counts
        self._ranks = np.full(len(self._speakers), -1, np.int64)
        """Rank of each clip among the candidates of its speaker, -1 if it is not one."""
        self._ranks[self._ordered] = np.arange(len(candidates)) - np.repeat(self._starts, self._counts)

    def choose(self, clips: np.ndarray, epochs: np.ndarray) -> np.ndarray:
        """The reference clip of each clip (any shape; every slot filled)."""
        speakers = self._speakers[clips]
        counts, ranks = self._counts[speakers], self._ranks[clips]
        others = np.where(ranks >= 0, counts - 1, counts)
        drawn = (random_bits(self._seed, epochs, clips, 3) % np.maximum(others, 1).astype(np.uint64)).astype(np.int64)
        # Counting on from the clip's own rank, modulo the candidates, never reaches the clip itself.
        chosen = np.where(ranks >= 0, (ranks + 1 + drawn) % np.maximum(counts, 1), drawn)
        return np.where(others > 0, self._ordered[np.where(others > 0, self._starts[speakers] + chosen, 0)], clips)

    def pieces(self, clips: np.ndarray, epochs: np.ndarray, reference_frames: int) -> tuple[np.ndarray, np.ndarray]:
        """First row in the table of frames of each clip's reference, and the rows after which it is repeated."""
        references = self.choose(clips, epochs)
        counts = self._frame_counts[references].astype(np.int64)
        choices = np.maximum(counts - reference_frames, 0) + 1
        offsets = (random_bits(self._seed, epochs, clips, 4) % choices.astype(np.uint64)).astype(np.int64)
        return self._frame_starts[references] + offsets, np.minimum(counts, reference_frames)
