"""Looks every few milliseconds which line of the user's code the training thread is at, and twice a second at the machine."""

from __future__ import annotations

import sys
import threading
import time

from myxtts.diagnostics.observe.recording import MOST_RECORDS, Recording
from myxtts.diagnostics.observe.source_lines import SourceLocation, consumer_of_generator, location_of
from myxtts.runtime.machine import MachineSampler

LINE_INTERVAL_SECONDS = 0.005
MACHINE_INTERVAL_SECONDS = 0.5


class LineSampler:
    """A thread that writes (time, line) and machine samples into a recording until it is stopped."""

    def __init__(self, recording: Recording, thread: int):
        self._recording = recording
        self._watched_thread = thread
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
        recording, samples = self._recording, self._recording.line_samples
        machine = MachineSampler()
        recording.no_gpu_reason = machine.no_gpu_reason
        next_machine_sample = time.monotonic()
        while not self._stopping.wait(LINE_INTERVAL_SECONDS):
            now = time.perf_counter()
            frame = sys._current_frames().get(self._watched_thread)
            location = location_of(frame)
            index = self._indices.get(location)
            if index is None:
                index = self._indices[location] = len(recording.lines)
                recording.lines.append(location)
            consumer = consumer_of_generator(frame)
            del frame  # it would keep alive whatever the script's functions hold
            if consumer is not None:
                recording.add(recording.generator_samples, (now, index, consumer))
            if len(samples) < MOST_RECORDS:
                samples.append((now, index))
            if time.monotonic() >= next_machine_sample:
                next_machine_sample = time.monotonic() + MACHINE_INTERVAL_SECONDS
                recording.add(recording.machine_samples, (now, machine.sample()))
        machine.close()
