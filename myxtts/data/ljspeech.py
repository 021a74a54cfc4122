"""`LJSpeechDataset`: batches, statistics and a verified cache of a folder of recordings; a thin entry point to the packages.

The cache is prepared when it is first needed. For endless, resumable training streams use `myxtts.batches.feed`; this class
gives plain `tf.data.Dataset`s of whole epochs.
"""

from __future__ import annotations

import dataclasses
import functools
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from myxtts.batch import Batch
from myxtts.batches.order import Plan
from myxtts.batches.plan import build_plan, plan_kind, plan_sizes, resolved_max_mel_frames, usable_clips
from myxtts.batches.statistics import Subset, get_statistics, subset_clips
from myxtts.cache.clip_table import Cache
from myxtts.cache.prepare import prepare_cache
from myxtts.cache.recordings import RecordingTable, open_recordings
from myxtts.cache.verify import VerifyReport, find_cache, verify_and_fix_cache
from myxtts.config.config import DataConfig, TrainingConfig
from myxtts.errors import ConfigError, CorpusError
from myxtts.runtime.progress import ProgressCallback, ignore_progress

if TYPE_CHECKING:
    import tensorflow as tf

SUBSETS = ("train", "validation", "all")


class LJSpeechDataset:
    """A corpus in LJSpeech's layout, or in any other that `myxtts.corpus.layouts` recognizes."""

    def __init__(
        self,
        data_path: str | Path | None = None,
        config: DataConfig | None = None,
        subset: Subset = "train",
        progress: ProgressCallback | None = None,
    ):
        """
        Args:
            data_path: the corpus; by default `config.train_data`, then the bundled prompts.
            progress: called as `progress(stage, done, total)` while the cache is prepared.
        """
        if subset not in SUBSETS:
            raise ConfigError(f"Unknown subset. Received: {subset!r}. Expected one of: {', '.join(SUBSETS)}.")
        self.subset: Subset = subset
        self.config = config if config is not None else DataConfig()
        if data_path is not None:
            self.config = dataclasses.replace(self.config, train_data=str(data_path))
        self._progress = progress

    @cached_property
    def cache(self) -> Cache:
        """The prepared cache; preparing happens here, once."""
        return prepare_cache(self.config, progress=self._progress)

    @cached_property
    def clip_table(self) -> Cache | RecordingTable:
        """What batches are filled from: the cache, or the recordings themselves (`preprocessing_mode: runtime`)."""
        if self.config.preprocessing_mode == "runtime":
            return open_recordings(self.config, progress=self._progress or ignore_progress)
        return self.cache

    def clips(self) -> np.ndarray:
        """Indices in `clip_table` of the subset's clips that are within the configured limits: int32, ascending."""
        usable, _ = usable_clips(self.clip_table, self.config.max_text_length, self._max_mel_frames())
        return np.intersect1d(usable, subset_clips(self.clip_table, self.subset))

    def plan(self, seed: int = TrainingConfig.seed, full: bool = True) -> Plan:
        """The plan of the subset's batches; `full` False: a plan with one clip per row."""
        kind = plan_kind(self.config)
        if not full and kind == "packed":
            if self.config.plan == "packed":
                raise ConfigError(
                    "With data.plan: packed, a row has several clips, which the four tensors cannot describe. "
                    "Use create_tf_dataset(full=True), or data.plan: fixed, buckets or dynamic."
                )
            kind = "fixed"
        clips, table = self.clips(), self.clip_table
        if not len(clips):
            raise CorpusError(
                f"No clip of the subset {self.subset!r} in {table.folder} is within the limits. Raise data.max_mel_frames."
            )
        return build_plan(
            kind,
            table.frame_counts,
            table.token_counts,
            clips=clips,
            max_mel_frames=self._max_mel_frames(),
            n_mels=table.mel.n_mels,
            reference_frames=self.config.reference_frames if len(table.speakers) > 1 and full else 0,
            seed=seed,
            **plan_sizes(self.config),
        )

    def create_tf_dataset(
        self, full: bool = False, epochs: int = 1, seed: int = TrainingConfig.seed
    ) -> tf.data.Dataset:
        """Batches `text, mel, text_lengths, mel_lengths`: int32 (B, T), float32 (B, M, n_mels), int32 (B,), int32 (B,).

        Args:
            full: give whole `myxtts.batch.Batch`es, with speakers, languages, references, and packed rows where the plan has
                them.
            epochs: how often every clip comes. The last batch of a shape in an epoch is filled with rows of length 0.
            seed: the order of the clips, and their references, are a function of (seed, epoch).
        """
        from myxtts.batches.feed import open_reader
        from myxtts.batches.loader import LoaderOptions, prefetched

        plan = self.plan(seed, full)
        reader = open_reader(self.clip_table, plan, self.config, plan.clips)
        segments = [plan.single_epoch(epoch) for epoch in range(epochs)]
        parts = [
            reader.host_dataset(segment, shape)
            for segment in segments
            for shape in range(len(plan.shapes))
            if len(segment.rows[shape])
        ]
        dataset = functools.reduce(lambda dataset, part: dataset.concatenate(part), parts)
        if not full:
            dataset = dataset.map(_plain_tensors, num_parallel_calls=1, deterministic=True)
        return prefetched(dataset, LoaderOptions.from_config(self.config))

    def get_statistics(self) -> dict[str, Any]:
        """Lengths, drops, padding of each plan, recommended settings (`myxtts.batches.statistics`)."""
        return get_statistics(self.cache, self.config, self.subset)

    def verify_and_fix_cache(self, fix: bool = True) -> VerifyReport:
        """Check the prepared cache record by record, and repair what is damaged."""
        location = find_cache(self.config, progress=self._progress or ignore_progress)
        report = verify_and_fix_cache(
            location.folder,
            fix,
            config=self.config,
            expected_settings=location.settings.to_dict(),
            progress=self._progress,
        )
        if report.is_repaired:
            self.__dict__.pop("cache", None)  # the opened one may be of an older generation
        return report

    def _max_mel_frames(self) -> int:
        return resolved_max_mel_frames(
            self.clip_table, self.config.max_mel_frames, self.config.max_text_length, plan_kind(self.config)
        )


def _plain_tensors(batch: Batch) -> tuple[Any, Any, Any, Any]:
    """Text, mel and their lengths, of rows that hold one clip."""
    return batch.tokens, batch.mel, batch.text_lengths[:, 0], batch.mel_lengths[:, 0]
