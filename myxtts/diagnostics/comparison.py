"""Before and after, in one run (`benchmark_gpu_utilization.py`, `myxtts benchmark`): loading, shapes, XLA, as ratios.

Loading: the same clips as 16-bit WAV through a Python function, through TensorFlow's ops on the fly, and from the cache, into
padded batches of one fixed shape. Shapes and XLA: real training steps, in useful frames per second. The variants
take turns, so that other load on the machine affects all of them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from myxtts.batches.feed import open_feed
from myxtts.config.config import DataConfig, XTTSConfig
from myxtts.corpus.corpus import read_corpus
from myxtts.corpus.corpus_writer import write_wav_corpus
from myxtts.diagnostics.trainer_diagnosis import run_trial, trial_trainer
from myxtts.training.autotune import COLD_STEPS
from myxtts.training.trainer import XTTSTrainer
from myxtts.training.training_corpus import TrainingCorpus, open_training_corpus

ROUNDS = 3
CLIPS = 200
FRAMES = 800
"""Frames of the fixed shape."""
Announce = Callable[[str], None]


@dataclass(frozen=True)
class ComparisonRow:
    """One variant."""

    group: str
    name: str
    value: float
    unit: str
    ratio: float
    """Speed relative to the first row of its group."""


def compare_loading(config: XTTSConfig, announce: Announce) -> list[ComparisonRow]:
    """Clips per second into batches of one fixed shape, for each loader that training uses."""
    with tempfile.TemporaryDirectory(prefix="myxtts-loading-") as folder:
        _write_wavs(config, Path(folder) / "corpus")
        data = dataclasses.replace(
            config.data, train_data=str(Path(folder) / "corpus"), val_data=None, cache_dir=str(Path(folder) / "cache"),
            pad_to_fixed_length=True, plan="fixed", max_mel_frames=FRAMES, preprocessing_mode="precompute",
            use_tf_native_loading=True,
        )  # fmt: skip
        ways = {
            "Python function (numpy_function)": dataclasses.replace(data, use_tf_native_loading=False),
            "TensorFlow ops on the fly": dataclasses.replace(data, preprocessing_mode="runtime"),
            "from the cache": data,
        }
        corpora = {name: open_training_corpus(way, config.training) for name, way in ways.items()}
        speeds: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(ROUNDS):
            announce(f"Loading, round {number + 1} of {ROUNDS} ...")
            for name, way in ways.items():
                speeds[name].append(_clips_per_second(corpora[name], way))
    return _rows("loading", speeds, "clips/s")


def compare_steps(config: XTTSConfig, steps: int, announce: Announce) -> list[ComparisonRow]:
    """Useful frames per second of real training steps, by plan, and by what XLA compiles."""
    plans = {"one fixed shape": "fixed", "buckets": "buckets", "packed rows": "packed"}
    by_plan = {
        name: dataclasses.replace(
            config, data=dataclasses.replace(config.data, plan=kind, pad_to_fixed_length=kind == "fixed", num_buckets=4)
        )
        for name, kind in plans.items()
    }
    by_compiler = {
        name: dataclasses.replace(
            config, training=dataclasses.replace(config.training, enable_xla_compilation=uses_xla)
        )
        for name, uses_xla in {"without XLA": False, "XLA: auto": "auto", "all by XLA": True}.items()
    }
    return [
        *_rows("shapes", _training_speeds(by_plan, steps, announce), "useful frames/s"),
        *_rows("XLA", _training_speeds(by_compiler, steps, announce), "useful frames/s"),
    ]


def _training_speeds(ways: dict[str, XTTSConfig], steps: int, announce: Announce) -> dict[str, list[float]]:
    """Useful frames per second of each way, round by round."""
    steps_of_round = max(COLD_STEPS + 3, steps // ROUNDS)
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    with contextlib.ExitStack() as stack:
        trainers = {}
        for name, config in ways.items():
            announce(f"Compiling, {name} ...")
            trainers[name] = stack.enter_context(trial_trainer(config))
            trainers[name].warm_up()
        for number in range(ROUNDS):
            announce(f"Training steps, round {number + 1} of {ROUNDS} ...")
            for name, trainer in trainers.items():
                speeds[name].append(_useful_frames_per_second(trainer, steps_of_round))
    return speeds


def _useful_frames_per_second(trainer: XTTSTrainer, steps: int) -> float:
    trial = run_trial(trainer, steps)
    plan = trainer.task.corpus.plan
    frames = plan.mean_clips_per_batch() * float(trainer.task.corpus.cache.frame_counts[plan.clips].mean())
    return frames * trainer.config.training.gradient_accumulation_steps / trial.summary.mean_seconds


def _rows(group: str, speeds: dict[str, list[float]], unit: str) -> list[ComparisonRow]:
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    first = next(iter(medians.values()))
    return [ComparisonRow(group, name, value, unit, value / first) for name, value in medians.items()]


def _clips_per_second(corpus: TrainingCorpus, data: DataConfig, seconds: float = 2.0) -> float:
    """Speed after the first two batches, measured for `seconds`."""
    with open_feed(corpus.cache, corpus.plan, data) as feed:
        for _ in range(2):
            next(feed)
        clips, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            clips += next(feed).mel.shape[0]
        return clips / (time.perf_counter() - start)


def _write_wavs(config: XTTSConfig, folder: Path) -> None:
    """Some usable clips of the corpus as 16-bit WAV at its rate, which all loaders can read, with their texts."""
    corpus = open_training_corpus(dataclasses.replace(config.data, preprocessing_mode="precompute"), config.training)
    paths = {one.id: one.path for one in read_corpus(config.data).utterances}
    chosen = corpus.plan.clips[corpus.plan.frame_counts <= FRAMES // 2][:CLIPS].tolist()
    clips = ((paths[str(corpus.cache.ids[clip])], str(corpus.cache.texts[clip])) for clip in chosen)
    write_wav_corpus(folder, clips, corpus.cache.mel.sample_rate)
