"""Plans: which clips are within the limits, in which static shapes. No TensorFlow, no files.

- `fixed`: one clip per row, exactly `max_text_length` symbols and `max_mel_frames` frames.
- `buckets`: one clip per row, a few lengths with the least padding, rows of a batch from a budget of frames.
- `packed`: several clips per row, one size.
- `dynamic`: one clip per row, padded to the longest of the batch; not static, for comparison.

The limits `max_text_length` and `max_mel_frames` belong to the plan, not to the cache: changing them decodes nothing again. The
shapes come from `myxtts.batches.packing`, the order of the clips from `myxtts.batches.order`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.batch import BatchShape
from myxtts.batches.order import Plan, shuffled
from myxtts.batches.packing import RowSize, bucket_shapes, multiple_of, packed_row_size, packed_shape
from myxtts.cache.clip_table import ClipTable
from myxtts.config.config import DataConfig, TrainingConfig, corpus_name
from myxtts.corpus.utterance import Rejection
from myxtts.errors import CorpusError, PlanError

MOST_COPIES = 4.0
"""Mean copies of a clip in an epoch: six seconds of a speaker would be used 36 times in the base voice. Chosen; not measured."""
PLAN_KINDS = ("fixed", "buckets", "packed", "dynamic")
LONG_TEXT = "longer than max_text_length"
LONG_CLIP = "longer than max_mel_frames"

_DEFAULTS = DataConfig()
AUTOMATIC_BATCH_SIZE = int(_DEFAULTS.batch_size)
"""`batch_size: auto` where it is not measured (`auto_tune_performance: false`, or several machines); the trainer prints it."""


@dataclass(frozen=True)
class CorpusPlan:
    """The plans of a corpus, and the clips that its limits drop."""

    training: Plan
    validation: Plan | None
    """In the shapes of training, so that nothing else is compiled. None if no clip is held out."""
    max_mel_frames: int
    """`data.max_mel_frames`, derived where it is `auto`."""
    dropped: tuple[Rejection, ...]
    """Clips that are longer than the limits."""
    sound: str
    """One line: rate of the recordings and of the voice, frames, and how many clips the limits drop."""


def plan_corpus(
    table: ClipTable,
    data: DataConfig,
    *,
    seed: int,
    replicas: int = 1,
    batch_size: int | None = None,
    has_pitch: bool = False,
    recorded_rates: np.ndarray | None = None,
    data_folder: Path | None = None,
) -> CorpusPlan:
    """Plan the training and validation clips of a corpus as configured.

    Args:
        table: the clips.
        data: the configuration.
        seed: of the order.
        replicas: among which the rows of each batch are split.
        batch_size: measured value for `data.batch_size: auto`.
        has_pitch: batches hold the pitch of every frame.
        recorded_rates: sample rate of each recording in Hz, for `sound`; None: that of the voice.
        data_folder: folder of the recordings, for messages; None: the table's folder.

    Raises:
        CorpusError: no clip fits the limits, or all that do are held out.
        PlanError: the batches cannot be split among the replicas.
    """
    data_folder = table.folder if data_folder is None else data_folder
    kind = plan_kind(data)
    max_mel_frames = resolved_max_mel_frames(table, data.max_mel_frames, data.max_text_length, kind)
    clips, dropped = usable_clips(table, data.max_text_length, max_mel_frames)
    is_held_out = table.is_validation[clips]
    if not len(clips):
        raise CorpusError(
            f"No clip of {data_folder} fits data.max_text_length ({data.max_text_length} symbols) and data.max_mel_frames "
            f"({max_mel_frames} frames): the shortest text has {table.token_counts.min()} symbols, the shortest clip "
            f"{table.frame_counts.min()} frames. Raise these limits."
        )
    if is_held_out.all():
        raise CorpusError(
            f"No clip of {data_folder} is left for training: {len(clips)} of {len(table.frame_counts)} fit the "
            "limits, and those are held out. Add recordings, raise data.max_mel_frames, or lower data.validation_share."
        )
    sizes = plan_sizes(data) | {"max_mel_frames": max_mel_frames, "n_mels": table.mel.n_mels}
    if data.batch_size == "auto" and batch_size is not None:
        sizes["batch_size"] = batch_size
    lengths = (table.frame_counts, table.token_counts)
    training = build_plan(
        kind,
        *lengths,
        clips=clips[~is_held_out],
        other_clips=clips[is_held_out],
        reference_frames=data.reference_frames if len(table.speakers) > 1 else 0,
        has_pitch=has_pitch,
        seed=seed,
        replicas=replicas,
        **sizes,
    )
    validation = with_clips(training, clips[is_held_out], *lengths) if is_held_out.any() else None
    training = dataclasses.replace(training, rates=copies_per_epoch(table, clips[~is_held_out], data))
    rates = np.array([table.mel.sample_rate]) if recorded_rates is None else recorded_rates
    return CorpusPlan(training, validation, max_mel_frames, tuple(dropped), describe_sound(table, data, rates))


def copies_per_epoch(table: ClipTable, clips: np.ndarray, data: DataConfig) -> np.ndarray | None:
    """Mean copies of each clip in an epoch: float64 (clips,); None: every clip once.

    A speaker with m minutes gets the fraction of an epoch that is proportional to weight · m^balance, where the weight is that of
    the speaker's corpus. An epoch stays as long as the recordings are, but for speakers of a few seconds, whose clips are used at
    most `MOST_COPIES` times.
    """
    weights = {corpus_name(corpus): corpus.weight for corpus in data.corpora}
    if data.balance == 1 and all(weight == 1 for weight in weights.values()):
        return None
    speakers, frames = table.speaker_numbers[clips], table.frame_counts[clips]
    minutes = np.bincount(speakers, frames, minlength=len(table.speakers)) / (60 * table.mel.frames_per_second)
    of_speakers = np.array([weights[corpus] for corpus in table.speaker_corpora] or np.ones(len(table.speakers)))
    wanted = np.where(minutes > 0, of_speakers * np.maximum(minutes, 1e-9) ** data.balance, 0.0)
    copies = wanted / np.maximum(minutes, 1e-9) * minutes.sum() / wanted.sum()
    return np.minimum(copies, MOST_COPIES)[speakers]


def plan_kind(data: DataConfig) -> str:
    """The kind of plan that a configuration asks for."""
    if data.pad_to_fixed_length:
        return "fixed"
    if data.plan != "auto":
        return data.plan
    return (
        "fixed" if data.preprocessing_mode == "runtime" else "packed"
    )  # clips decoded while training cannot be packed


def plan_sizes(data: DataConfig) -> dict[str, Any]:
    """The arguments of `build_plan` that a configuration gives; `max_mel_frames` may have to be derived first."""
    return {
        "batch_size": AUTOMATIC_BATCH_SIZE if data.batch_size == "auto" else data.batch_size,
        "max_text_length": data.max_text_length,
        "num_buckets": data.num_buckets,
        "gap_frames": data.gap_frames,
        "gap_tokens": data.gap_tokens,
    }


def build_plan(
    kind: str,
    frame_counts: np.ndarray,
    token_counts: np.ndarray,
    *,
    clips: np.ndarray | None = None,
    other_clips: np.ndarray | None = None,
    batch_size: int = AUTOMATIC_BATCH_SIZE,
    max_text_length: int = _DEFAULTS.max_text_length,
    max_mel_frames: int = int(_DEFAULTS.max_mel_frames),
    num_buckets: int = _DEFAULTS.num_buckets,
    gap_frames: int = _DEFAULTS.gap_frames,
    gap_tokens: int = _DEFAULTS.gap_tokens,
    n_mels: int = _DEFAULTS.n_mels,
    reference_frames: int = 0,
    has_pitch: bool = False,
    seed: int = TrainingConfig().seed,
    replicas: int = 1,
) -> Plan:
    """The plan of some clips of a table.

    Args:
        kind: one of `PLAN_KINDS`.
        frame_counts: frames of each clip of the table.
        token_counts: tokens of each clip of the table.
        clips: ascending indices of the clips that the plan visits; None: all.
        other_clips: clips that must fit the shapes (those of validation, see `with_clips`).
        batch_size: clips per batch; for `packed` their mean number, for `buckets` a budget of frames.
        replicas: the rows of each batch are a multiple of them.

    Raises:
        PlanError: a clip is longer than the limits (clips are never cut: leave it out, see `fitting_clips`), or the rows of a
            batch cannot be split evenly among the replicas.
    """
    if kind not in PLAN_KINDS:
        raise PlanError(f"Unknown plan. Received: {kind!r}. Expected one of: {', '.join(PLAN_KINDS)}.")
    clips = np.arange(len(frame_counts)) if clips is None else np.asarray(clips)
    if not len(clips):
        raise PlanError("No clip is left to plan. Read the report of rejected clips, or raise the limits.")
    every_clip = clips if other_clips is None else np.concatenate([clips, np.asarray(other_clips)])
    frames, tokens = np.asarray(frame_counts)[every_clip], np.asarray(token_counts)[every_clip]
    _refuse_long_clips(every_clip, frames, tokens, max_text_length, max_mel_frames)
    row_size = RowSize(max_mel_frames, max_text_length, 1, gap_frames, gap_tokens)
    if kind == "packed":
        order = shuffled(len(frames), seed, 0)
        row_size, clips_per_row = packed_row_size(frames, tokens, order, max_mel_frames, gap_frames, gap_tokens)
        shapes = [packed_shape(row_size, clips_per_row, batch_size, replicas)]
    elif kind == "buckets":
        shapes = bucket_shapes(frames, tokens, num_buckets, batch_size, replicas)
    else:
        if batch_size % replicas:
            raise PlanError(
                f"batch_size must be a multiple of the {replicas} replicas. Received: {batch_size}. "
                f"Try data.batch_size={multiple_of(replicas, batch_size)}."
            )
        if kind == "dynamic":
            max_text_length, max_mel_frames = int(tokens.max()), int(frames.max())
        shapes = [BatchShape(batch_size, max_text_length, max_mel_frames)]
    more: dict[str, Any] = {"n_mels": n_mels, "reference_frames": reference_frames, "has_pitch": has_pitch}
    shapes = tuple(dataclasses.replace(shape, **more) for shape in shapes)
    nothing = np.zeros(0, np.int32)
    plan = Plan(kind, seed, shapes, nothing, nothing, nothing, nothing, row_size)
    return with_clips(plan, clips, frame_counts, token_counts)


def with_clips(plan: Plan, clips: np.ndarray, frame_counts: np.ndarray, token_counts: np.ndarray) -> Plan:
    """The same shapes for other clips, such as those of validation, so that nothing new is compiled for them.

    Each clip belongs to the first shape that holds its frames and its tokens. Clips that were not among the `other_clips` of
    `build_plan` may not fit, which raises `PlanError`.
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


