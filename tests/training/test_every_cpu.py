"""Training and speaking as on other processors, on whatever machine this runs, in child processes."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import soundfile

from myxtts.runtime.machine import instruction_set

ENVIRONMENTS = {
    "as it is": {},
    "without oneDNN": {"TF_ENABLE_ONEDNN_OPTS": "0"},
    "oneDNN limited to AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2"},
    "TensorFlow imported first": {},
}
STEPS = 20
CLI = ("-m", "myxtts.cli")
TENSORFLOW_FIRST = ("-c", "import tensorflow, sys; from myxtts.cli import main; sys.exit(main(sys.argv[1:]))")


def run_myxtts(name, *arguments):
    environment = {key: value for key, value in os.environ.items() if key != "TF_ENABLE_ONEDNN_OPTS"}
    start = TENSORFLOW_FIRST if name == "TensorFlow imported first" else CLI
    done = subprocess.run(
        [sys.executable, *start, *arguments],
        env=environment | {"CUDA_VISIBLE_DEVICES": ""} | ENVIRONMENTS[name],
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Real steps of the bundled corpus and the tiny network in each environment: name → (lines of the log, output)."""
    folder = tmp_path_factory.mktemp("every-cpu")
    config = folder / "config.yaml"
    config.write_text(
        f"data: {{cache_dir: {folder / 'cache'}, text_symbols: graphemes, batch_size: 8}}\n"
        f"training: {{max_steps: {STEPS}, log_interval: 1, checkpoint_interval: 1000, validation_interval: 1000}}\n",
        encoding="utf-8",
    )
    found = {}
    for name in ENVIRONMENTS:
        run = folder / name.replace(" ", "-")
        output = run_myxtts(name, "train", "--config", str(config), "--checkpoint-dir", str(run))
        lines = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
        state = json.loads((run / f"step-{STEPS:08d}" / "state.json").read_text(encoding="utf-8"))
        found[name] = lines, output, state
    return found


def losses_of(lines):
    return np.array([line["loss"] for line in lines if line["kind"] == "train"])


@pytest.mark.parametrize("name", [name for name in ENVIRONMENTS if name != "as it is"])
def test_losses_are_those_of_this_machine(runs, name):
    expected, losses = losses_of(runs["as it is"][0]), losses_of(runs[name][0])
    assert len(losses) == STEPS
    # The order of summation differs: float32 gives 1e-6 in one forward pass, and twenty updates amplify it. A wrong
    # gradient differs by more than 1e-2 after a few steps.
    np.testing.assert_allclose(losses[0], expected[0], rtol=1e-5)
    np.testing.assert_allclose(losses[-1], expected[-1], rtol=1e-3)


def test_path_is_announced_logged_and_kept_in_the_checkpoint(runs):
    for lines, output, state in runs.values():
        [hardware] = [line for line in lines if line["kind"] == "hardware"]
        assert f"Convolution: {hardware['convolution']} (" in output
        assert state["hardware"]["convolution"] == hardware["convolution"]
        assert state["hardware"]["instruction_set"] == hardware["instruction_set"]
    without = runs["without oneDNN"][2]["hardware"]
    assert without["convolution"] == "matmul"
    assert "TF_ENABLE_ONEDNN_OPTS=0" in without["instruction_set"]


@pytest.mark.parametrize("name", ["without oneDNN", "oneDNN limited to AVX2"])
def test_bundled_voice_speaks(name, tmp_path):
    target = tmp_path / "spoken.wav"
    run_myxtts(name, "say", "Good morning. It works on every machine.", "-o", str(target))
    samples, rate = soundfile.read(target)
    assert 1.5 < len(samples) / rate < 6
    assert np.isfinite(samples).all()
    assert np.sqrt(np.mean(samples**2)) > 0.01


def test_limits_of_the_environment_are_part_of_the_instruction_set(monkeypatch):
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    assert "ONEDNN_MAX_CPU_ISA=AVX2" in instruction_set()
