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
from tests.diagnostics.observe.trainings import STEP_OF_A_SCRIPT

TRAINING = (
    "\nimport os, sys\n"
    + STEP_OF_A_SCRIPT
    + """
for step in range(int(sys.argv[1])):
    loss = train_step(tf.ones((ROWS, 64)))
print("loss", float(loss), sys.argv[1:], __name__, os.path.basename(__file__))
"""
)


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
    assert "the same step, data ready" in report
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


def test_exit_code_of_the_script_is_reported_and_can_be_passed_on(tmp_path):
    run = diagnose(write(tmp_path, after="\nsys.exit(7)\n"), "--exit-code", "script", "--no-ceiling")
    assert run.returncode == 7
    assert "sys.exit(7)" in run.stdout


def test_script_that_never_trains_is_not_measured(tmp_path):
    script = tmp_path / "idle.py"
    script.write_text("print('hello')\n")
    run = run_script(script)
    assert (run.exit_code, run.outcome) == (2, "ended")
    assert "no training step" in run.text


def test_script_that_exits_immediately_is_explained(tmp_path):
    script = tmp_path / "gone.py"
    script.write_text("import os\nos._exit(3)\n")
    run = run_script(script)
    assert (run.exit_code, run.script_exit_code, run.report) == (2, 3, None)
    assert "os._exit" in run.explanation


def test_missing_script_is_explained():
    with pytest.raises(DiagnosisError, match="no such script"):
        run_script("nowhere.py")


TRAINER_IN_MAIN = """
import sys, time
import tensorflow as tf

class Trainer:
    def __init__(self):
        self.weights = tf.Variable(tf.ones((32, 32)))

    @tf.function
    def train_step(self, batch):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.matmul(batch, self.weights) ** 2)
        self.weights.assign_sub(1e-3 * tape.gradient(loss, self.weights))
        return loss

def main():
    trainer = Trainer()
    for step in range(20):
        trainer.train_step(tf.ones((8, 32)))

if __name__ == "__main__":
    main()
"""


