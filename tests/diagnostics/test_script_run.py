"""`myxtts diagnose run`: however a script ends, its own output comes first and unchanged, then what was measured."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from myxtts.diagnostics.observe.script import run_script
from myxtts.errors import DiagnosisError

TRAINING = """
import os, sys
import tensorflow as tf
weights = tf.Variable(tf.ones((64, 64)))

@tf.function
def train_step(batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.matmul(batch, weights) ** 2)
    weights.assign_sub(1e-3 * tape.gradient(loss, weights))
    return loss

for step in range(int(sys.argv[1])):
    loss = train_step(tf.ones((ROWS, 64)))
print("loss", float(loss), sys.argv[1:], __name__, os.path.basename(__file__))
"""


def write(folder: Path, after: str = "", rows: str = "8") -> Path:
    script = folder / "train.py"
    script.write_text(TRAINING.replace("ROWS", rows) + after)
    return script


def diagnose(script: Path, *options: str, arguments: tuple[str, ...] = ("20",)) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "myxtts.cli", "diagnose", "run", *options, str(script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=script.parent, timeout=300)


def test_output_of_the_script_is_unchanged_and_comes_first(tmp_path):
    script = write(tmp_path)
    alone = subprocess.run(
        [sys.executable, str(script), "20", "--more"], capture_output=True, text=True, cwd=tmp_path, timeout=300
    )
    observed = diagnose(script, "--html", str(tmp_path / "page.html"), arguments=("20", "--more"))
    assert observed.stdout.startswith(alone.stdout)
    assert "loss" in alone.stdout
    assert observed.returncode == 0, observed.stdout
    report = observed.stdout[len(alone.stdout) :]
    assert report.strip().startswith("compute-bound: nothing to gain from the loader")
    assert "the same step, data at hand" in report
    assert (tmp_path / "page.html").stat().st_size > 2000


def test_problem_is_exit_code_1_and_json_holds_the_finding(tmp_path):
    script = write(tmp_path, rows="step + 1")
    run = diagnose(script, "--json", "report.json", "--no-ceiling")
    content = json.loads((tmp_path / "report.json").read_text())
    finding = next(finding for finding in content["report"]["findings"] if finding["disease"] == "retrace-shape")
    assert run.returncode == 1
    assert (finding["file"], finding["line"]) == (str(script), 6)
    assert {"evidence", "fix", "gain_seconds", "gain_share", "what"} <= set(finding)


def test_crash_shows_its_traceback_without_our_frames_and_is_exit_code_2(tmp_path):
    run = diagnose(write(tmp_path, after="\nraise RuntimeError('broken on purpose')\n"), "--no-ceiling")
    assert run.returncode == 2
    assert "RuntimeError: broken on purpose" in run.stderr
    assert "myxtts" not in run.stderr[run.stderr.index("Traceback") :]
    assert "20 steps" in run.stdout
    assert "Its exit code: 1" in run.stdout


def test_exit_code_of_the_script_is_told_and_can_be_passed_on(tmp_path):
    run = diagnose(write(tmp_path, after="\nsys.exit(7)\n"), "--exit-code", "script", "--no-ceiling")
    assert run.returncode == 7
    assert "sys.exit(7)" in run.stdout


def test_script_that_never_trains_is_not_measured(tmp_path):
    script = tmp_path / "idle.py"
    script.write_text("print('hello')\n")
    run = run_script(script)
    assert (run.exit_code, run.outcome) == (2, "ended")
    assert "no training step" in run.text


def test_script_that_leaves_at_once_is_explained(tmp_path):
    script = tmp_path / "gone.py"
    script.write_text("import os\nos._exit(3)\n")
    run = run_script(script)
    assert (run.exit_code, run.script_exit_code, run.report) == (2, 3, None)
    assert "os._exit" in run.explanation


def test_missing_script_is_explained():
    with pytest.raises(DiagnosisError, match="no such script"):
        run_script("nowhere.py")


def test_interrupted_script_is_reported_with_what_was_measured(tmp_path):
    script = write(tmp_path, after="\nimport time\nopen('ready', 'w').close()\ntime.sleep(120)\n")
    command = [sys.executable, "-m", "myxtts.cli", "diagnose", "run", str(script), "20"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, start_new_session=True)
    deadline = time.monotonic() + 120
    while not (tmp_path / "ready").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "The script was interrupted" in output
    assert "20 steps" in output
