"""Runs as folders and processes: states, curves, verdicts, and the processes that are started and ended."""

import json
import signal
import subprocess
import sys
import time

import psutil
import pytest

from myxtts.diagnostics.observe.rules_input import WAIT_FRACTION
from myxtts.errors import TrainingError
from myxtts.runtime.status import StatusWriter, read_status
from myxtts.serving import processes, runs
from myxtts.serving.processes import Launch, read_launch
from myxtts.serving.runs import TrainingWish, describe_run, find_runs, judge


@pytest.fixture
def sleeper():
    """A process that ends on SIGTERM."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


def write_status(folder, process=None, **fields):
    writer = StatusWriter(folder)
    if process is not None:
        writer._fixed = {"process_id": process.pid, "process_start": psutil.Process(process.pid).create_time()}
    writer.update(force=True, **fields)


def write_launch(folder, process=None, **fields):
    known = {}
    if process is not None:
        known = {"process_id": process.pid, "process_start": psutil.Process(process.pid).create_time()}
    processes._write_launch(folder, Launch(**({"arguments": ("train",)} | known | fields)))


def wait_until(is_true):
    deadline = time.monotonic() + 20
    while not is_true() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert is_true()


def test_runs_of_a_terminal_and_of_the_studio_are_found(tmp_path):
    write_status(tmp_path / "checkpointsmain")
    write_launch(tmp_path / "runs" / "mine")
    write_launch(tmp_path / "evaluations" / "e", arguments=("evaluate",))
    assert set(find_runs(tmp_path)) == {"checkpointsmain", "runs/mine"}


def test_the_state_follows_the_process_and_the_status(tmp_path, sleeper):
    folder = tmp_path / "run"
    write_launch(folder, sleeper)
    assert describe_run(folder)["state"] == "starting"
    write_status(folder, sleeper, state="training", step=7)
    assert describe_run(folder)["state"] == "training"
    processes.end_process(folder, "pause")
    sleeper.wait()
    assert describe_run(folder)["state"] == "paused"
    assert describe_run(folder)["can_resume"]


def test_a_run_whose_process_was_killed_is_interrupted(tmp_path, sleeper):
    folder = tmp_path / "run"
    write_launch(folder, sleeper)
    write_status(folder, sleeper, state="training", step=7)
    sleeper.send_signal(signal.SIGKILL)
    sleeper.wait()
    assert describe_run(folder)["state"] == "interrupted"


def test_a_killed_start_leaves_a_run_that_can_be_started_again(tmp_path):
    """launch.json exists before the process does."""
    write_launch(tmp_path / "run", arguments=("train", "--max-minutes", "5"), minutes=5.0)
    found = describe_run(tmp_path / "run")
    assert (found["state"], found["can_resume"]) == ("interrupted", True)


def test_a_run_is_asked_to_end_only_once(tmp_path):
    """A second signal would end a training without saving."""
    code = (
        "import signal, sys, time, pathlib\n"
        "count = [0]\n"
        "def on(*_):\n"
        "    count[0] += 1\n"
        "    pathlib.Path(sys.argv[1]).write_text(str(count[0]))\n"
        "signal.signal(signal.SIGTERM, on)\n"
        "pathlib.Path(sys.argv[1]).write_text('0')\n"
        "while True: time.sleep(0.05)\n"
    )
    counter = tmp_path / "count"
    process = subprocess.Popen([sys.executable, "-c", code, str(counter)])
    try:
        wait_until(counter.exists)
        write_launch(tmp_path / "run", process)
        processes.end_process(tmp_path / "run", "pause")
        wait_until(lambda: counter.read_text() == "1")
        processes.end_process(tmp_path / "run", "stop")
        time.sleep(0.3)
        assert counter.read_text() == "1"
        assert read_launch(tmp_path / "run").wish == "stop"
    finally:
        process.kill()
        process.wait()


def test_a_started_process_writes_its_output_and_its_id(tmp_path):
    folder = tmp_path / "run"
    started = processes.launch(folder, Launch(("--version",)))
    wait_until(lambda: not started.is_alive())
    assert "myxtts" in processes.read_output(folder / processes.OUTPUT_NAME)
    assert read_launch(folder) == started


def test_the_command_of_a_wish_is_one_that_train_accepts(tmp_path):
    from myxtts.cli import build_parser
    from myxtts.commands.config_flags import config_of

    for start in (None, tmp_path):
        wish = TrainingWish(tmp_path, "corpus", "small", start, 12.5, "fa")
        config = config_of(build_parser("train").parse_args(wish.arguments(tmp_path / "run")))
        assert config.training.max_minutes == 12.5
        assert config.data.language == "fa"
        assert config.model.size == ("small" if start is None else "auto")


def test_a_second_run_of_the_same_name_is_refused(tmp_path):
    write_launch(tmp_path / "run")
    with pytest.raises(TrainingError, match="already"):
        runs.start_training(tmp_path / "run", TrainingWish(None, "bundled", "tiny", None, 1.0))


def test_the_log_is_read_once_and_a_resumed_step_replaces_the_old_one(tmp_path):
    log = tmp_path / "log.jsonl"
    lines = [{"kind": "train", "step": step, "loss": 1 / step} for step in (1, 2, 3)]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"kind": "tr')
    curves = runs._Curves(log)
    curves.read()
    assert [step for step, _ in curves.points["train"]] == [1, 2, 3]
    with open(log, "a") as file:
        file.write('ain", "step": 2, "loss": 0.1}\n{"kind": "train", "step": 4, "loss": "nan"}\nrubbish\n')
    curves.read()
    assert curves.points["train"] == [(1, 1.0), (2, 0.1)]


def test_thin_curves_keep_their_mean_and_last_step():
    points = [(step, float(step)) for step in range(1000)]
    thin = runs.thin_out(points, 100)
    assert len(thin) == 100
    assert thin[-1][0] == 999
    assert sum(value for _, value in thin) / 100 == pytest.approx(499.5)


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({}, "busy"),
        ({"wait_share": 0.4}, "input"),
        ({"host_share": 0.3}, "host"),
        ({"retraces": 2, "wait_share": 0.4}, "retracing"),
        ({"step_cv": 0.8}, "unsteady"),
        ({"figures": {"padding_share": 0.7}}, "padding"),
    ],
)
def test_the_verdict_names_the_most_expensive_problem(tmp_path, fields, kind):
    write_status(tmp_path, **{"step": 100, "mean_step_seconds": 0.2, "device_share": 0.95} | fields)
    status = read_status(tmp_path)
    assert judge(status, status.figures, 0)["kind"] == kind


def test_waiting_is_named_from_the_fraction_of_the_diagnosis():
    assert runs.WAITING_FRACTION == WAIT_FRACTION


def test_nothing_is_judged_before_there_are_steps(tmp_path):
    write_status(tmp_path, step=3, mean_step_seconds=0.2)
    assert judge(read_status(tmp_path), {}, 0) is None


def test_time_left_is_the_earlier_of_the_last_step_and_the_deadline(tmp_path):
    now = time.time()
    write_status(tmp_path, step=10, total_steps=110, mean_step_seconds=2.0, deadline_unix_seconds=now + 50)
    assert runs._left_seconds(read_status(tmp_path)) == pytest.approx(50, abs=5)
    write_status(tmp_path, step=10, total_steps=20, mean_step_seconds=2.0, deadline_unix_seconds=now + 50)
    assert runs._left_seconds(read_status(tmp_path)) == pytest.approx(20)


def test_samples_are_grouped_by_sentence_with_the_newest_first(tmp_path):
    (tmp_path / "samples").mkdir()
    for step in (500, 1000):
        for name in (f"step-{step:08d}-en-0.wav", f"step-{step:08d}-en-us-1.wav"):
            (tmp_path / "samples" / name).write_bytes(b"")
    found = runs.find_samples(tmp_path)
    assert [(each["language"], each["index"], each["steps"]) for each in found] == [
        ("en", 0, [1000, 500]),
        ("en-us", 1, [1000, 500]),
    ]
    assert runs.sample_file(tmp_path, "en-us", 1, 500).is_file()
    assert runs.sample_file(tmp_path, "../../etc", 1, 500) is None


def test_output_is_plain_text_without_redrawn_progress(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b"\x1b[1mstart\x1b[0m\n1 %\r2 %\r3 %\nend\n")
    assert processes.read_output(path) == "start\n3 %\nend\n"
    assert processes.last_line(path) == "end"
