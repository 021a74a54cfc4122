"""Before and after, in one run (`benchmark_gpu_utilization.py`, `myxtts benchmark`): loading, shapes, XLA, as ratios.

Loading: the same clips as 16-bit WAV through a Python function, through TensorFlow's ops on the fly, and from the cache, into
padded batches of the promised fixed shape. Shapes and XLA: real training steps, in useful frames a second. The ways take turns,
so that whatever else the machine does hits all of them.
"""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import soundfile

from myxtts.config.config import DataConfig, XTTSConfig
from myxtts.data.feed import Feed
from myxtts.data.source import read_source
from myxtts.diagnostics.trial import run_trial, trial_trainer
from myxtts.training.corpus import TrainingCorpus, open_corpus

ROUNDS = 3
CLIPS = 200
FRAMES = 800
"""The promised fixed length."""
Announce = Callable[[str], None]


@dataclass(frozen=True)
class Row:
    """One way of doing it."""

    group: str
    name: str
    value: float
    unit: str
    ratio: float
    """To the first row of its group."""


def compare(config: XTTSConfig, steps: int, announce: Announce | None = None) -> list[Row]:
    """All rows of the table."""
    announce = announce or (lambda line: None)
    return [*compare_loading(config, announce), *compare_steps(config, steps, announce)]


def compare_loading(config: XTTSConfig, announce: Announce) -> list[Row]:
    """Clips a second into batches of the promised fixed shape, by way of loading: the loaders that training uses."""
    with tempfile.TemporaryDirectory(prefix="myxtts-loading-") as folder:
        _write_wavs(config.data, Path(folder) / "corpus")
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
        corpora = {name: open_corpus(way, config.training) for name, way in ways.items()}
        speeds: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(ROUNDS):
            announce(f"Loading, round {number + 1} of {ROUNDS} ...")
            for name, way in ways.items():
                speeds[name].append(_clips_per_second(corpora[name], way))
    return _rows("loading", speeds, "clips/s")


def compare_steps(config: XTTSConfig, steps: int, announce: Announce) -> list[Row]:
    """Useful frames a second of real training steps, by plan, and the default plan with and without XLA."""
    plans = {"one fixed shape": "fixed", "buckets": "buckets", "packed rows": "packed"}
    speeds: dict[str, list[float]] = {}
    for name, kind in plans.items():
        announce(f"Training steps, {name} ...")
        data = dataclasses.replace(config.data, plan=kind, pad_to_fixed_length=kind == "fixed", num_buckets=4)
        speeds[name] = [_useful_frames_per_second(dataclasses.replace(config, data=data), steps)]
    rows = _rows("shapes", speeds, "useful frames/s")
    speeds = {}
    for name, uses_xla in {"without XLA": False, "with XLA": True}.items():
        announce(f"Training steps, {name} ...")
        training = dataclasses.replace(config.training, enable_xla_compilation=uses_xla)
        speeds[name] = [_useful_frames_per_second(dataclasses.replace(config, training=training), steps)]
    return rows + _rows("XLA", speeds, "useful frames/s")


def _useful_frames_per_second(config: XTTSConfig, steps: int) -> float:
    with trial_trainer(config) as trainer:
        trainer.warm_up()
        trial = run_trial(trainer, steps)
        plan = trainer.corpus.plan
        useful = plan.useful_share() * statistics.mean(shape.rows * shape.frames for shape in plan.shapes)
        if len(plan.shapes) > 1:
            useful = plan.mean_clips_per_batch() * float(trainer.corpus.cache.frame_counts[plan.clips].mean())
        return useful * config.training.gradient_accumulation_steps / trial.summary.mean_seconds


def _rows(group: str, speeds: dict[str, list[float]], unit: str) -> list[Row]:
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    first = next(iter(medians.values()))
    return [Row(group, name, value, unit, value / first) for name, value in medians.items()]


def _clips_per_second(corpus: TrainingCorpus, data: DataConfig, seconds: float = 2.0) -> float:
    """Speed after the first two batches, for about so long."""
    with Feed(corpus.cache, corpus.plan, data) as feed:
        next(feed), next(feed)
        clips, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            clips += next(feed).mel.shape[0]
        return clips / (time.perf_counter() - start)


def _write_wavs(data: DataConfig, folder: Path) -> None:
    """Some clips of the corpus as 16-bit WAV at one rate, which all ways can read, with their texts."""
    (folder / "wavs").mkdir(parents=True)
    utterances = read_source(data).utterances
    rates = [soundfile.info(str(one.path)).samplerate for one in utterances[:CLIPS]]
    lines = []
    for one, rate in zip(utterances, rates, strict=False):
        samples, _ = soundfile.read(str(one.path), dtype="float32", always_2d=True)
        if rate != rates[0] or len(samples) > FRAMES * data.hop_length // 2:
            continue
        name = f"clip{len(lines):03d}"
        soundfile.write(folder / "wavs" / f"{name}.wav", samples.mean(axis=1), rate, subtype="PCM_16")
        lines.append(f"{name}|{one.text}")
    (folder / "metadata.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
