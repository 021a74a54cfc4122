"""How much memory a trial takes: of the first GPU that trains, or of this process.

A GPU counts its own peak. The memory of the process is sampled while the trial runs, which works on every platform: the peaks
that operating systems keep differ in their units, and most of them cannot be reset.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

import psutil
import tensorflow as tf

from myxtts.runtime.machine import MachineSampler

GPU = "GPU:0"
SAMPLE_SECONDS = 0.005
"""Time between two samples of the memory of the process. A step takes tenths of a second, a sample 0.07 ms."""


class MemoryMeter:
    """Measures several trials. Memory that an earlier trial has not released yet is in use, so it is counted."""

    def __init__(self):
        self.free_bytes = free_memory_bytes()
        """Before the first trial."""
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
        sampler = MachineSampler()
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
