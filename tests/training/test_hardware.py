"""What a run computes on is decided by plain rules."""

import pytest

from myxtts.errors import ConfigError, MyXTTSError
from myxtts.runtime.machine import Bfloat16
from myxtts.training import hardware
from myxtts.training.hardware import choose_precision, choose_xla
from myxtts.training.trainer import XTTSTrainer
from tests.training.small_runs import quiet_display, small_config


def test_xla_compiles_the_step_on_a_gpu_and_only_parts_on_a_cpu():
    assert choose_xla("auto", [(8, 6)], graph_mode=True).compiles_step
    on_cpu = choose_xla("auto", [], graph_mode=True)
    assert (on_cpu.compiles_step, on_cpu.compiles_parts) == (False, True)


def test_xla_is_off_when_asked_and_without_graphs():
    for setting, graph_mode in ((False, True), ("auto", False)):
        choice = choose_xla(setting, [(8, 6)], graph_mode)
        assert not choice.compiles_step
        assert not choice.compiles_parts


def test_xla_stays_off_where_it_would_abort_the_process():
    choice = choose_xla("auto", [(8, 9), (12, 0)], graph_mode=True)
    assert not choice.compiles_step
    assert not choice.compiles_parts
    assert "compute capability 12.0" in choice.note
    with pytest.raises(ConfigError, match=r"compute capability 12\.0.*Use auto or false"):
        choose_xla(True, [(12, 0)], graph_mode=True)


@pytest.mark.parametrize(
    ("support", "expected"),
    [(Bfloat16.FAST, "mixed_bfloat16"), (Bfloat16.SLOW, "float32"), (Bfloat16.ABORTS, "float32")],
)
def test_auto_takes_bfloat16_on_a_cpu_only_where_it_is_fast(monkeypatch, support, expected):
    monkeypatch.setattr(hardware, "bfloat16_support", lambda: support)
    assert choose_precision("auto", []) == expected
    assert choose_precision("off", []) == "float32"


def test_bfloat16_is_refused_where_it_would_abort_the_process(monkeypatch):
    monkeypatch.setattr(hardware, "bfloat16_support", lambda: Bfloat16.ABORTS)
    with pytest.raises(ConfigError, match=r"auto or off on a CPU without AVX-512.*Received: bfloat16"):
        choose_precision("bfloat16", [])
    assert choose_precision("bfloat16", [(8, 0)]) == "mixed_bfloat16"


def test_a_gpu_takes_the_precision_of_its_compute_capability():
    assert choose_precision("auto", [(8, 6), (9, 0)]) == "mixed_bfloat16"
    assert choose_precision("auto", [(8, 6), (7, 5)]) == "mixed_float16"
    assert choose_precision("auto", [(6, 1)]) == "float32"


def test_gpu_whose_kernels_do_not_run_is_refused_with_advice(monkeypatch):
    monkeypatch.setattr(hardware.sys, "executable", "/bin/false")
    lines = []
    with pytest.raises(ConfigError, match=r"GPU:1 cannot run the kernels.*--device cpu"):
        hardware._check_gpu_runs("GPU:1", lines.append)
    assert "Trying GPU:1" in lines[0]


def test_changed_hardware_is_reported_on_resume(make_trainer):
    trainer = make_trainer()
    now = trainer.task.hardware.facts()
    assert set(now) == {"device", "instruction_set", "convolution", "precision"}
    assert trainer.task.hardware.changes_since(now) == []
    assert trainer.task.hardware.changes_since({}) == []  # a checkpoint of 0.1.0
    [line] = trainer.task.hardware.changes_since(now | {"convolution": "another"})
    assert f"convolution another → {now['convolution']}" in line


def test_a_missing_gpu_is_refused_and_the_cpu_is_used_when_asked_for(corpus, tmp_path):
    with pytest.raises(MyXTTSError, match="--device auto"):
        XTTSTrainer(small_config(corpus, tmp_path / "run", device="gpu:7"), display=quiet_display()).open()
    trainer = XTTSTrainer(small_config(corpus, tmp_path / "run", device="cpu"), display=quiet_display())
    assert "CPU" in trainer.task.state.weights[0].device
    trainer.close()
