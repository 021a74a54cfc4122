"""How much memory a trial takes: of the first GPU that trains, or of this process.

In: where a measurement begins. Out: the most bytes in use since then, beyond what was in use before the first trial.
"""

from __future__ import annotations

import contextlib
import gc
from pathlib import Path

import psutil
import tensorflow as tf

from myxtts.runtime.device import MachineSampler

GPU = "GPU:0"
BYTES_PER_KIB = 1024


class MemoryMeter:
    """One for all trials: what an earlier one has not given back yet is taken all the same, and is counted."""

    def __init__(self):
        self.free_bytes = free_memory_bytes()
        """Before the first trial."""
        self._before = _used_bytes()

    def begin_trial(self) -> None:
        """Forget the peak of the trial before."""
        gc.collect()
        if _has_gpu():
            tf.config.experimental.reset_memory_stats(GPU)
            return
        # Where the kernel does not allow it the peak is that of all trials so far: too high for this one, never too low.
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")

    def taken_bytes(self) -> int:
        """The most that was in use since `begin_trial`, beyond what was before the first trial."""
        return max(_peak_bytes() - self._before, 0)


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


def _peak_bytes() -> int:
    if _has_gpu():
        return tf.config.experimental.get_memory_info(GPU)["peak"]
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * BYTES_PER_KIB
    return _used_bytes()  # a kernel that does not tell the peak: what the trial holds at its end
