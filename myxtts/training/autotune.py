"""`auto_tune_performance`: measure this machine at the start, choose what the user left to `auto`, remember the choice.

In: a configuration. Out: the same with numbers for loader threads, prefetch depth and (only with `batch_size: auto`) clips a
batch, and a line for each with its reason. Choosing is plain (`choose_loader`, `choose_batch_size`); measuring is a thin shell.
The choice lies beside the cache, for this machine, corpus and model; a value that the user gave is never replaced.
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

import psutil
import tensorflow as tf

from myxtts.batches.feed import open_feed
from myxtts.batches.plan import AUTOMATIC_BATCH_SIZE
from myxtts.config.config import XTTSConfig
from myxtts.models.xtts import XTTS
from myxtts.runtime.machine import MachineSampler, usable_cores
from myxtts.training.corpus import TrainingCorpus, open_corpus
from myxtts.training.hardware import Hardware
from myxtts.training.optimization import resolve_optimization
from myxtts.training.preflight import check_network
from myxtts.training.state import TrainState
from myxtts.training.steps import METRICS, Steps

# MERGED: How much memory a trial takes: of the first GPU that trains, or of this process.
#
# A GPU counts its own peak. The memory of the process is sampled while the trial runs, which works on every platform: the peaks
# that operating systems keep differ in their units, and most of them cannot be reset.

GPU = "GPU:0"
SAMPLE_SECONDS = 0.005
"""Between two looks at the memory of the process. A step takes tenths of a second, a look 0.07 ms."""


class MemoryMeter:
    """One for all trials: what an earlier trial has not given back yet is taken all the same, and is counted."""

    def __init__(self):
        self.free_bytes = free_memory_bytes()
        """Before the first trial."""
        self.taken_bytes = 0
        """The most that the last trial had in use, beyond what was in use before the first trial."""
        self._before = _used_bytes()

    @contextlib.contextmanager
    def trial(self) -> Iterator[None]:
        """Measure what happens inside; then `taken_bytes` is set."""
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
    """The largest resident memory of this process that a thread sees while inside."""

    def __init__(self):
        self.peak_bytes = 0
        self._process = psutil.Process()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="memory-sampler", daemon=True)

    def __enter__(self) -> _PeakSampler:
        self._look()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._look()

    def _sample(self) -> None:
        while not self._is_over.wait(SAMPLE_SECONDS):
            self._look()

    def _look(self) -> None:
        self.peak_bytes = max(self.peak_bytes, self._process.memory_info().rss)


def free_memory_bytes() -> int:
    """Of the first GPU that trains, or of the machine."""
    if _has_gpu():
        sampler = MachineSampler().open()
        gpus = sampler.sample().gpus
        sampler.close()
        if gpus:
            return gpus[0].memory_total_bytes - gpus[0].memory_used_bytes
    return psutil.virtual_memory().available


def _has_gpu() -> bool:
    return bool(tf.config.list_logical_devices("GPU"))


def _used_bytes() -> int:
    if _has_gpu():
        return tf.config.experimental.get_memory_info(GPU)["current"]
    return psutil.Process().memory_info().rss


FILE_NAME = "tuning.json"
GOOD_ENOUGH = 0.9
"""Fewer threads, and smaller batches, are taken if they reach this share of the fastest."""
MEMORY_SHARE = 0.8
"""Of the memory that is free at the start, a batch may take this much."""
BATCH_SIZES = (4, 8, 16, 32, 64, 128)
PREFETCH_RANGE = (2, 16)
MEASURED_BATCHES = 40
MEASURED_SECONDS = 1.0
MEASURED_STEPS = 4


@dataclass(frozen=True)
class LoaderTrial:
    """The loader with some threads."""

    threads: int
    median_seconds: float
    """Of one batch."""
    slowest_seconds: float


@dataclass(frozen=True)
class StepTrial:
    """Training with some clips a batch."""

    batch_size: int
    useful_frames_per_second: float
    memory_bytes: int | None
    """The most that the process or the device took beyond what it held before the first trial; None if it ran out."""


@dataclass(frozen=True)
class Choice:
    """What was chosen, and why; one reason a line."""

    num_workers: int
    prefetch_buffer_size: int
    batch_size: int | None
    reasons: list[str]


def choose_loader(trials: Sequence[LoaderTrial]) -> tuple[int, int, str]:
    """Threads, batches kept ready, and the reason."""
    fastest = min(trial.median_seconds for trial in trials)
    chosen = min(
        (trial for trial in trials if fastest >= GOOD_ENOUGH * trial.median_seconds), key=lambda trial: trial.threads
    )
    wanted = math.ceil(chosen.slowest_seconds / max(chosen.median_seconds, 1e-9))
    depth = min(max(wanted, PREFETCH_RANGE[0]), PREFETCH_RANGE[1])
    measured = ", ".join(f"{trial.threads}: {1e3 * trial.median_seconds:.2f} ms" for trial in trials)
    named = "thread" if chosen.threads == 1 else "threads"
    reason = (
        f"{chosen.threads} loader {named} (a batch by threads: {measured}), {depth} batches kept ready (the slowest batch took "
        f"{1e3 * chosen.slowest_seconds:.2f} ms)"
    )
    return chosen.threads, depth, reason


def choose_batch_size(trials: Sequence[StepTrial], free_bytes: int) -> tuple[int, str]:
    """The smallest batch that is nearly as fast as the fastest one that fits into the memory, and the reason."""
    fitting = [
        trial for trial in trials if trial.memory_bytes is not None and trial.memory_bytes <= MEMORY_SHARE * free_bytes
    ]
    if not fitting:
        smallest = min(trial.batch_size for trial in trials)
        return smallest, f"{smallest} clips a batch: even that takes more than {MEMORY_SHARE:.0%} of the free memory"
    fastest = max(trial.useful_frames_per_second for trial in fitting)
    chosen = min(
        (trial for trial in fitting if trial.useful_frames_per_second >= GOOD_ENOUGH * fastest),
        key=lambda trial: trial.batch_size,
    )
    measured = ", ".join(
        f"{trial.batch_size}: "
        + (
            "out of memory"
            if trial.memory_bytes is None
            else f"{trial.useful_frames_per_second:,.0f} frames/s, {trial.memory_bytes / 2**20:,.0f} MiB"
        )
        for trial in trials
    )
    return chosen.batch_size, f"{chosen.batch_size} clips a batch ({measured}; {free_bytes / 2**20:,.0f} MiB were free)"


def is_worth_trying_more(trials: Sequence[StepTrial], free_bytes: int) -> bool:
    """Whether a batch twice as large may be faster and still fit."""
    last = trials[-1]
    if last.memory_bytes is None or 2 * last.memory_bytes > MEMORY_SHARE * free_bytes:
        return False
    return len(trials) < 2 or last.useful_frames_per_second * GOOD_ENOUGH > trials[-2].useful_frames_per_second


def open_tuned_corpus(
    config: XTTSConfig,
    hardware: Hardware,
    announce: Callable[[str], None],
    progress: Callable[[str, int, int], None] | None = None,
) -> tuple[XTTSConfig, TrainingCorpus]:
    """The corpus of a run; with `auto_tune_performance` also the configuration with what was measured for it.

    A network that cannot be built, or that a packed row does not suit, is refused before anything is prepared.
    """
    check_network(config)

    def opened(batch_size: int | None = None) -> TrainingCorpus:
        told = announce if batch_size is None else None
        return open_corpus(
            config.data, config.training, hardware.replicas, progress=progress, announce=told, batch_size=batch_size
        )

    corpus = hardware.in_turn(opened)
    if not config.data.auto_tune_performance:
        if config.data.batch_size == "auto":
            announce(f"data.batch_size: auto is {AUTOMATIC_BATCH_SIZE} clips a batch; with --auto-tune it is measured.")
        return config, corpus
    tuned = tune(config, corpus, hardware, announce, opened)
    if config.data.batch_size == "auto":
        corpus = hardware.in_turn(lambda: opened(tuned.data.batch_size))
    return tuned, corpus


def tune(
    config: XTTSConfig,
    corpus: TrainingCorpus,
    hardware: Hardware,
    announce: Callable[[str], None],
    reopen: Callable[[int], TrainingCorpus],
) -> XTTSConfig:
    """The configuration with what was `auto` chosen by measurement. `reopen` gives the corpus with another batch size."""
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
    choice = _remembered(folder / FILE_NAME).get(key)
    if choice is not None:
        choice = Choice(**choice)
        announce(f"Performance settings as measured before ({folder / FILE_NAME}):")
    else:
        announce("Measuring the performance of this machine, once for this corpus and model.")
        choice = _measured(config, corpus, hardware, reopen)
        _remember(folder / FILE_NAME, key, choice)
    for reason in choice.reasons:
        announce(f"  {reason}")
    changes = {"num_workers": choice.num_workers, "prefetch_buffer_size": choice.prefetch_buffer_size}
    if data.batch_size == "auto":
        changes["batch_size"] = choice.batch_size
    return dataclasses.replace(config, data=dataclasses.replace(data, **changes))


def _measured(
    config: XTTSConfig, corpus: TrainingCorpus, hardware: Hardware, reopen: Callable[[int], TrainingCorpus]
) -> Choice:
    data, reasons, batch_size = config.data, [], None
    if data.batch_size == "auto" and hardware.cluster is not None:
        batch_size = AUTOMATIC_BATCH_SIZE
        reasons.append(f"{batch_size} clips a batch: not measured, because all workers need the same")
    elif data.batch_size == "auto":
        memory = MemoryMeter()
        trials: list[StepTrial] = []
        for size in BATCH_SIZES:
            if size % hardware.replicas:
                continue
            trials.append(time_steps(config, hardware, reopen(size), size, memory))
            if not is_worth_trying_more(trials, memory.free_bytes):
                break
        batch_size, reason = choose_batch_size(trials, memory.free_bytes)
        reasons.append(reason)
        corpus = reopen(batch_size)
    if data.num_workers == "auto" or data.prefetch_buffer_size == "auto":
        threads = _thread_counts() if data.num_workers == "auto" else [data.num_workers]
        workers, depth, reason = choose_loader([time_loader(config, corpus, count) for count in threads])
        reasons.append(reason)
    workers = workers if data.num_workers == "auto" else data.num_workers
    depth = depth if data.prefetch_buffer_size == "auto" else data.prefetch_buffer_size
    return Choice(workers, depth, batch_size, reasons)


def time_loader(config: XTTSConfig, corpus: TrainingCorpus, threads: int) -> LoaderTrial:
    """How long batches take with a number of threads and nothing else to do."""
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
    strategy = hardware.strategy if hardware.replicas > 1 else None
    frames = 0.0
    try:
        with memory.trial(), open_feed(corpus.cache, corpus.plan, config.data, strategy=strategy) as feed:
            steps = _steps_to_throw_away(config, hardware, corpus)
            for shape in corpus.plan.shapes if corpus.plan.is_static else ():
                steps.warm_up(steps.train, shape)
            steps.learn([next(feed)]).numpy()
            started = time.perf_counter()
            for _ in range(MEASURED_STEPS):
                frames += float(steps.learn([next(feed)]).numpy()[METRICS.index("frames")])
            seconds = time.perf_counter() - started
    except tf.errors.ResourceExhaustedError:
        return StepTrial(batch_size, 0.0, None)
    return StepTrial(batch_size, frames / seconds, memory.taken_bytes)


def _steps_to_throw_away(config: XTTSConfig, hardware: Hardware, corpus: TrainingCorpus) -> Steps:
    settings = resolve_optimization(config.training, config.model.size, 1000)
    with hardware.strategy.scope():
        model = XTTS(corpus.model_spec(config.model), dtype=hardware.dtype_policy)
        model.build()
        state = TrainState(model, settings.ema_decay > 0, hardware.uses_loss_scale)
    return Steps(
        state, settings, seed=0, strategy=hardware.strategy, uses_xla=hardware.uses_xla, graph_mode=hardware.graph_mode
    )


def machine_facts() -> dict[str, object]:
    """What makes a measurement valid: another machine measures anew."""
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
    beside = path.with_suffix(f".{os.getpid()}.new")
    beside.write_text(json.dumps(_remembered(path) | {key: asdict(choice)}, indent=1), encoding="utf-8")
    os.replace(beside, path)
