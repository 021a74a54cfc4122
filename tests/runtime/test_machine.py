"""Machine samples: with a driver's answers, with questions that a card does not support, and without a card."""

import os
from types import SimpleNamespace

import psutil

from myxtts.runtime.machine import MachineSampler, usable_cores


def test_cores_are_counted_with_and_without_an_affinity(monkeypatch):
    assert 1 <= usable_cores() <= os.cpu_count()
    monkeypatch.delattr(psutil.Process, "cpu_affinity")  # as on macOS
    assert usable_cores() == os.cpu_count()


class DriverError(Exception):
    pass


def unsupported(*_):
    raise DriverError("not supported")


def driver(**changes):
    """The questions of NVML that the sampler asks, answered as by a card with 24 GB."""
    answers = {
        "NVMLError": DriverError,
        "NVML_CLOCK_SM": 1,
        "NVML_TEMPERATURE_GPU": 0,
        "nvmlClocksEventReasonSwPowerCap": 4,
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetName": lambda handle: b"Card",
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(used=3 << 30, total=24 << 30),
        "nvmlDeviceGetUtilizationRates": lambda handle: SimpleNamespace(gpu=42),
        "nvmlDeviceGetPowerUsage": lambda handle: 215_000,
        "nvmlDeviceGetClockInfo": lambda handle, which: 1800,
        "nvmlDeviceGetTemperature": lambda handle, which: 61,
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda handle: 4,
        "nvmlDeviceGetComputeRunningProcesses": lambda handle: [SimpleNamespace(pid=12, usedGpuMemory=1 << 30)],
    }
    return SimpleNamespace(**(answers | changes))


def test_card_is_sampled_in_plain_units():
    gpu = MachineSampler(nvml=driver()).sample().gpus[0]
    assert (gpu.name, gpu.utilization_percent, gpu.power_watts, gpu.clock_mhz) == ("Card", 42.0, 215.0, 1800)
    assert gpu.throttled_by == ("power limit",)
    assert gpu.memory_by_process == {12: 1 << 30}


def test_unsupported_question_is_none_and_the_rest_is_kept():
    gpu = MachineSampler(nvml=driver(nvmlDeviceGetPowerUsage=unsupported)).sample().gpus[0]
    assert gpu.power_watts is None
    assert gpu.utilization_percent == 42.0


def test_machine_without_a_driver_says_so_and_is_sampled_all_the_same():
    sampler = MachineSampler(nvml=driver(nvmlInit=unsupported))
    sample = sampler.sample()
    assert sampler.no_gpu_reason.startswith("No GPU")
    assert sample.gpus == ()
    assert sample.process_rss_bytes > 10 << 20
