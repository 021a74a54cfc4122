"""The monitor: one line of CSV for each sample, with the metrics of the run that it watches."""

import csv
import os
import subprocess
import sys
import time

import pytest

from myxtts.cli import EXIT_USER_ERROR, main
from myxtts.diagnostics.monitor import CSV_COLUMNS, open_csv_log, reading_line, readings
from myxtts.errors import DiagnosisError
from myxtts.runtime.status import StatusWriter


def start_run(folder, busy: float = 0.3, wait: float = 0.1) -> StatusWriter:
    writer = StatusWriter(folder, interval_seconds=0)
    for step in range(1, 6):
        writer.add_step(step, wait, 0.0, busy)
    writer.update(state="training", step=5, retraces=0)
    return writer


def test_running_training_is_found_by_its_folder(tmp_path):
    start_run(tmp_path)
    reading = next(readings(5.0, 0.01, tmp_path))
    assert reading.is_running
    assert reading.busy_fraction == pytest.approx(0.75)
    assert reading.wait_fraction == pytest.approx(0.25)
    assert "run training at step 5: busy 75 %" in reading_line(reading)


def test_log_has_one_header_and_one_line_for_each_sample(tmp_path):
    start_run(tmp_path)
    for _ in range(2):
        log = open_csv_log(tmp_path / "log.csv")
        log.add(next(readings(5.0, 0.01, tmp_path)))
        log.close()
    rows = list(csv.reader((tmp_path / "log.csv").read_text().splitlines()))
    assert tuple(rows[0]) == CSV_COLUMNS
    assert len(rows) == 3
    assert dict(zip(CSV_COLUMNS, rows[1], strict=True))["busy_percent"] == "75.0"


def test_command_ends_after_its_duration_and_logs(tmp_path, capsys):
    start_run(tmp_path)
    started = time.monotonic()
    code = main(
        [
            "monitor",
            "--log-file",
            str(tmp_path / "m.csv"),
            "--duration",
            "0.3",
            "--interval",
            "0.1",
            "--run",
            str(tmp_path),
        ]
    )
    assert code == 0
    assert time.monotonic() - started < 30
    assert "at step 5" in capsys.readouterr().out
    assert len((tmp_path / "m.csv").read_text().splitlines()) >= 2


def test_folder_without_a_run_is_explained(tmp_path, capsys):
    assert main(["monitor", "--duration", "1", "--run", str(tmp_path)]) == 2
    assert "checkpoint folder" in capsys.readouterr().err


def test_interval_of_nothing_is_refused():
    with pytest.raises(DiagnosisError, match="interval"):
        next(readings(1.0, 0.0))


def test_log_that_cannot_be_written_is_explained(tmp_path):
    with pytest.raises(DiagnosisError, match="Name another file"):
        open_csv_log(tmp_path / "missing" / "log.csv")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_log_that_is_a_pipe_is_refused_and_no_reader_is_awaited(tmp_path):
    os.mkfifo(tmp_path / "log.csv")
    command = [
        sys.executable,
        "-m",
        "myxtts.cli",
        "monitor",
        "--duration",
        "0.1",
        "--log-file",
        str(tmp_path / "log.csv"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (EXIT_USER_ERROR, "")
    assert done.stderr.count("\n") == 1
    assert "it is a pipe, not a regular file" in done.stderr
