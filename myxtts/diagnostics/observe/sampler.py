"""A thread that samples the user's line and the machine, and a meter of other work: a busy machine makes times longer."""

from __future__ import annotations

import gc
import os
import random
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from myxtts.diagnostics.observe.recording import MOST_RECORDS, LineSample, Recording
from myxtts.diagnostics.observe.source_lines import (
    SourceLocation,
    activity_of,
    callers_of,
    consumer_of_generator,
    location_of,
    waits_inside_framework,
)

LINE_INTERVAL_SECONDS = 0.005
"""Mean interval. The pauses have random lengths: steps of 1.3 or 2.5 ms would meet regular ones at the same line every time."""
FIRST_INTERVAL_SECONDS = 0.0015
FIRST_CALLS = 300
"""The first steps are sampled more often: a training of 100 steps of 1 ms would be seen 20 times otherwise."""
SWITCH_SECONDS = 0.0003
"""Python's threads take turns every 5 ms, or where one waits. Steps of a few milliseconds would be seen only at the lines that
wait, which are those that call TensorFlow."""
WAKING_SECONDS = 0.00015
"""A thread that need not wait for another one runs again within this time after its pause."""
MOST_COST = 0.02
"""Fraction of the time that sampling may take: deep stacks are sampled less often."""
MACHINE_INTERVAL_SECONDS = 0.5
PROCESSOR_INTERVAL_SECONDS = 0.05


