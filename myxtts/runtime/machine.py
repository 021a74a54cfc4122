"""This machine: its cores and instruction set, and samples of its load and its GPUs while something runs.

GPUs are sampled through NVML, everything else through psutil. Without an NVIDIA driver, or without the extra `gpu`
(`nvidia-ml-py`), samples contain no GPU and `no_gpu_reason` says why. TensorFlow is not imported.
"""

from __future__ import annotations

import importlib
import os
import platform
import time
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Self

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
    """One GPU at one moment; None for what the card does not report."""

    index: int
    name: str
    utilization_percent: float | None
    memory_used_bytes: int
    memory_total_bytes: int
    power_watts: float | None
    clock_mhz: int | None
    temperature_celsius: int | None
    throttled_by: tuple[str, ...]


@dataclass(frozen=True)
class MachineSample:
    """The machine at one moment; rates are since the previous sample."""

    unix_seconds: float
    gpus: tuple[GpuSample, ...]
    cpu_percent: float
    """Load of all cores: 100 means that every core is busy."""
    process_cpu_percent: float
    """Load by the watched process: 100 means one busy core."""
    process_rss_bytes: int
    disk_read_bytes_per_second: float


class MachineSampler:
    """Samples this machine and one process: `with MachineSampler() as sampler: sampler.sample()`."""

    def __init__(self, process_id: int | None = None, nvml: Any = None):
        """
        Args:
            process_id: the process to watch; None for this one.
            nvml: a module with NVML's functions; None for `pynvml`.
        """
        self._process: psutil.Process | None = psutil.Process(process_id or os.getpid())
        self._nvml: Any = nvml
        self._gpus: list[Any] = []
        self._read_before, self._time_before = 0, 0.0
        self.no_gpu_reason: str | None = None
        """Why no GPU is sampled; None if there is one. Known after `open`."""

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> Self:
        """Connect to the GPU driver and start measuring rates."""
        self._nvml, self._gpus, self.no_gpu_reason = _open_nvml(self._nvml)
        self._read_before = _disk_read_bytes()
        self._time_before = time.monotonic()
        psutil.cpu_percent(None)
        if self._process is not None:
            self._process.cpu_percent(None)
        return self

    def sample(self) -> MachineSample:
        """One sample; takes one or two milliseconds."""
        now = time.monotonic()
        elapsed = max(now - self._time_before, 1e-3)
        read_bytes = _disk_read_bytes()
        read_rate = (read_bytes - self._read_before) / elapsed
        self._read_before, self._time_before = read_bytes, now
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
        )

    def close(self) -> None:
        """Disconnect from the GPU driver."""
        if self._nvml is not None:
            self._nvml.nvmlShutdown()
            self._nvml, self._gpus = None, []

    def _sample_gpu(self, index: int, handle: Any) -> GpuSample:
        nvml = self._nvml
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        utilization = self._query(nvml.nvmlDeviceGetUtilizationRates, handle)
        power = self._query(nvml.nvmlDeviceGetPowerUsage, handle)
        reasons = self._query(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle) or 0

        name = nvml.nvmlDeviceGetName(handle)
        return GpuSample(
            index=index,
            name=name.decode() if isinstance(name, bytes) else name,
            utilization_percent=None if utilization is None else float(utilization.gpu),
            memory_used_bytes=int(memory.used),
            memory_total_bytes=int(memory.total),
            power_watts=None if power is None else power / 1000.0,
            clock_mhz=self._query(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            temperature_celsius=self._query(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
            throttled_by=tuple(text for name, text in _THROTTLE_REASONS.items() if reasons & vars(nvml).get(name, 0)),
        )

    def _query(self, query: Any, *arguments: Any) -> Any:
        """The driver's answer, or None if this card does not support the query."""
        try:
            return query(*arguments)
        except self._nvml.NVMLError:
            return None


def _open_nvml(nvml: Any) -> tuple[Any, list[Any], str | None]:
    """The driver's module, a handle for each GPU, and why there is none."""
    if nvml is None:
        try:
            nvml = importlib.import_module("pynvml")
        except ImportError:
            return None, [], "No GPU metrics: the extra `gpu` (nvidia-ml-py) is not installed."
    try:
        nvml.nvmlInit()
        count = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError as error:
        return None, [], f"No GPU: the NVIDIA driver does not answer ({error})."
    if count == 0:
        nvml.nvmlShutdown()
        return None, [], "No GPU: the NVIDIA driver lists no card."
    return nvml, [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)], None


def _disk_read_bytes() -> int:
    counters = psutil.disk_io_counters()
    return counters.read_bytes if counters is not None else 0


def usable_cores() -> int:
    """Number of CPU cores that this process may use (Linux and Windows can restrict them; macOS cannot)."""
    process = psutil.Process()
    if hasattr(process, "cpu_affinity"):
        return len(process.cpu_affinity())
    return os.cpu_count() or 1


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
    """The widest vector instructions of this CPU that TensorFlow uses, with the limits that environment variables set.

    Only Linux on x86 lists them; on other systems this is the name of the architecture.
    """
    listed = _listed_instructions()
    name = next((name for flag, name in INSTRUCTION_SETS.items() if flag in listed), platform.machine() or "unknown")
    limits = [
        f"{variable}={os.environ[variable]}"
        for variable, usual in (("TF_ENABLE_ONEDNN_OPTS", "1"), ("ONEDNN_MAX_CPU_ISA", None))
        if variable in os.environ and os.environ[variable] != usual
    ]
    return f"{name} ({', '.join(limits)})" if limits else name


class Bfloat16(Enum):
    """How TensorFlow's operations compute bfloat16 on this CPU."""

    FAST = "fast"
    """AMX multiplies it several times as fast as float32."""
    SLOW = "slow"
    """It runs, and is slower than float32 or not known to be faster."""
    ABORTS = "aborts"
    """oneDNN has no operations for it below AVX-512, and TensorFlow 2.21 aborts the process with `dnnl::error`."""


def bfloat16_support() -> Bfloat16:
    """Whether bfloat16 is fast, slow or fatal on this CPU, with the limits that environment variables set to oneDNN."""
    listed = _listed_instructions()
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "ALL").upper()
    is_unlimited = limit in ("ALL", "DEFAULT")
    if os.environ.get("TF_ENABLE_ONEDNN_OPTS") == "0" or not listed & INSTRUCTION_SETS.keys():
        return Bfloat16.SLOW  # TensorFlow's own kernels have it everywhere; other processors are not known
    if "amx_bf16" in listed and (is_unlimited or "AMX" in limit):
        return Bfloat16.FAST
    has_avx512 = "avx512f" in listed and (is_unlimited or limit.startswith(("AVX512", "AVX10")))
    return Bfloat16.SLOW if has_avx512 else Bfloat16.ABORTS


def _listed_instructions() -> set[str]:
    """Flags of Linux's /proc/cpuinfo; empty where there is none."""
    try:
        return set(Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").split())
    except OSError:
        return set()
