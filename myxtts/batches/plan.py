"""Plans: static shapes from the statistics of a corpus, and which clips share a row.

In: the clips' lengths and the sizes asked for. Out: a `Plan`; its order is described in `myxtts.batches.order`. No TensorFlow, no
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
from myxtts.batches.order import PassRows, Plan, Position, Segment, shuffled
from myxtts.batches.packing import RowSize, pack_rows
from myxtts.cache.format import Cache
from myxtts.config.config import DataConfig
from myxtts.corpus.utterance import Rejection
from myxtts.errors import PlanError

# MERGED: The limits that a plan sets: opened cache and lengths in, the clips that fit and those that are skipped out.
#
# `max_text_length` and `max_mel_frames` are not part of a cache's fingerprint: changing them decodes nothing again.

LONG_TEXT = "longer than max_text_length"
LONG_CLIP = "longer than max_mel_frames"


def usable_clips(cache: Cache, max_text_length: int, max_mel_frames: int) -> tuple[np.ndarray, list[Rejection]]:
    """Numbers of the clips that fit as a whole, int32 ascending, and a rejection for each of the others."""
    fits = fitting_clips(cache.frame_counts, cache.token_counts, max_text_length, max_mel_frames)
    rejections = []
    for clip in np.flatnonzero(~fits).tolist():
        symbols, frames = int(cache.token_counts[clip]), int(cache.frame_counts[clip])
        if symbols > max_text_length:
            reason, detail = LONG_TEXT, f"{symbols} symbols, data.max_text_length is {max_text_length}"
        else:
            reason, detail = LONG_CLIP, f"{frames} frames, data.max_mel_frames is {max_mel_frames}"
        rejections.append(Rejection(cache.ids[clip], "", reason, detail))
    return np.flatnonzero(fits).astype(np.int32), rejections


def resolved_max_mel_frames(
    cache: Cache, configured: int | str, max_text_length: int, plan_kind: str = "packed"
) -> int:
    """`data.max_mel_frames` as a number; `auto` is derived from the lengths of the clips whose text fits."""
    if configured != "auto":
        return configured
    return automatic_max_mel_frames(cache.frame_counts[cache.token_counts <= max_text_length], plan_kind)


def describe_sound(cache: Cache, config: DataConfig, recorded_rates: np.ndarray) -> str:
    """One line: rate of the recordings (Hz, one for each) and of the voice, its frames, and what the limits drop."""
    mel, max_text_length = cache.mel, config.max_text_length
    max_mel_frames = resolved_max_mel_frames(cache, config.max_mel_frames, max_text_length, plan_kind(config))
    rates, counts = np.unique(recorded_rates[recorded_rates > 0], return_counts=True)
    recorded = ", ".join(f"{rates[place]}" for place in np.argsort(-counts, kind="stable")[:3])
    more = " and other rates" if len(rates) > 3 else ""
    longest_seconds = (max_mel_frames * mel.hop_length - 1) / mel.sample_rate  # the inverse of `num_frames`
    dropped = int((~fitting_clips(cache.frame_counts, cache.token_counts, max_text_length, max_mel_frames)).sum())
    return (
        f"recordings at {recorded} Hz{more} → voice at {mel.sample_rate} Hz; hop {mel.hop_length}, frames of "
        f"{1000 / mel.frames_per_second:.1f} ms; clips up to {longest_seconds:.1f} s fit ({max_mel_frames} frames, "
        f"{max_text_length} symbols); {dropped} of {len(cache.frame_counts)} clips are longer and dropped"
    )


def automatic_max_mel_frames(frame_counts: np.ndarray, plan_kind: str = "packed") -> int:
    """Frames of the longest clip, unless a few outliers are much longer than the rest; a multiple of 32.

    A packed row holds at least four clips of mean length, so that its end can be filled well.
    """
    wanted = automatic_limit(frame_counts)
    if plan_kind == "packed" and len(frame_counts):
        wanted = max(wanted, 4 * float(frame_counts.mean()))
    return _multiple_of_32(wanted)


def automatic_limit(lengths: np.ndarray) -> int:
    """The longest of the lengths, or, if that is far beyond the others, what 99.5 % of them stay below."""
    if not len(lengths):
        return 1
    longest, usual = int(lengths.max()), float(np.percentile(lengths, 99.5))
    return longest if longest <= 1.5 * usual else int(np.ceil(usual))


def _multiple_of_32(frames: float) -> int:
    return int(-(-frames // 32) * 32)


# MERGED: Bucket lengths that waste the least: dynamic programming on the histogram of clip lengths.
#
# In: frames of each clip and a number of buckets. Out: the upper lengths, ascending; each clip belongs to the first that holds
# it.

MAX_CANDIDATES = 1024
"""Lengths that may become an upper bound; a corpus with more distinct lengths is looked at in steps of several frames."""


def best_bucket_lengths(frame_counts: np.ndarray, num_buckets: int) -> np.ndarray:
    """At most `num_buckets` upper lengths (int64, ascending) with the smallest sum of padded frames; the last holds all clips."""
    frame_counts = np.asarray(frame_counts, np.int64)
    longest = int(frame_counts.max())
    step = -(-longest // MAX_CANDIDATES)
    rounded = -(-frame_counts // step) * step
    lengths, counts = np.unique(rounded, return_counts=True)
    lengths[-1] = longest
    clips_up_to = np.concatenate([[0], np.cumsum(counts)])

    # padded[i, j]: frames of a bucket that holds the candidates i … j-1, all padded to the longest of them.
    padded = (clips_up_to[None, :] - clips_up_to[:, None]) * np.concatenate([[0], lengths])[None, :].astype(np.float64)
    padded[np.tril_indices(len(lengths) + 1)] = np.inf
    least = padded[0].copy()  # padded frames of the first j candidates in the buckets used so far
    starts_of_last_bucket = []
    for _ in range(min(num_buckets, len(lengths)) - 1):
        totals = least[:, None] + padded
        starts = np.argmin(totals, axis=0)
        starts_of_last_bucket.append(starts)
        least = np.take_along_axis(totals, starts[None, :], axis=0)[0]

    end = len(lengths)
    bounds = [int(lengths[-1])]
    for starts in reversed(starts_of_last_bucket):
        end = int(starts[end])
        bounds.append(int(lengths[end - 1]))
    return np.array(bounds[::-1], np.int64)


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