class LineSampler:
    """Writes line and machine samples into a recording between `start` and `stop`."""

    def __init__(self, recording: Recording, thread: int):
        self.watched_thread = thread
        self._recording = recording
        self._is_stopping = False
        self._next_processor_sample = self._next_machine_sample = 0.0
        self._thread = threading.Thread(target=self._run, name="diagnosis-sampler", daemon=True)
        self._indices: dict[SourceLocation, int] = {}
        self._switch_seconds = sys.getswitchinterval()

    def start(self) -> None:
        """Begin to sample."""
        sys.setswitchinterval(min(self._switch_seconds, SWITCH_SECONDS))
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait for the last sample."""
        self._is_stopping = True
        self._thread.join()
        self.restore_switching()

    def restore_switching(self) -> None:
        """Let threads take turns as before, unless the script has set that itself."""
        if abs(sys.getswitchinterval() - SWITCH_SECONDS) < 1e-6:
            sys.setswitchinterval(self._switch_seconds)

    def _run(self) -> None:
        """Sample until stopped, without garbage collection in this thread: the script's objects are destroyed in its own threads.

        TensorFlow's graphs wait for a lock while they are destroyed. The training thread may hold that lock and wait for this
        thread to let it run: then both would wait forever. So nothing that could start a collection is made outside of the
        samples (no context manager, no event to wait for).
        """
        lengths, usual = random.Random(0), LINE_INTERVAL_SECONDS
        machine, is_open = None, False
        while True:
            pause = (FIRST_INTERVAL_SECONDS if self._is_at_first_steps() else usual) * lengths.uniform(0.5, 1.5)
            due = time.perf_counter() + pause
            time.sleep(pause)
            woke = time.perf_counter()
            processor = time.thread_time()
            was_enabled = gc.isenabled()
            gc.disable()
            try:
                if self._is_stopping:
                    break
                if not is_open:
                    machine, is_open = _open_machine(self._recording), True
                started = time.thread_time()
                self._sample_line(woke, woke - due)
                self._sample_machine(machine)
                now = time.thread_time()
                self._recording.add(self._recording.sampler_spans, (woke, woke + now - processor))
                usual = max(LINE_INTERVAL_SECONDS, (now - started) / MOST_COST)
            finally:
                if was_enabled:
                    gc.enable()
        if machine is not None:
            machine.close()

    def _sample_machine(self, machine: Any) -> None:
        recording, now = self._recording, time.perf_counter()
        if now >= self._next_processor_sample:
            self._next_processor_sample = now + PROCESSOR_INTERVAL_SECONDS
            recording.add(recording.processor_samples, (now, time.process_time()))
        if machine is not None and now >= self._next_machine_sample:
            self._next_machine_sample = now + MACHINE_INTERVAL_SECONDS
            recording.add(recording.machine_samples, (now, machine.sample()))

    def _is_at_first_steps(self) -> bool:
        return 0 < len(self._recording.calls) < FIRST_CALLS

    def _sample_line(self, now: float, late_seconds: float) -> None:
        recording = self._recording
        frame = sys._current_frames().get(self.watched_thread)
        index = self._index_of(location_of(frame))
        callers = tuple(self._index_of(location) for location in callers_of(frame))
        consumer = consumer_of_generator(frame)
        activity = activity_of(frame)
        prompt = is_prompt(late_seconds, is_waiting=waits_inside_framework(frame))
        del frame  # it would keep alive whatever the script's functions hold
        if consumer is not None:
            recording.add(recording.generator_samples, (now, index, consumer))
        if len(recording.line_samples) < MOST_RECORDS:
            recording.line_samples.append(LineSample(now, index, activity, callers, prompt))

    def _index_of(self, location: SourceLocation) -> int:
        index = self._indices.get(location)
        if index is None:
            index = self._indices[location] = len(self._recording.lines)
            self._recording.lines.append(location)
        return index


def is_prompt(late_seconds: float, is_waiting: bool) -> bool:
    """Whether a sample that came so late after it was due shows a line at which the training thread spends its time.

    If the training thread waits for something, the sample comes at once. If it runs Python, it is made to stop after
    `SWITCH_SECONDS`, at the line where it is. A sample in between came because the thread began to wait by itself: it shows that
    the line was an earlier one, not which. So does one that comes later, for lack of a processor, and finds the thread in a call
    of TensorFlow, which lets other threads run. Counting those would move the time of short Python to the next such call.

    Args:
        late_seconds: After the sample was due.
        is_waiting: The thread is in a call of a framework that may let other threads run.
    """
    return late_seconds <= WAKING_SECONDS or (late_seconds >= 1.25 * SWITCH_SECONDS and not is_waiting)


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


BUSY_FRACTION = 0.2
"""Fraction of the processor time used by other processes and virtual machines above which times are called uncertain."""
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


@dataclass(frozen=True)
class MachineLoad:
    """Fractions of the processor time of all cores together."""

    others: float | None
    """Used by other processes; None where the system does not report it."""
    steal: float | None
    """Taken by the hypervisor for other virtual machines."""
    load_average: float | None
    """Processes that wanted to run, over the last minute."""

    @property
    def is_busy(self) -> bool:
        """Whether times measured under this load are uncertain."""
        return (self.others or 0.0) + (self.steal or 0.0) > BUSY_FRACTION


class LoadMeter:
    """Measures the load between its construction and `read`."""

    def __init__(self) -> None:
        self._before = _processor_seconds()
        self._own_before, self._started_at = _own_seconds(), time.monotonic()

    def read(self) -> MachineLoad:
        """The load since the construction."""
        average = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        after = _processor_seconds()
        if self._before is None or after is None:
            return MachineLoad(None, None, average)
        whole = max((time.monotonic() - self._started_at) * (os.cpu_count() or 1), 1e-6)
        busy, steal = after[0] - self._before[0], after[1] - self._before[1]
        others = max(busy - (_own_seconds() - self._own_before), 0.0)
        return MachineLoad(min(others / whole, 1.0), min(steal / whole, 1.0), average)


def _processor_seconds() -> tuple[float, float] | None:
    """(busy, stolen) seconds of all cores since the start of the machine; None where Linux does not count them."""
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    except OSError:
        return None
    user, nice, system, _, _, irq, softirq, steal = (int(value) / _TICKS for value in fields[:8])
    return user + nice + system + irq + softirq, steal


def _own_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
