"""Monitors the device and a running training: live readings and lines of CSV (`gpu_monitor.py`, `myxtts monitor`)."""

from __future__ import annotations

import contextlib
import csv
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from myxtts.errors import DiagnosisError
from myxtts.runtime.machine import MachineSample, MachineSampler
from myxtts.runtime.safe_files import check_regular_file
from myxtts.runtime.status import RunStatus, read_status, read_steps

CSV_COLUMNS = (
    "unix_seconds", "gpu", "gpu_percent", "gpu_memory_mb", "gpu_memory_total_mb", "gpu_watts", "gpu_clock_mhz",
    "gpu_celsius", "throttled_by", "cpu_percent", "process_cpu_percent", "process_rss_mb", "disk_read_mb_per_second",
    "run_state", "run_step", "busy_percent", "wait_percent", "step_seconds", "retraces",
)  # fmt: skip
RECENT_SECONDS = 10.0
"""The trainer's busy fraction is measured over its steps of this many seconds."""


@dataclass(frozen=True)
class MonitorReading:
    """The machine and the run at one moment."""

    machine: MachineSample
    status: RunStatus | None
    is_running: bool
    busy_fraction: float | None
    """Fraction of the recent time in which a step ran, from the trainer's own clock; None without a run."""
    wait_fraction: float | None
    step_seconds: float | None


def readings(
    duration_seconds: float | None,
    interval_seconds: float = 1.0,
    run: str | Path | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[MonitorReading]:
    """One reading per interval, until the duration is over, or forever without one."""
    if interval_seconds <= 0:
        raise DiagnosisError(f"The interval must be more than 0 seconds. Received: {interval_seconds}.")
    status = read_status(run) if run is not None else None
    sampler = MachineSampler(status.process_id if status is not None and status.is_running() else None).open()
    end = None if duration_seconds is None else time.monotonic() + duration_seconds
    try:
        while end is None or time.monotonic() < end:
            sleep(interval_seconds)
            yield _reading(sampler.sample(), run)
    finally:
        sampler.close()


def why_no_gpu() -> str | None:
    """One sentence if no GPU can be monitored."""
    sampler = MachineSampler().open()
    reason = sampler.no_gpu_reason
    sampler.close()
    return reason


def _reading(machine: MachineSample, run: str | Path | None) -> MonitorReading:
    if run is None:
        return MonitorReading(machine, None, False, None, None, None)
    status = read_status(run)
    steps = read_steps(run, last=2000)
    steps = steps[steps["unix_seconds"] > machine.unix_seconds - RECENT_SECONDS] if len(steps) else steps
    if len(steps) == 0:
        return MonitorReading(machine, status, status.is_running(), 0.0, 0.0, None)
    whole = steps["wait_seconds"] + steps["host_seconds"] + steps["device_seconds"]
    total = max(float(whole.sum()), 1e-9)
    busy, wait = float(steps["device_seconds"].sum()) / total, float(steps["wait_seconds"].sum()) / total
    return MonitorReading(machine, status, status.is_running(), busy, wait, float(whole.mean()))


def reading_rows(reading: MonitorReading) -> list[list[str]]:
    """Rows of CSV: one for each GPU, or one without."""
    machine, status = reading.machine, reading.status
    rest = [
        f"{machine.cpu_percent:.1f}",
        f"{machine.process_cpu_percent:.1f}",
        f"{machine.process_rss_bytes / 2**20:.1f}",
        f"{machine.disk_read_bytes_per_second / 2**20:.2f}",
        *(["", ""] if status is None else [status.state if reading.is_running else "ended", str(status.step)]),
        _percent(reading.busy_fraction),
        _percent(reading.wait_fraction),
        "" if reading.step_seconds is None else f"{reading.step_seconds:.4f}",
        "" if status is None else str(status.retraces),
    ]
    rows = [
        [
            f"{machine.unix_seconds:.2f}",
            f"{gpu.index}",
            "" if gpu.utilization_percent is None else f"{gpu.utilization_percent:.0f}",
            f"{gpu.memory_used_bytes / 2**20:.0f}",
            f"{gpu.memory_total_bytes / 2**20:.0f}",
            "" if gpu.power_watts is None else f"{gpu.power_watts:.0f}",
            "" if gpu.clock_mhz is None else str(gpu.clock_mhz),
            "" if gpu.temperature_celsius is None else str(gpu.temperature_celsius),
            "; ".join(gpu.throttled_by),
            *rest,
        ]
        for gpu in machine.gpus
    ]
    return rows or [[f"{machine.unix_seconds:.2f}", *[""] * 8, *rest]]


def _percent(fraction: float | None) -> str:
    return "" if fraction is None else f"{100 * fraction:.1f}"


class CsvLog:
    """Appends readings to a CSV file that `open_csv_log` has opened."""

    def __init__(self, file: TextIO):
        self._file = file
        self._writer = csv.writer(file)

    def begin(self) -> None:
        """Write the header, once in a file."""
        if self._file.tell() == 0:
            self._writer.writerow(CSV_COLUMNS)

    def add(self, reading: MonitorReading) -> None:
        """Write one reading, and flush it to the disk."""
        self._writer.writerows(reading_rows(reading))
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def reading_line(reading: MonitorReading) -> str:
    """One line for a live view."""
    machine, parts = reading.machine, []
    for gpu in machine.gpus:
        use = "?" if gpu.utilization_percent is None else f"{gpu.utilization_percent:.0f} %"
        watts = "" if gpu.power_watts is None else f", {gpu.power_watts:.0f} W"
        throttled = f", throttled: {', '.join(gpu.throttled_by)}" if gpu.throttled_by else ""
        memory = f"{gpu.memory_used_bytes / 2**30:.1f}/{gpu.memory_total_bytes / 2**30:.1f} GB"
        parts.append(f"GPU {gpu.index} {use}, {memory}{watts}{throttled}")
    parts.append(f"CPU {machine.cpu_percent:.0f} %")
    if reading.status is not None:
        state = reading.status.state if reading.is_running else "ended"
        busy = "-" if reading.busy_fraction is None else f"{100 * reading.busy_fraction:.0f} %"
        wait = "-" if reading.wait_fraction is None else f"{100 * reading.wait_fraction:.1f} %"
        seconds = "" if reading.step_seconds is None else f", {reading.step_seconds:.3f} s per step"
        parts.append(f"run {state} at step {reading.status.step}: busy {busy}, waiting {wait}{seconds}")
    else:
        parts.append(f"memory {machine.process_rss_bytes / 2**20:.0f} MB")
    return " | ".join(parts)


def open_csv_log(path: str | Path) -> CsvLog:
    """The log in a file, which is continued if it exists."""
    try:
        with contextlib.suppress(FileNotFoundError):
            check_regular_file(path)  # opening a pipe waits for a reader
        file = open(path, "a", newline="", encoding="utf-8")  # noqa: SIM115 - open as long as the log
    except OSError as error:
        raise DiagnosisError(
            f"The log cannot be written. Received: {path} ({error.strerror}). Name another file."
        ) from None
    log = CsvLog(file)
    log.begin()
    return log
