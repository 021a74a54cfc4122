"""`auto_tune_performance`: measure this machine at the start, choose what the user left to `auto`, store the choice.

It measures loader threads, prefetch depth and (only with `batch_size: auto`) clips per batch; each choice is printed with its
reason. Choosing is plain (`choose_loader`, `choose_batch_size`). The choice is stored next to the cache, for this machine,
corpus and model. A value that the user gave is never replaced.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import hashlib
import json
import math
import os
import platform
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import tensorflow as tf

from myxtts.batches.feed import open_feed
from myxtts.batches.plan import AUTOMATIC_BATCH_SIZE
from myxtts.config.config import XTTSConfig
from myxtts.runtime.machine import MachineSampler, usable_cores
from myxtts.runtime.safe_files import write_atomically
from myxtts.runtime.timers import StepClock
from myxtts.training.hardware import Hardware
from myxtts.training.loop import take_steps
from myxtts.training.steps import METRICS
from myxtts.training.training_corpus import TrainingCorpus
from myxtts.training.voice_task import build_voice_task

FILE_NAME = "tuning.json"
GOOD_ENOUGH = 0.9
"""Fewer threads, and smaller batches, are chosen if they reach this fraction of the fastest. Chosen; not measured."""
MEMORY_FRACTION = 0.8
"""A batch may take this fraction of the memory that is free at the start. Chosen; not measured."""
BATCH_SIZES = (4, 8, 16, 32, 64, 128)
"""Clips per batch that are tried, until the memory or the gain ends."""
PREFETCH_RANGE = (2, 16)
"""Fewest and most batches to prefetch. Chosen; not measured."""
MEASURED_BATCHES = 40
MEASURED_SECONDS = 1.0
"""Batches per trial of the loader, and its longest time. Chosen; not measured."""
COLD_STEPS = 2
"""Steps before those that count: the first one, and the one that waits for it; they also fill caches of the allocator and the
processor. `myxtts.diagnostics.trainer_diagnosis` reports them separately."""
MEASURED_STEPS = 4
"""Steps per trial of a batch size. Chosen; not measured."""


@dataclass(frozen=True)
class LoaderTrial:
    """A measurement of the loader with a number of threads."""

    threads: int
    median_seconds: float
    """Median time of one batch."""
    slowest_seconds: float


@dataclass(frozen=True)
class StepTrial:
    """A measurement of training with a number of clips per batch."""

    batch_size: int
    useful_frames_per_second: float
    memory_bytes: int | None
    """Peak of the process or the device beyond what was in use before the first trial; None if it ran out of memory."""

    def __str__(self) -> str:
        if self.memory_bytes is None:
            return f"{self.batch_size}: out of memory"
        return f"{self.batch_size}: {self.useful_frames_per_second:,.0f} frames/s, {self.memory_bytes / 2**20:,.0f} MiB"


@dataclass(frozen=True)
class Choice:
    """What was chosen, and why; one reason per line."""

    num_workers: int
    prefetch_buffer_size: int
    batch_size: int | None
    reasons: list[str]


def choose_loader(trials: Sequence[LoaderTrial]) -> tuple[int, int, str]:
    """Loader threads, batches to prefetch, and the reason."""
    fastest = min(trial.median_seconds for trial in trials)
    chosen = min(
        (trial for trial in trials if fastest >= GOOD_ENOUGH * trial.median_seconds), key=lambda trial: trial.threads
    )
    wanted = math.ceil(chosen.slowest_seconds / max(chosen.median_seconds, 1e-9))
    depth = min(max(wanted, PREFETCH_RANGE[0]), PREFETCH_RANGE[1])
    measured = ", ".join(f"{trial.threads}: {1e3 * trial.median_seconds:.2f} ms" for trial in trials)
    named = "thread" if chosen.threads == 1 else "threads"
    reason = (
        f"{chosen.threads} loader {named} (time per batch by threads: {measured}), {depth} batches prefetched (the slowest batch "
        f"took {1e3 * chosen.slowest_seconds:.2f} ms)"
    )
    return chosen.threads, depth, reason


def choose_batch_size(trials: Sequence[StepTrial], free_bytes: int) -> tuple[int, str]:
    """The smallest batch that is nearly as fast as the fastest one that fits into memory, and the reason."""
    fitting = [
        trial
        for trial in trials
        if trial.memory_bytes is not None and trial.memory_bytes <= MEMORY_FRACTION * free_bytes
    ]
    if not fitting:
        smallest = min(trial.batch_size for trial in trials)
        return (
            smallest,
            f"{smallest} clips per batch: even that takes more than {MEMORY_FRACTION:.0%} of the free memory",
        )
    fastest = max(trial.useful_frames_per_second for trial in fitting)
    chosen = min(
        (trial for trial in fitting if trial.useful_frames_per_second >= GOOD_ENOUGH * fastest),
        key=lambda trial: trial.batch_size,
    )
    measured = ", ".join(str(trial) for trial in trials)
    return (
        chosen.batch_size,
        f"{chosen.batch_size} clips per batch ({measured}; {free_bytes / 2**20:,.0f} MiB were free)",
    )


def is_worth_trying_more(trials: Sequence[StepTrial], free_bytes: int) -> bool:
    """Whether a batch twice as large may be faster and still fit into memory."""
    last = trials[-1]
    if last.memory_bytes is None or 2 * last.memory_bytes > MEMORY_FRACTION * free_bytes:
        return False
    return len(trials) < 2 or last.useful_frames_per_second * GOOD_ENOUGH > trials[-2].useful_frames_per_second


def tune(
    config: XTTSConfig,
    corpus: TrainingCorpus,
    hardware: Hardware,
    announce: Callable[[str], None],
    reopen: Callable[[int], TrainingCorpus],
) -> tuple[XTTSConfig, TrainingCorpus]:
    """The configuration with what was `auto` chosen by measurement, and the corpus planned for it.

    Args:
        reopen: gives the corpus planned for another batch size.
    """
    data = config.data
    folder = Path(config.training.checkpoint_dir)
    if corpus.report is not None and os.access(corpus.cache.folder.parent, os.W_OK):
        folder = corpus.cache.folder.parent
    facts = machine_facts() | {
        "corpus": corpus.cache.content_id,
        "model": dataclasses.asdict(config.model),
        "data": dataclasses.asdict(data),
        "training": [config.training.device, config.training.mixed_precision, config.training.threads],
        "replicas": hardware.replicas,
    }
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
    remembered = _remembered(folder / FILE_NAME).get(key)
    if remembered is not None:
        choice = Choice(**remembered)
        announce(f"Performance settings as measured before ({folder / FILE_NAME}):")
    else:
        announce("Measuring the performance of this machine, once for this corpus and model.")
        choice = _measure(config, corpus, hardware, reopen)
        _remember(folder / FILE_NAME, key, choice)
    for reason in choice.reasons:
        announce(f"  {reason}")
    changes: dict[str, Any] = {
        "num_workers": choice.num_workers,
        "prefetch_buffer_size": choice.prefetch_buffer_size,
    }
    if data.batch_size == "auto" and choice.batch_size is not None:
        changes["batch_size"] = choice.batch_size
        corpus = hardware.in_turn(lambda: reopen(changes["batch_size"]))
    return dataclasses.replace(config, data=dataclasses.replace(data, **changes)), corpus


def _measure(
    config: XTTSConfig, corpus: TrainingCorpus, hardware: Hardware, reopen: Callable[[int], TrainingCorpus]
) -> Choice:
    reasons, batch_size = [], None
    if config.data.batch_size == "auto":
        batch_size, reason = _measure_batch_size(config, hardware, reopen)
        reasons.append(reason)
        corpus = reopen(batch_size)
    workers, depth = config.data.num_workers, config.data.prefetch_buffer_size
    if workers == "auto" or depth == "auto":
        threads = _thread_counts() if workers == "auto" else [workers]
        chosen = choose_loader([time_loader(config, corpus, count) for count in threads])
        workers = chosen[0] if workers == "auto" else workers
        depth = chosen[1] if depth == "auto" else depth
        reasons.append(chosen[2])
    return Choice(workers, depth, batch_size, reasons)


def _measure_batch_size(
    config: XTTSConfig, hardware: Hardware, reopen: Callable[[int], TrainingCorpus]
) -> tuple[int, str]:
    if hardware.cluster is not None:
        size = int(AUTOMATIC_BATCH_SIZE)
        return size, f"{size} clips per batch: not measured, because all workers need the same"
    memory = MemoryMeter()
    trials: list[StepTrial] = []
    for size in BATCH_SIZES:
        if size % hardware.replicas:
            continue
        trials.append(time_steps(config, hardware, reopen(size), size, memory))
        if not is_worth_trying_more(trials, memory.free_bytes):
            break
    return choose_batch_size(trials, memory.free_bytes)


def time_loader(config: XTTSConfig, corpus: TrainingCorpus, threads: int) -> LoaderTrial:
    """How long batches take with a number of threads, without training."""
    data = dataclasses.replace(config.data, num_workers=threads, prefetch_buffer_size=1)
    seconds: list[float] = []
    with open_feed(corpus.cache, corpus.plan, data) as feed:
        for _ in range(3):  # the first ones open files
            next(feed)
        begun = time.perf_counter()
        while len(seconds) < MEASURED_BATCHES and (len(seconds) < 5 or time.perf_counter() - begun < MEASURED_SECONDS):
            started = time.perf_counter()
            next(feed)
            seconds.append(time.perf_counter() - started)
    ordered = sorted(seconds)
    return LoaderTrial(threads, ordered[len(ordered) // 2], ordered[-1])


def time_steps(
    config: XTTSConfig, hardware: Hardware, corpus: TrainingCorpus, batch_size: int, memory: MemoryMeter
) -> StepTrial:
    """A few real steps of a network that is thrown away: useful frames/s, and the memory that they took."""
    single = dataclasses.replace(config.training, gradient_accumulation_steps=1)
    config = dataclasses.replace(config, training=single)
    clock, frames = StepClock(), []
    try:
        with memory.trial(), open_feed(corpus.cache, corpus.plan, config.data, strategy=hardware.data_strategy) as feed:
            task = build_voice_task(config, hardware, corpus, feed)
            for shape in corpus.plan.shapes if corpus.plan.is_static else ():
                task.steps.warm_up(task.steps.train, shape)
            for taken in take_steps(task, clock, COLD_STEPS + MEASURED_STEPS):
                if taken.finished is not None:
                    frames.append(float(taken.finished[METRICS.index("frames")]))
                clock.finish()
    except tf.errors.ResourceExhaustedError:
        return StepTrial(batch_size, 0.0, None)
    seconds = float(clock.recent(last=MEASURED_STEPS).sum())
    return StepTrial(batch_size, float(np.sum(frames[-MEASURED_STEPS:])) / seconds, memory.taken_bytes)


def machine_facts() -> dict[str, object]:
    """What a measurement depends on: another machine measures again."""
    return {
        "cpus": usable_cores(),
        "processor": platform.processor() or platform.machine(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "gpus": [
            tf.config.experimental.get_device_details(gpu).get("device_name", "GPU")
            for gpu in tf.config.list_physical_devices("GPU")
        ],
    }


def _thread_counts() -> list[int]:
    cores = usable_cores()
    return sorted({1, 2, 4, 8, cores} & set(range(1, cores + 1)))


def _remembered(path: Path) -> dict[str, dict]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}  # nothing was measured yet, or the file is torn: measure again


def _remember(path: Path, key: str, choice: Choice) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(_remembered(path) | {key: asdict(choice)}, indent=1))


GPU = "GPU:0"
SAMPLE_SECONDS = 0.005
"""Time between two samples of the memory of the process. A step takes tenths of a second, a sample 0.07 ms."""


class MemoryMeter:
    """Measures several trials. Memory that an earlier trial has not released yet is in use, so it is counted."""

    def __init__(self):
        self.free_bytes = free_memory_bytes()
        """Free memory before the first trial."""
        self.taken_bytes = 0
        """Peak of the last trial, beyond what was in use before the first trial."""
        self._before = _used_bytes()

    @contextlib.contextmanager
    def trial(self) -> Iterator[None]:
        """Measure the block; afterwards `taken_bytes` is set."""
        gc.collect()
        if _has_gpu():
            tf.config.experimental.reset_memory_stats(GPU)
            yield
            peak = tf.config.experimental.get_memory_info(GPU)["peak"]
        else:
            with _PeakSampler() as sampler:
                yield
            peak = sampler.peak_bytes
        self.taken_bytes = max(peak - self._before, 0)


class _PeakSampler:
    """The largest resident memory of this process that a thread samples while inside."""

    def __init__(self):
        self.peak_bytes = 0
        self._process = psutil.Process()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="memory-sampler", daemon=True)

    def __enter__(self) -> _PeakSampler:
        self._measure()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._measure()

    def _sample(self) -> None:
        while not self._is_over.wait(SAMPLE_SECONDS):
            self._measure()

    def _measure(self) -> None:
        self.peak_bytes = max(self.peak_bytes, self._process.memory_info().rss)


def free_memory_bytes() -> int:
    """Of the first GPU that trains, or of the machine."""
    if _has_gpu():
        with MachineSampler() as sampler:
            gpus = sampler.sample().gpus
        if gpus:
            return gpus[0].memory_total_bytes - gpus[0].memory_used_bytes
    return psutil.virtual_memory().available


def _has_gpu() -> bool:
    return bool(tf.config.list_logical_devices("GPU"))


def _used_bytes() -> int:
    if _has_gpu():
        return tf.config.experimental.get_memory_info(GPU)["current"]
    return psutil.Process().memory_info().rss
