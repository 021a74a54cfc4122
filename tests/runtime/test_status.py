"""The status of a run: written at a bounded rate, read back whole, and not mistaken for a running one after its end."""

import dataclasses

import pytest

from myxtts.errors import DiagnosisError
from myxtts.runtime import status
from myxtts.runtime.status import StatusWriter, read_status, read_steps


def test_a_written_status_is_read_back(tmp_path):
    writer = StatusWriter(tmp_path, interval_seconds=0)
    writer.update(state="training", step=7, wait_share=0.25, figures={"loss": 1.5})
    read = read_status(tmp_path)
    assert (read.state, read.step, read.wait_share, read.figures) == ("training", 7, 0.25, {"loss": 1.5})
    assert read.is_running()


def test_updates_are_bounded_in_rate_and_a_forced_one_writes_all_fields(tmp_path):
    writer = StatusWriter(tmp_path, interval_seconds=1000)
    assert writer.update(step=1)
    assert not writer.update(step=2)
    assert writer.update(force=True, state="finished")
    assert (read_status(tmp_path).step, read_status(tmp_path).state) == (2, "finished")


def test_steps_are_appended_across_runs_and_an_incomplete_line_is_skipped(tmp_path):
    for step in (1, 2):
        writer = StatusWriter(tmp_path, interval_seconds=0)
        writer.add_step(step, 0.1, 0.2, 0.3, group=4)
        writer.update(step=step)
    with open(tmp_path / status.STEPS_FILE, "a") as file:
        file.write("3,17")
    steps = read_steps(tmp_path)
    assert steps["step"].tolist() == [1, 2]
    assert steps["device_seconds"].tolist() == [0.3, 0.3]
    assert read_steps(tmp_path, last=1)["step"].tolist() == [2]


def test_the_last_steps_of_a_long_run_are_read_from_the_end_of_the_file(tmp_path, monkeypatch):
    writer = StatusWriter(tmp_path, interval_seconds=0)
    for step in range(9000):
        writer.add_step(step, 0.1, 0.2, 0.3)
    writer.update(step=9000)
    parsed = []
    monkeypatch.setattr(status, "int", lambda text: parsed.append(text) or int(text), raising=False)
    assert read_steps(tmp_path, last=20)["step"].tolist() == list(range(8980, 9000))
    assert len(parsed) < 200
    assert read_steps(tmp_path, last=9500)["step"].tolist() == list(range(9000))


def test_a_long_run_starts_a_new_file(tmp_path, monkeypatch):
    monkeypatch.setattr(status, "MOST_BYTES_OF_STEPS", 140)
    writer = StatusWriter(tmp_path, interval_seconds=0)
    for step in range(3):  # the header has 68 bytes, each line 46
        writer.add_step(step, 0, 0, 0)
        writer.update(step=step)
    assert read_steps(tmp_path)["step"].tolist() == [2]
    assert (tmp_path / status.OLDER_STEPS_FILE).exists()


def test_a_reused_process_id_is_not_taken_for_the_run(tmp_path):
    writer = StatusWriter(tmp_path)
    writer.update(step=1)
    other = dataclasses.replace(read_status(tmp_path), process_start=1.0)
    assert not other.is_running()


def test_a_folder_without_a_run_is_an_error_that_names_what_was_expected(tmp_path):
    with pytest.raises(DiagnosisError, match="checkpoint folder"):
        read_status(tmp_path)
    (tmp_path / status.STATUS_FILE).write_text("{}")
    with pytest.raises(DiagnosisError, match="not the status"):
        read_status(tmp_path)
    assert len(read_steps(tmp_path)) == 0