def fitting_clips(
    frame_counts: np.ndarray, token_counts: np.ndarray, max_text_length: int, max_mel_frames: int
) -> np.ndarray:
    """Which clips fit into a row as a whole: bool (clips,). The others are reported, never cut."""
    return (np.asarray(frame_counts) <= max_mel_frames) & (np.asarray(token_counts) <= max_text_length)


def usable_clips(table: ClipTable, max_text_length: int, max_mel_frames: int) -> tuple[np.ndarray, list[Rejection]]:
    """Indices of the clips within the limits, int32 ascending, and a rejection for each of the others."""
    fits = fitting_clips(table.frame_counts, table.token_counts, max_text_length, max_mel_frames)
    rejections = []
    for clip in np.flatnonzero(~fits).tolist():
        symbols, frames = int(table.token_counts[clip]), int(table.frame_counts[clip])
        if symbols > max_text_length:
            reason, detail = LONG_TEXT, f"{symbols} symbols, data.max_text_length is {max_text_length}"
        else:
            reason, detail = LONG_CLIP, f"{frames} frames, data.max_mel_frames is {max_mel_frames}"
        rejections.append(Rejection(table.ids[clip], "", reason, detail))
    return np.flatnonzero(fits).astype(np.int32), rejections


def resolved_max_mel_frames(
    table: ClipTable, configured: int | str, max_text_length: int, plan_kind: str = "packed"
) -> int:
    """`data.max_mel_frames` as a number; `auto` is derived from the lengths of the clips whose text fits."""
    if isinstance(configured, int):
        return configured
    return automatic_max_mel_frames(table.frame_counts[table.token_counts <= max_text_length], plan_kind)


