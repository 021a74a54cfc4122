"""One training run in a process of its own: devices, threads and signals can only be set for a whole process.

    python -m tests.training.child_run '{"corpus": …, "run": …, "losses": …, "cpus": 2, "data": {…}, "training": {…}}'

Every step's loss is appended to `losses` at once, as `step hexadecimal-float`; so what was computed survives a kill.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 300


def start(environment: dict[str, str] | None = None, **settings: Any) -> subprocess.Popen:
    """Begin a run; its output is one pipe of text."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.training.child_run", json.dumps(settings)],
        cwd=ROOT,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""} | (environment or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen, expected_code: int = 0) -> str:
    """Wait for the end of a run; returns what it printed."""
    try:
        text, _ = process.communicate(timeout=PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        text, _ = process.communicate()
        raise AssertionError(f"The run did not end within {PATIENCE_SECONDS} s:\n{text}") from None
    assert process.returncode == expected_code, text
    return text


def losses_of(path: Path) -> dict[int, float]:
    """Step → loss, exactly; a step that was taken again after a resume counts as it was taken last."""
    if not Path(path).exists():
        return {}
    pairs = [line.split() for line in Path(path).read_text().splitlines(keepends=True) if line.endswith("\n")]
    return {int(step): float.fromhex(loss) for step, loss in pairs}


def wait_for_step(path: Path, step: int) -> None:
    """Until the run has taken this step."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while max(losses_of(path), default=0) < step:
        assert time.monotonic() < deadline, f"no step {step} in {path}"
        time.sleep(0.02)


def main(settings: dict[str, Any]) -> int:
    """The run itself."""
    import tensorflow as tf

    from myxtts.errors import MyXTTSError
    from myxtts.training.trainer import XTTSTrainer
    from tests.training.small_runs import quiet_display, small_config, text_of

    cpus = settings.get("cpus", 1)
    if cpus > 1:
        parts = [tf.config.LogicalDeviceConfiguration()] * cpus
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], parts)
    strategy = None
    if cpus > 1 and not os.environ.get("TF_CONFIG"):
        strategy = tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(cpus)])
    display = quiet_display()

    def note(metrics):
        with Path(settings["losses"]).open("a", encoding="ascii") as losses:
            losses.write(f"{trainer.step} {metrics.loss.hex()}\n")
        if settings.get("stop_at") == trainer.step:
            os.kill(os.getpid(), settings.get("signal", signal.SIGKILL))

    display.metrics = note
    training = {"log_interval": 1} | settings.get("training", {})
    config = small_config(Path(settings["corpus"]), Path(settings["run"]), settings.get("data"), **training)
    try:
        trainer = XTTSTrainer(config, display=display, strategy=strategy)
        summary = trainer.train()
        display.table("What was measured", summary.rows())
        return 0
    except MyXTTSError as error:
        display.line(f"{type(error).__name__}: {error}")
        return 2
    finally:
        sys.stdout.write(text_of(display))
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