def test_trainer_that_lives_inside_main_is_reported_with_its_ceiling(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(TRAINER_IN_MAIN)
    run = run_script(script)
    assert (run.outcome, run.exit_code) == ("ended", 0)
    assert run.report["time"]["steps"] == 20
    assert run.report["ceiling"]["step_alone_seconds"] > 0


@pytest.mark.parametrize(
    ("ending", "most_seconds"), [("os.kill(os.getpid(), signal.SIGKILL)", 60.0), ("time.sleep(600)", 2.0)]
)
def test_ceiling_that_crashes_or_does_not_end_costs_one_line(tmp_path, ending, most_seconds):
    """The script has left TensorFlow in a state in which its step cannot run again."""
    script = tmp_path / "train.py"
    script.write_text(f"""
import os, signal, time
from myxtts.diagnostics.observe import ceiling
ceiling.MOST_SECONDS = {most_seconds}
def measure(*_):
    {ending}
ceiling._measure_step = measure
{TRAINER_IN_MAIN}""")
    run = run_script(script)
    assert (run.outcome, run.exit_code) == ("ended", 0)
    assert run.report["time"]["steps"] == 20
    assert run.report["ceiling"]["step_reason"] == "it did not end"


def test_loader_that_prints_is_not_run_a_second_time(tmp_path):
    script = tmp_path / "train.py"
    source = TRAINER_IN_MAIN.replace("for step in range(20):", "for one in tf.data.Dataset.range(20).map(shown):")
    script.write_text(
        source.replace("class Trainer", "def shown(value):\n    tf.print(value)\n    return value\n\nclass Trainer")
    )
    run = run_script(script)
    assert "effects outside of TensorFlow (PrintV2)" in run.report["ceiling"]["loader_reason"]


def test_failure_in_the_first_steps_is_said_in_one_line(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("""
import keras, numpy as np, tensorflow as tf
model = keras.Sequential([keras.Input((2,)), keras.layers.Lambda(lambda x: tf.debugging.assert_less(x, 0.0) or x)])
model.compile("sgd", "mse")
model.fit(np.ones((8, 2)), np.ones((8, 2)), verbose=0)
""")
    run = run_script(script)
    assert run.outcome == "failed"
    assert len(run.explanation.splitlines()) == 1
    assert run.report["verdict"] == "could not measure: the training ended after 0 steps; at least 3 are needed"


def test_fit_step_that_calls_python_is_not_run_a_second_time(tmp_path):
    script = tmp_path / "fit.py"
    script.write_text("""
import keras
import numpy as np
import tensorflow as tf

def log(value):
    with open("log.txt", "a") as file:
        file.write("called\\n")
    return value

class Logged(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(2)
    def call(self, inputs):
        outputs = self.dense(inputs)
        return tf.ensure_shape(tf.py_function(log, [outputs], tf.float32), (None, 2))

model = Logged()
model.compile("sgd", "mse")
model.fit(np.ones((20, 3)), np.ones((20, 2)), batch_size=2, verbose=0)
""")
    run = subprocess.run(
        [sys.executable, "-m", "myxtts.cli", "diagnose", "run", "fit.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert "not measured: the step has effects outside of TensorFlow (EagerPyFunc)" in run.stdout
    plain = tmp_path / "plain"
    plain.mkdir()
    subprocess.run([sys.executable, str(script)], cwd=plain, check=True, capture_output=True, timeout=300)
    assert (tmp_path / "log.txt").read_text() == (plain / "log.txt").read_text()


@pytest.mark.parametrize(
    ("number", "explanation", "code"),
    [(signal.SIGINT, "The script was interrupted", 130), (signal.SIGTERM, "The script was terminated (SIGTERM)", 143)],
)
def test_signal_to_the_tool_alone_ends_the_script_and_still_gives_the_report(tmp_path, number, explanation, code):
    process, script_id = start_and_wait(tmp_path, "time.sleep(120)")
    process.send_signal(number)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 2
    assert explanation in output
    assert f"Its exit code: {code}" in output
    assert "20 steps" in output
    with pytest.raises(ProcessLookupError):
        os.kill(script_id, 0)


@pytest.mark.parametrize("is_for_all", [True, False])
def test_script_receives_an_interrupt_once(tmp_path, is_for_all):
    waiting = """
try:
    time.sleep(120)
except KeyboardInterrupt:
    time.sleep(2)  # a second interrupt would end this
    print("saved")
"""
    process, _ = start_and_wait(tmp_path, waiting)
    os.killpg(process.pid, signal.SIGINT) if is_for_all else process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert "saved" in output
    assert "20 steps" in output


def test_second_sigterm_ends_a_script_that_ignores_the_first(tmp_path):
    process, script_id = start_and_wait(tmp_path, "signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(120)")
    for _ in range(2):
        time.sleep(1)
        process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "ended by signal SIGKILL" in output
    with pytest.raises(ProcessLookupError):
        os.kill(script_id, 0)


def start_and_wait(folder: Path, then: str) -> tuple[subprocess.Popen, int]:
    """Start a diagnosis and wait until its training is over; its process and the id of the script's own."""
    after = f"\nimport signal, time\nopen('ready', 'w').write(str(os.getpid()))\n{then}\n"
    command = [sys.executable, "-m", "myxtts.cli", "diagnose", "run", str(write(folder, after=after)), "20"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder, start_new_session=True)
    deadline = time.monotonic() + 120
    while not (folder / "ready").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(0.5)
    return process, int((folder / "ready").read_text())


def test_module_runs_as_with_python_m(tmp_path):
    package = tmp_path / "voices"
    package.mkdir()
    (package / "__init__.py").write_text("ROWS = 8\n")
    (package / "train.py").write_text("from voices import ROWS\n" + TRAINING)
    command = [
        sys.executable,
        "-m",
        "myxtts.cli",
        "diagnose",
        "run",
        "--no-ceiling",
        "-m",
        "voices.train",
        "20",
        "--more",
    ]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert run.returncode == 0, run.stderr
    assert "['20', '--more'] __main__ train.py" in run.stdout
    assert "20 steps" in run.stdout


def test_notebook_runs_cell_by_cell_and_lines_name_the_cell(tmp_path):
    first, second = TRAINING.split("@tf.function")
    cells = [
        {"cell_type": "markdown", "source": ["# Training"]},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "!pip list\n", first]},
        {"cell_type": "code", "source": ("@tf.function" + second).replace("ROWS", "step + 1").replace("int(sys.argv[1])", "20")},
    ]  # fmt: skip
    notebook = tmp_path / "train.ipynb"
    notebook.write_text(json.dumps({"cells": cells, "nbformat": 4}))
    run = run_script(notebook, measure_ceiling=False)
    assert run.outcome == "ended", run.explanation
    finding = next(finding for finding in run.report["findings"] if finding["disease"] == "retrace-shape")
    assert (finding["file"], finding["line"]) == (f"{notebook}[2]", 1)


def test_limited_observation_leaves_the_script_alone_afterwards(tmp_path):
    after = "\nimport keras\nprint(type(train_step).__call__.__module__)\n"
    run = run_script(write(tmp_path, after=after), ["50"], measure_ceiling=False, steps=10)
    assert run.outcome == "ended", run.explanation
    assert run.report["time"]["steps"] == 10
    assert any("Observed until step 10" in note for note in run.report["notes"])


def test_training_in_a_thread_of_the_script_is_seen(tmp_path):
    script = tmp_path / "threaded.py"
    script.write_text(
        "import threading\n"
        + TRAINER_IN_MAIN.replace(
            "    main()\n", "    thread = threading.Thread(target=main)\n    thread.start()\n    thread.join()\n"
        )
    )
    run = run_script(script, measure_ceiling=False)
    assert run.report["time"]["steps"] == 20


def test_workers_and_standard_input_of_the_script_work_as_without_observation(tmp_path):
    before = "import multiprocessing, os, sys\nfork = multiprocessing.get_context('fork')\n"
    workers = "with fork.Pool(2) as pool:\n    print('workers', sum(pool.map(abs, [-1, 2])), input())\n"
    forked = "if os.fork() == 0:\n    sys.exit(3)\nprint('exit code', os.waitstatus_to_exitcode(os.wait()[1]))\n"
    script = tmp_path / "train.py"
    script.write_text(before + workers + forked + TRAINING.replace("ROWS", "8"))
    command = [sys.executable, "-m", "myxtts.cli", "diagnose", "run", "--no-ceiling", str(script), "20"]
    run = subprocess.run(command, input="a line\n", capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert run.stdout.startswith("workers 3 a line\nexit code 3\nloss")
    assert "20 steps" in run.stdout
    assert "Traceback" not in run.stderr


def test_training_in_another_process_is_not_measured_and_says_so(tmp_path):
    script = tmp_path / "train.py"
    busy = "import time\nwhile time.process_time() < 1.5: pass"
    script.write_text(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {busy!r}])\n")
    run = run_script(script)
    assert run.exit_code == 2
    assert "its child processes used" in run.report["verdict"]


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("class nn: pass\nimport sys\nsys.modules['torch'] = nn\n", "this is a PyTorch script"),
        ("import keras\nkeras.Model()\n", "runs Keras on jax"),
    ],
)
def test_other_frameworks_get_one_clear_line(tmp_path, source, line):
    keras = "class Model: pass\nclass backend:\n    backend = staticmethod(lambda: 'jax')\n"
    (tmp_path / "keras.py").write_text(keras)
    script = tmp_path / "other.py"
    script.write_text(source)
    run = run_script(script)
    assert run.exit_code == 2
    assert line in run.report["verdict"]
    assert "only TensorFlow" in run.report["verdict"]


def test_environment_of_the_script_is_the_users_own(tmp_path, monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "1")
    script = tmp_path / "environment.py"
    names = ("TF_CPU_ALLOCATOR_USE_BFC", "TF_CPP_MIN_LOG_LEVEL")
    script.write_text(
        f"import json, os\nopen('seen', 'w').write(json.dumps({{n: os.environ.get(n) for n in {names}}}))\n"
    )
    variables = {name: value for name, value in os.environ.items() if name not in ("TF_CPU_ALLOCATOR_USE_BFC",)}
    subprocess.run(
        [sys.executable, "-m", "myxtts.cli", "diagnose", "run", str(script)],
        cwd=tmp_path, env=variables, capture_output=True, timeout=300,
    )  # fmt: skip
    assert json.loads((tmp_path / "seen").read_text()) == {
        "TF_CPU_ALLOCATOR_USE_BFC": None,
        "TF_CPP_MIN_LOG_LEVEL": "1",
    }
