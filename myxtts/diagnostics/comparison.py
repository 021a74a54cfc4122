"""Before and after, in one run (`benchmark_gpu_utilization.py`, `myxtts benchmark`): loading, shapes, XLA, as ratios.

Loading: the same clips as 16-bit WAV through a Python function, through TensorFlow's ops on the fly, and from the cache, into
padded batches of the promised fixed shape. Shapes and XLA: real training steps, in useful frames a second. The ways take turns,
so that whatever else the machine does hits all of them.
"""

from __future__ import annotations

import dataclasses
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from myxtts.audio.files import load_clip, read_audio, write_audio
from myxtts.audio.mel import MelSpec, mel_numpy
from myxtts.config.config import XTTSConfig
from myxtts.data.feed import Feed
from myxtts.data.tf_native_loader import TFNativeDataLoader
from myxtts.diagnostics.trial import run_trial, trial_trainer
from myxtts.training.corpus import TrainingCorpus, open_corpus

ROUNDS = 3
CLIPS = 64
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
    """Clips a second into padded batches, by way of loading."""
    data = dataclasses.replace(config.data, pad_to_fixed_length=True, plan="fixed", use_tf_native_loading=True)
    corpus = open_corpus(data, config.training)
    spec, rows = corpus.cache.mel, corpus.plan.shapes[0].rows
    frames = corpus.plan.shapes[0].frames
    with tempfile.TemporaryDirectory(prefix="myxtts-loading-") as folder:
        paths = _write_wavs(corpus, config, Path(folder))
        ways: dict[str, Callable[[], Iterator[int]]] = {
            "Python function (numpy_function)": lambda: _dataset(
                paths, _python_loader(spec), rows, frames, spec.n_mels
            ),
            "TensorFlow ops on the fly": lambda: _dataset(paths, _native_loader(spec), rows, frames, spec.n_mels),
            "from the cache": lambda: _cached(corpus, data),
        }
        speeds: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(ROUNDS):
            announce(f"Loading, round {number + 1} of {ROUNDS} ...")
            for name, open_batches in ways.items():
                speeds[name].append(_clips_per_second(open_batches()))
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


def _clips_per_second(batches: Iterator[int], seconds: float = 2.0) -> float:
    """Speed after the first batch, for about so long."""
    next(batches)
    clips, start = 0, time.perf_counter()
    for count in batches:
        clips += count
        if time.perf_counter() - start > seconds:
            break
    return clips / (time.perf_counter() - start)


def _write_wavs(corpus: TrainingCorpus, config: XTTSConfig, folder: Path) -> list[str]:
    """Some clips of the corpus as 16-bit WAV at the mel's own rate, which all three ways can read."""
    paths = []
    sources = corpus.report.data_folder
    ids = [corpus.cache.ids[int(clip)] for clip in corpus.plan.clips[:CLIPS]]
    by_id = {
        path.stem: path
        for path in Path(sources).rglob("*.*")
        if path.suffix.lower() in (".wav", ".ogg", ".opus", ".flac")
    }
    for name in ids:
        source = by_id.get(Path(name).name)
        if source is None:
            continue
        target = folder / f"{len(paths)}.wav"
        write_audio(target, load_clip(source, config.data, corpus.cache.mel.sample_rate), corpus.cache.mel.sample_rate)
        paths.append(str(target))
    return paths


def _python_loader(spec: MelSpec) -> Callable[[tf.Tensor], tf.Tensor]:
    def load(path: bytes) -> np.ndarray:
        samples, _ = read_audio(path.decode())
        return mel_numpy(samples, spec).astype(np.float32)

    def in_graph(path: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(tf.numpy_function(load, [path], tf.float32), (None, spec.n_mels))

    return in_graph


def _native_loader(spec: MelSpec) -> Callable[[tf.Tensor], tf.Tensor]:
    loader = TFNativeDataLoader(spec)
    return lambda path: loader.load_and_process_audio(path)[1]


def _dataset(paths: list[str], load: Callable, rows: int, frames: int, n_mels: int) -> Iterator[int]:
    dataset = tf.data.Dataset.from_tensor_slices(paths).repeat()
    dataset = dataset.map(load, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.map(lambda mel: mel[:frames])
    dataset = dataset.padded_batch(rows, padded_shapes=(frames, n_mels), drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    return (rows for _ in dataset)


def _cached(corpus: TrainingCorpus, data: object) -> Iterator[int]:
    rows = corpus.plan.shapes[0].rows
    with Feed(corpus.cache, corpus.plan, data) as feed:
        for _ in itertools.islice(feed, 100_000):
            yield rows
