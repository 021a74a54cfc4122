"""Plans: static shapes from the statistics of a corpus, and which clips share a row.

In: the clips' lengths and the sizes asked for. Out: a `Plan`; its order is described in `myxtts.data.stream`. No TensorFlow, no
files.

- `fixed`: one clip a row, every row of the promised size.
- `buckets`: one clip a row, a few lengths that waste the least, rows of a batch from a budget of frames.
- `packed`: several clips a row, one size.
- `dynamic`: one clip a row, padded to the longest of the batch; not static, for comparison.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from myxtts.batch import NO_CLIP, BatchShape
from myxtts.config.config import DataConfig
from myxtts.data.buckets import best_bucket_lengths
from myxtts.data.order import shuffled
from myxtts.data.packing import RowSize, pack_rows
from myxtts.data.stream import PassRows, Plan, Position, Segment
from myxtts.errors import PlanError

__all__ = [
    "AUTOMATIC_BATCH_SIZE",
    "PLAN_KINDS",
    "PassRows",
    "Plan",
    "Position",
    "Segment",
    "build_plan",
    "fitting_clips",
    "plan_kind",
    "plan_sizes",
    "with_clips",
]

PLAN_KINDS = ("fixed", "buckets", "packed", "dynamic")
AUTOMATIC_BATCH_SIZE = DataConfig().batch_size
"""`batch_size: auto` where it is not measured (`auto_tune_performance: false`, or several machines); the trainer says so."""
SAMPLE_CLIPS = 20_000
"""Clips from which the sizes of a packed row are derived."""
SPARE_ROWS = 0.005
"""How many more rows, as a share, may be needed because rows hold fewer tokens."""


def build_plan(
    kind: str,
    frame_counts: np.ndarray,
    token_counts: np.ndarray,
    *,
    clips: np.ndarray | None = None,
    other_clips: np.ndarray | None = None,
    batch_size: int = 16,
    max_text_length: int = 200,
    max_mel_frames: int = 800,
    num_buckets: int = 8,
    gap_frames: int = 4,
    gap_tokens: int = 1,
    n_mels: int = 80,
    reference_frames: int = 0,
    seed: int = 1234,
    replicas: int = 1,
) -> Plan:
    """A plan that visits `clips` (ascending numbers; all, if None) of a cache whose lengths are given.

    The shapes hold `other_clips` (those of validation), too. Raises `PlanError` where a clip does not fit the limits (nothing is
    ever cut: leave it out, see `fitting_clips`), or where the rows of a batch cannot be split evenly among the replicas.
    """
    if kind not in PLAN_KINDS:
        raise PlanError(f"Unknown plan. Received: {kind!r}. Expected one of: {', '.join(PLAN_KINDS)}.")
    clips = np.arange(len(frame_counts)) if clips is None else np.asarray(clips)
    if not len(clips):
        raise PlanError("No clip is left to plan. Look at the report of rejected clips, or raise the limits.")
    every_clip = clips if other_clips is None else np.concatenate([clips, np.asarray(other_clips)])
    frames, tokens = np.asarray(frame_counts)[every_clip], np.asarray(token_counts)[every_clip]
    _refuse_long_clips(every_clip, frames, tokens, max_text_length, max_mel_frames)
    row_size = RowSize(max_mel_frames, max_text_length, 1, gap_frames, gap_tokens)
    if kind == "packed":
        row_size, clips_per_row = packed_row_size(frames, tokens, max_mel_frames, gap_frames, gap_tokens, seed)
        rows = max(1, round(batch_size / clips_per_row))
        if rows % replicas:
            suggested = round(-(-rows // replicas) * replicas * clips_per_row)
            raise PlanError(
                f"The {rows} packed rows that hold {batch_size} clips cannot be split among {replicas} replicas. "
                f"Try data.batch_size={suggested}."
            )
        shapes = [BatchShape(rows, row_size.tokens, row_size.frames, row_size.slots)]
    elif kind == "buckets":
        shapes = _bucket_shapes(frames, tokens, num_buckets, batch_size, replicas)
    else:
        if batch_size % replicas:
            raise PlanError(
                f"batch_size must be a multiple of the {replicas} replicas. Received: {batch_size}. "
                f"Try data.batch_size={-(-batch_size // replicas) * replicas}."
            )
        if kind == "dynamic":
            max_text_length, max_mel_frames = int(tokens.max()), int(frames.max())
        shapes = [BatchShape(batch_size, max_text_length, max_mel_frames)]
    shapes = tuple(dataclasses.replace(shape, n_mels=n_mels, reference_frames=reference_frames) for shape in shapes)
    nothing = np.zeros(0, np.int32)
    plan = Plan(kind, seed, shapes, nothing, nothing, nothing, nothing, row_size)
    return with_clips(plan, clips, frame_counts, token_counts)


def plan_sizes(data: DataConfig) -> dict[str, int]:
    """The arguments of `build_plan` that a configuration states; the limit of frames may have to be resolved first."""
    return {
        "batch_size": AUTOMATIC_BATCH_SIZE if data.batch_size == "auto" else data.batch_size,
        "max_text_length": data.max_text_length,
        "num_buckets": data.num_buckets,
        "gap_frames": data.gap_frames,
        "gap_tokens": data.gap_tokens,
    }


def plan_kind(data: DataConfig) -> str:
    """The plan that a configuration asks for."""
    if data.pad_to_fixed_length:
        return "fixed"
    if data.plan != "auto":
        return data.plan
    # Clips that are decoded while training have no known length to plan with.
    return "fixed" if data.preprocessing_mode == "runtime" else "packed"


def fitting_clips(
    frame_counts: np.ndarray, token_counts: np.ndarray, max_text_length: int, max_mel_frames: int
) -> np.ndarray:
    """Which clips fit a row as a whole: bool (clips,). The others are to be reported, never cut."""
    return (np.asarray(frame_counts) <= max_mel_frames) & (np.asarray(token_counts) <= max_text_length)


def packed_row_size(
    frames: np.ndarray, tokens: np.ndarray, row_frames: int, gap_frames: int, gap_tokens: int, seed: int
) -> tuple[RowSize, float]:
    """The fewest tokens, and the slots, with which as few rows hold the clips as without a limit; and the mean clips of a row.

    Tokens that no clip fills are computed, too: on the bundled prompts 208 do what 232 do.
    """
    sample = shuffled(len(frames), seed, 0)[:SAMPLE_CLIPS]
    most_clips = max(1, (row_frames + gap_frames) // (int(frames[sample].min()) + gap_frames))
    free = RowSize(row_frames, int(tokens[sample].sum()) + gap_tokens * len(sample), most_clips, gap_frames, gap_tokens)
    rows = pack_rows(frames[sample], tokens[sample], free)
    clips_of_rows = (rows != NO_CLIP).sum(axis=1)
    tokens_of_clips = np.append(tokens[sample] + gap_tokens, 0)
    tokens_of_rows = tokens_of_clips[rows].sum(axis=1) - gap_tokens
    slots = int(np.ceil(np.percentile(clips_of_rows, 99)))

    def size_with(row_tokens: int) -> RowSize:
        return RowSize(row_frames, row_tokens, slots, gap_frames, gap_tokens)

    fewest = _multiple_of_8(max(int(tokens_of_rows.mean()), int(tokens.max())))
    enough = max(fewest, _multiple_of_8(int(tokens_of_rows.max())))
    most_rows = len(rows) * (1 + SPARE_ROWS)
    while fewest < enough:
        middle = (fewest + enough) // 2 // 8 * 8
        if len(pack_rows(frames[sample], tokens[sample], size_with(middle))) <= most_rows:
            enough = middle
        else:
            fewest = middle + 8
    return size_with(enough), float(clips_of_rows.mean())


def _bucket_shapes(
    frames: np.ndarray, tokens: np.ndarray, num_buckets: int, batch_size: int, replicas: int
) -> list[BatchShape]:
    """Shapes of the best lengths. A longer bucket holds at least the tokens of a shorter one, so that the longest holds all."""
    bounds = best_bucket_lengths(frames, num_buckets)
    budget = batch_size * float(frames.mean())
    shapes, most_tokens, shorter = [], 1, 0
    for bound in bounds.tolist():
        members = (frames > shorter) & (frames <= bound)
        most_tokens = max(most_tokens, int(tokens[members].max()))
        most_rows = max(1, int(members.sum()) // replicas)
        rows = replicas * min(most_rows, max(1, round(budget / bound / replicas)))
        shapes.append(BatchShape(rows, _multiple_of_8(most_tokens), bound))
        shorter = bound
    return shapes


def with_clips(plan: Plan, clips: np.ndarray, frame_counts: np.ndarray, token_counts: np.ndarray) -> Plan:
    """The same shapes for other clips, such as those of validation, so that nothing new is compiled for them.

    Each clip belongs to the first shape that holds its frames and its tokens. Build the plan with them as `other_clips`, or
    a `PlanError` may say that one does not fit.
    """
    clips = np.asarray(clips, np.int32)
    frames = np.asarray(frame_counts)[clips].astype(np.int32)
    tokens = np.asarray(token_counts)[clips].astype(np.int32)
    _refuse_long_clips(clips, frames, tokens, plan.shapes[-1].tokens, plan.shapes[-1].frames)
    by_frames = np.searchsorted([shape.frames for shape in plan.shapes], frames)
    by_tokens = np.searchsorted([shape.tokens for shape in plan.shapes], tokens)
    return dataclasses.replace(
        plan, clips=clips, frame_counts=frames, token_counts=tokens, buckets=np.maximum(by_frames, by_tokens)
    )


def _refuse_long_clips(
    clips: np.ndarray, frames: np.ndarray, tokens: np.ndarray, max_text_length: int, max_mel_frames: int
) -> None:
    too_long = np.flatnonzero(~fitting_clips(frames, tokens, max_text_length, max_mel_frames))
    if not len(too_long):
        return
    listed = ", ".join(f"clip {clips[i]} ({tokens[i]} tokens, {frames[i]} frames)" for i in too_long[:5])
    raise PlanError(
        f"{len(too_long)} clips are longer than {max_text_length} tokens or {max_mel_frames} frames, and no clip is ever cut: "
        f"{listed}{', …' if len(too_long) > 5 else ''}. Leave them out, or raise data.max_text_length or data.max_mel_frames."
    )


def _multiple_of_8(number: int) -> int:
    return -(-max(1, number) // 8) * 8
