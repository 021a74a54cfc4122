"""The machine: its cores, and samples of its load with a GPU, with unsupported queries and without a GPU."""

import os
from types import SimpleNamespace

import psutil
import pytest

from myxtts.runtime import machine
from myxtts.runtime.machine import Bfloat16, MachineSampler, bfloat16_support, instruction_set, usable_cores


def test_cores_are_counted_with_and_without_an_affinity(monkeypatch):
    assert 1 <= usable_cores() <= os.cpu_count()
    monkeypatch.delattr(psutil.Process, "cpu_affinity")  # as on macOS
    assert usable_cores() == os.cpu_count()


class DriverError(Exception):
    pass


def unsupported(*_):
    raise DriverError("not supported")


def driver(**changes):
    """NVML's functions that the sampler calls, for a card with 24 GB."""
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
    }
    return SimpleNamespace(**(answers | changes))


def sampled_gpu(nvml):
    with MachineSampler(nvml=nvml) as sampler:
        return sampler.sample().gpus[0]


def test_a_card_is_sampled_in_plain_units():
    gpu = sampled_gpu(driver())
    assert (gpu.name, gpu.utilization_percent, gpu.power_watts, gpu.clock_mhz) == ("Card", 42.0, 215.0, 1800)
    assert gpu.throttled_by == ("power limit",)
    assert (gpu.memory_used_bytes, gpu.memory_total_bytes) == (3 << 30, 24 << 30)


def test_an_unsupported_query_is_none_and_the_rest_is_kept():
    gpu = sampled_gpu(driver(nvmlDeviceGetPowerUsage=unsupported))
    assert gpu.power_watts is None
    assert gpu.utilization_percent == 42.0


def test_a_machine_without_a_driver_is_sampled_and_the_reason_is_given():
    with MachineSampler(nvml=driver(nvmlInit=unsupported)) as sampler:
        sample = sampler.sample()
    assert sampler.no_gpu_reason.startswith("No GPU")
    assert sample.gpus == ()
    assert sample.process_rss_bytes > 10 << 20


def test_the_driver_is_disconnected_at_the_end_of_the_block():
    calls = []
    with MachineSampler(
        nvml=driver(nvmlInit=lambda: calls.append("init"), nvmlShutdown=lambda: calls.append("shutdown"))
    ):
        assert calls == ["init"]
    assert calls == ["init", "shutdown"]


def test_the_instruction_set_names_the_limits_of_the_environment(monkeypatch):
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    assert instruction_set().endswith(" (TF_ENABLE_ONEDNN_OPTS=0, ONEDNN_MAX_CPU_ISA=AVX2)")


@pytest.mark.parametrize(
    ("flags", "environment", "expected"),
    [
        ({"avx2", "avx512f", "amx_tile", "amx_bf16"}, {}, Bfloat16.FAST),
        ({"avx2", "avx512f", "amx_tile", "amx_bf16"}, {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_AMX"}, Bfloat16.FAST),
        ({"avx2", "avx512f", "amx_tile", "amx_bf16"}, {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}, Bfloat16.SLOW),
        ({"avx2", "avx512f", "amx_tile", "amx_bf16"}, {"ONEDNN_MAX_CPU_ISA": "avx2"}, Bfloat16.ABORTS),
        ({"avx2", "avx512f", "amx_tile", "amx_bf16"}, {"TF_ENABLE_ONEDNN_OPTS": "0"}, Bfloat16.SLOW),
        ({"avx2", "avx512f"}, {}, Bfloat16.SLOW),
        ({"avx", "avx2"}, {}, Bfloat16.ABORTS),
        (set(), {}, Bfloat16.SLOW),  # ARM, macOS, Windows
    ],
)
def test_bfloat16_is_known_from_the_instructions_that_onednn_may_use(monkeypatch, flags, environment, expected):
    for variable in ("TF_ENABLE_ONEDNN_OPTS", "ONEDNN_MAX_CPU_ISA"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(machine, "_listed_instructions", lambda: flags)
    assert bfloat16_support() is expected