def automatic_max_mel_frames(frame_counts: np.ndarray, plan_kind: str = "packed") -> int:
    """Frames of the longest clip, unless a few outliers are much longer than the rest; a multiple of 32.

    A packed row holds at least four clips of mean length, so that its end can be filled well.
    """
    wanted = automatic_limit(frame_counts)
    if plan_kind == "packed" and len(frame_counts):
        wanted = max(wanted, 4 * float(frame_counts.mean()))
    return multiple_of(32, wanted)


def automatic_limit(lengths: np.ndarray) -> int:
    """The longest of the lengths, or their 99.5th percentile if the longest is more than 1.5 times that."""
    if not len(lengths):
        return 1
    longest, usual = int(lengths.max()), float(np.percentile(lengths, 99.5))
    return longest if longest <= 1.5 * usual else int(np.ceil(usual))


def describe_sound(table: ClipTable, data: DataConfig, recorded_rates: np.ndarray) -> str:
    """One line: sample rate of the recordings and of the voice, its frames, and how many clips the limits drop.

    `recorded_rates`: Hz, one per recording; 0 (unreadable) is ignored.
    """
    mel, max_text_length = table.mel, data.max_text_length
    max_mel_frames = resolved_max_mel_frames(table, data.max_mel_frames, max_text_length, plan_kind(data))
    rates, counts = np.unique(recorded_rates[recorded_rates > 0], return_counts=True)
    recorded = ", ".join(f"{rates[index]}" for index in np.argsort(-counts, kind="stable")[:3])
    more = " and other rates" if len(rates) > 3 else ""
    longest_seconds = (max_mel_frames * mel.hop_length - 1) / mel.sample_rate  # the inverse of `num_frames`
    dropped = int((~fitting_clips(table.frame_counts, table.token_counts, max_text_length, max_mel_frames)).sum())
    return (
        f"recordings at {recorded} Hz{more} → voice at {mel.sample_rate} Hz; hop {mel.hop_length}, frames of "
        f"{1000 / mel.frames_per_second:.1f} ms; clips up to {longest_seconds:.1f} s fit ({max_mel_frames} frames, "
        f"{max_text_length} symbols); {dropped} of {len(table.frame_counts)} clips are longer and dropped"
    )


def _refuse_long_clips(
    clips: np.ndarray, frames: np.ndarray, tokens: np.ndarray, max_text_length: int, max_mel_frames: int
) -> None:
    too_long = np.flatnonzero(~fitting_clips(frames, tokens, max_text_length, max_mel_frames))
    if not len(too_long):
        return
    listed = ", ".join(f"clip {clips[i]} ({tokens[i]} tokens, {frames[i]} frames)" for i in too_long[:5])
    raise PlanError(
        f"{len(too_long)} clips are longer than {max_text_length} tokens or {max_mel_frames} frames, and clips are never cut: "
        f"{listed}{', …' if len(too_long) > 5 else ''}. Leave them out, or raise data.max_text_length or data.max_mel_frames."
    )
