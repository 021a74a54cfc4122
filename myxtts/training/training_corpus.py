"""The corpus of a run: the open cache, and the plans of training and validation."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from myxtts.batches.on_the_fly import NOTICE as PYTHON_NOTICE
from myxtts.batches.order import Plan
from myxtts.batches.plan import plan_corpus
from myxtts.cache.clip_table import Cache, ClipTable
from myxtts.cache.prepare import PrepareReport, prepare_cache
from myxtts.cache.recordings import RecordingTable, open_recordings
from myxtts.config.config import DataConfig, ModelConfig, TrainingConfig
from myxtts.corpus.utterance import Rejection, summarize_rejections
from myxtts.models.spec import ModelSpec
from myxtts.runtime.progress import ProgressCallback, ignore_line, ignore_progress

STATISTICS_ROWS = 500_000
"""About as many frames decide the mean and deviation of each band (2 hours at 62 frames/s). Chosen; not measured."""
RUNTIME_NOTICE = (
    "Decoding while training (data.preprocessing_mode: runtime): every clip is read and analyzed again in every epoch. This is "
    "slower than the prepared cache; leave the setting out to use the cache."
)


@dataclass(frozen=True)
class TrainingCorpus:
    """The data of a run, ready to be loaded."""

    cache: Cache | RecordingTable
    """The prepared clips, or the recordings that are decoded while training."""
    plan: Plan
    validation_plan: Plan | None
    """None if no clip is held out."""
    max_mel_frames: int
    data_folder: Path
    sound: str
    """One line: rate of the recordings and of the voice, frames, and what the limits drop."""
    rejected: str
    """One line: how many clips cannot be used, by reason."""
    report: PrepareReport | None
    """None where nothing is prepared (`preprocessing_mode: runtime`)."""

    @functools.cached_property
    def plan_fingerprint(self) -> str:
        """Hash of the batch order: a position in the data has a meaning only with it."""
        return self.plan.fingerprint(self.cache.content_id)

    def described(self) -> dict[str, str]:
        """The first lines of a run about its data, by their titles."""
        plan, cache = self.plan, self.cache
        held_out = 0 if self.validation_plan is None else len(self.validation_plan.clips)
        lines = {
            "Corpus": f"{len(plan.clips)} clips for training, {held_out} held out, {self.rejected}; "
            f"speakers {len(cache.speakers)}, languages {len(cache.languages)}, {cache.front_end_kind}",
            "Sound": self.sound,
            "Plan": f"{plan.kind}, shapes {len(plan.shapes)} (first {plan.shapes[0]}), {plan.useful_fraction():.0%} useful "
            f"frames, {plan.mean_clips_per_batch():.1f} clips per batch",
        }
        if not plan.is_static:
            lines["Cost of the plan"] = (
                "a batch of a new size is compiled again, in the middle of the run; --plan packed has one size"
            )
        return lines

    def model_spec(self, model: ModelConfig) -> ModelSpec:
        """The dimensions of the network of a configured size for this corpus."""
        return ModelSpec.from_config(
            model,
            num_symbols=len(self.cache.symbols),
            num_languages=len(self.cache.languages),
            num_speakers=len(self.cache.speakers),
            n_mels=self.cache.mel.n_mels,
            log_floor=self.cache.mel.log_floor,
            f_min=self.cache.mel.f_min,
            f_max=self.cache.mel.f_max,
        )


def open_training_corpus(
    data: DataConfig,
    training: TrainingConfig,
    replicas: int = 1,
    progress: ProgressCallback = ignore_progress,
    announce: Callable[[str], None] = ignore_line,
    batch_size: int | None = None,
    with_pitch: bool = False,
) -> TrainingCorpus:
    """Prepare the clips that are not prepared, open the cache, and plan.

    Args:
        replicas: copies of the network that share each batch.
        progress: called with the stage, and how much of it is done.
        announce: prints a line.
        batch_size: measured for `data.batch_size: auto`; a number there takes precedence.
        with_pitch: with the pitch of every frame, for `model.pitch`.
    """
    cache, report, rejections = _open_clips(data, progress, announce, with_pitch)
    data_folder = cache.folder if report is None else report.data_folder
    planned = plan_corpus(
        cache,
        data,
        seed=training.seed,
        replicas=replicas,
        batch_size=batch_size,
        has_pitch=with_pitch,
        recorded_rates=None if report is None else report.recorded_rates,
        data_folder=data_folder,
    )
    rejected = summarize_rejections((*rejections, *planned.dropped))
    return TrainingCorpus(
        cache,
        planned.training,
        planned.validation,
        planned.max_mel_frames,
        data_folder,
        planned.sound,
        rejected,
        report,
    )


def _open_clips(
    data: DataConfig,
    progress: ProgressCallback,
    announce: Callable[[str], None],
    with_pitch: bool,
) -> tuple[Cache | RecordingTable, PrepareReport | None, tuple[Rejection, ...]]:
    """The prepared clips, or the recordings, and what was rejected; a way of loading slower than the default is announced."""
    if data.preprocessing_mode == "runtime":
        announce(RUNTIME_NOTICE)
        recordings = open_recordings(data, progress=progress)
        for line in (*recordings.notices, *recordings.rejection_report()):
            announce(line)
        return recordings, None, recordings.rejections
    if not data.use_tf_native_loading:
        announce(PYTHON_NOTICE)
    cache = prepare_cache(data, progress=progress, announce=announce, with_sound=with_pitch)
    return cache, cache.report, cache.report.rejections


def mel_statistics(
    cache: ClipTable, clips: np.ndarray, bands: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each band over an even sample of the given clips, float32 (n_mels,) each.

    `bands`: how many bands of each clip of the cache count, from the lowest; None: all.
    """
    n_mels, total_rows = cache.mel.n_mels, int(cache.frame_counts[clips].sum())
    every = max(1, total_rows // STATISTICS_ROWS)
    count, total, squares = np.zeros(n_mels), np.zeros(n_mels), np.zeros(n_mels)
    for clip in clips[::every].tolist():
        own_bands = n_mels if bands is None else int(bands[clip])
        rows = cache.clip_frames(clip)[:, :own_bands].astype(np.float64)
        count[:own_bands] += len(rows)
        total[:own_bands] += rows.sum(axis=0)
        squares[:own_bands] += np.square(rows).sum(axis=0)
    mean = total / np.maximum(count, 1)
    deviation = np.sqrt(np.maximum(squares / np.maximum(count, 1) - mean**2, 1e-8))
    return mean.astype(np.float32), np.maximum(deviation, 1e-2).astype(np.float32)
