"""Facts about the device and the machine while a training runs: NVML for GPUs, psutil for CPU, memory and disk.

In: nothing but time. Out: one `MachineSample` per call. Without an NVIDIA driver, or without the extra `gpu`
(`nvidia-ml-py`), the samples hold no GPU and `no_gpu_reason` says why. No TensorFlow is loaded here.
"""

from __future__ import annotations

import atexit
import os
import platform
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil

_THROTTLE_REASONS = {
    "nvmlClocksEventReasonSwPowerCap": "power limit",
    "nvmlClocksEventReasonSwThermalSlowdown": "heat (software)",
    "nvmlClocksThrottleReasonHwSlowdown": "hardware slowdown",
    "nvmlClocksThrottleReasonHwThermalSlowdown": "heat (hardware)",
    "nvmlClocksThrottleReasonHwPowerBrakeSlowdown": "power brake",
}


@dataclass(frozen=True)
class GpuSample:
    """One GPU at one moment; None where the card does not tell."""

    index: int
    name: str
    utilization_percent: float | None
    memory_used_bytes: int
    memory_total_bytes: int
    power_watts: float | None
    clock_mhz: int | None
    temperature_celsius: int | None
    throttled_by: tuple[str, ...]
    memory_by_process: dict[int, int]
    """Bytes by process id."""


@dataclass(frozen=True)
class MachineSample:
    """The machine at one moment; rates are since the sample before."""

    unix_seconds: float
    gpus: tuple[GpuSample, ...]
    cpu_percent: float
    """Of all cores together: 100 is every core busy."""
    process_cpu_percent: float
    """Of the watched process: 100 is one core busy."""
    process_rss_bytes: int
    disk_read_bytes_per_second: float
    disk_write_bytes_per_second: float


class MachineSampler:
    """Takes samples of this machine and of one process (by default this one)."""

    def __init__(self, process_id: int | None = None, nvml: ModuleType | Any | None = None):
        self._process: psutil.Process | None = psutil.Process(process_id or os.getpid())
        self._nvml, self._gpus, self.no_gpu_reason = _open_nvml(nvml)
        self._disk_before = _disk_counters()
        self._time_before = time.monotonic()
        psutil.cpu_percent(None)
        self._process.cpu_percent(None)

    def sample(self) -> MachineSample:
        """One sample; a millisecond or two."""
        now = time.monotonic()
        elapsed = max(now - self._time_before, 1e-3)
        disk = _disk_counters()
        read_rate, write_rate = (
            (after - before) / elapsed for after, before in zip(disk, self._disk_before, strict=True)
        )
        self._disk_before, self._time_before = disk, now
        process_cpu, process_rss = 0.0, 0
        if self._process is not None:
            try:
                process_cpu, process_rss = self._process.cpu_percent(None), self._process.memory_info().rss
            except psutil.NoSuchProcess:
                self._process = None
        return MachineSample(
            unix_seconds=time.time(),
            gpus=tuple(self._sample_gpu(index, handle) for index, handle in enumerate(self._gpus)),
            cpu_percent=psutil.cpu_percent(None),
            process_cpu_percent=process_cpu,
            process_rss_bytes=process_rss,
            disk_read_bytes_per_second=max(read_rate, 0.0),
            disk_write_bytes_per_second=max(write_rate, 0.0),
        )

    def close(self) -> None:
        """Lets go of the driver."""
        if self._nvml is not None:
            self._nvml.nvmlShutdown()
            self._nvml, self._gpus = None, []

    def _sample_gpu(self, index: int, handle: Any) -> GpuSample:
        nvml = self._nvml
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        utilization = self._ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        power = self._ask(nvml.nvmlDeviceGetPowerUsage, handle)
        reasons = self._ask(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle) or 0
        processes = self._ask(nvml.nvmlDeviceGetComputeRunningProcesses, handle) or []
        name = nvml.nvmlDeviceGetName(handle)
        return GpuSample(
            index=index,
            name=name.decode() if isinstance(name, bytes) else name,
            utilization_percent=None if utilization is None else float(utilization.gpu),
            memory_used_bytes=int(memory.used),
            memory_total_bytes=int(memory.total),
            power_watts=None if power is None else power / 1000.0,
            clock_mhz=self._ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            temperature_celsius=self._ask(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
            throttled_by=tuple(text for name, text in _THROTTLE_REASONS.items() if reasons & vars(nvml).get(name, 0)),
            memory_by_process={process.pid: int(process.usedGpuMemory or 0) for process in processes},
        )

    def _ask(self, question: Any, *arguments: Any) -> Any:
        """The driver's answer, or None where this card does not support the question."""
        try:
            return question(*arguments)
        except self._nvml.NVMLError:
            return None


def _open_nvml(nvml: Any | None) -> tuple[Any | None, list[Any], str | None]:
    if nvml is None:
        try:
            import pynvml as nvml
        except ImportError:
            return None, [], "No GPU figures: the extra `gpu` (nvidia-ml-py) is not installed."
    try:
        nvml.nvmlInit()
        count = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError as error:
        return None, [], f"No GPU: the NVIDIA driver does not answer ({error})."
    if count == 0:
        nvml.nvmlShutdown()
        return None, [], "No GPU: the NVIDIA driver knows no card."
    return nvml, [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)], None


def _disk_counters() -> tuple[int, int]:
    counters = psutil.disk_io_counters()
    return (counters.read_bytes, counters.write_bytes) if counters is not None else (0, 0)


def usable_cores() -> int:
    """CPU cores that this process may use (Linux and Windows can restrict them; macOS cannot)."""
    process = psutil.Process()
    if hasattr(process, "cpu_affinity"):
        return len(process.cpu_affinity())
    return os.cpu_count() or 1


def accelerators() -> tuple[str, ...]:
    """Names of the devices that TensorFlow would train on, beside the CPU: `GPU:0`, `TPU:0` ..."""
    import tensorflow as tf

    return tuple(
        device.name.removeprefix("/physical_device:")
        for device in tf.config.list_physical_devices()
        if device.device_type != "CPU"
    )


INSTRUCTION_SETS = {
    "amx_tile": "AMX",
    "avx512_vnni": "AVX-512 VNNI",
    "avx512f": "AVX-512",
    "avx_vnni": "AVX-VNNI",
    "avx2": "AVX2",
    "avx": "AVX",
}
"""Flag of Linux's /proc/cpuinfo → name, the widest first."""


def instruction_set() -> str:
    """The widest vector instructions of this CPU that matter to TensorFlow, with the limits that the environment sets.

    Only Linux on x86 lists them; elsewhere the name of the architecture.
    """
    try:
        listed = set(Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").split())
    except OSError:
        listed = set()
    name = next((name for flag, name in INSTRUCTION_SETS.items() if flag in listed), platform.machine() or "unknown")
    limits = [
        f"{variable}={os.environ[variable]}"
        for variable, usual in (("TF_ENABLE_ONEDNN_OPTS", "1"), ("ONEDNN_MAX_CPU_ISA", None))
        if variable in os.environ and os.environ[variable] != usual
    ]
    return f"{name} ({', '.join(limits)})" if limits else name


# MERGED: A place for the files that libraries write into the home folder, where there is no writable one.


def make_temporary_home() -> None:
    """Point Keras and Matplotlib to a folder that is removed at the end of the process; a user's own setting wins."""
    try:
        folder = tempfile.mkdtemp(prefix="myxtts-home-")
    except OSError:  # no temporary folder either: who needs one reports it
        return
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for variable in ("KERAS_HOME", "MPLCONFIGDIR"):
        os.environ.setdefault(variable, folder)
