"""A thread that samples which line of the user's code the training thread is at, and twice a second the machine."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from myxtts.diagnostics.observe.recording import MOST_RECORDS, LineSample, Recording
from myxtts.diagnostics.observe.source_lines import SourceLocation, activity_of, consumer_of_generator, location_of

LINE_INTERVAL_SECONDS = 0.005
MOST_COST = 0.02
"""Fraction of the time that sampling may take: deep stacks are sampled less often."""
MACHINE_INTERVAL_SECONDS = 0.5


class LineSampler:
    """Writes line and machine samples into a recording between `start` and `stop`."""

    def __init__(self, recording: Recording, thread: int):
        self.watched_thread = thread
        self._recording = recording
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="diagnosis-sampler", daemon=True)
        self._indices: dict[SourceLocation, int] = {}

    def start(self) -> None:
        """Begin to sample."""
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait for the last sample."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        machine = _open_machine(self._recording)
        next_machine_sample = time.monotonic()
        pause = LINE_INTERVAL_SECONDS
        while not self._stopping.wait(pause):
            started = time.thread_time()
            self._sample_line()
            if machine is not None and time.monotonic() >= next_machine_sample:
                next_machine_sample = time.monotonic() + MACHINE_INTERVAL_SECONDS
                self._recording.add(self._recording.machine_samples, (time.perf_counter(), machine.sample()))
            pause = max(LINE_INTERVAL_SECONDS, (time.thread_time() - started) / MOST_COST)
        if machine is not None:
            machine.close()

    def _sample_line(self) -> None:
        recording, now = self._recording, time.perf_counter()
        frame = sys._current_frames().get(self.watched_thread)
        location = location_of(frame)
        index = self._indices.get(location)
        if index is None:
            index = self._indices[location] = len(recording.lines)
            recording.lines.append(location)
        consumer = consumer_of_generator(frame)
        activity = activity_of(frame)
        del frame  # it would keep alive whatever the script's functions hold
        if consumer is not None:
            recording.add(recording.generator_samples, (now, index, consumer))
        if len(recording.line_samples) < MOST_RECORDS:
            recording.line_samples.append(LineSample(now, index, activity))


def _open_machine(recording: Recording) -> Any:
    """The sampler of GPU, processor and memory; None where psutil is not installed."""
    try:
        from myxtts.runtime.machine import MachineSampler
    except ImportError:
        recording.no_gpu_reason = "No curves of the machine: psutil is not installed."
        return None
    machine = MachineSampler().open()
    recording.no_gpu_reason = machine.no_gpu_reason
    return machine
