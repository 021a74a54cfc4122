"""Folder locks: a second process is rejected or waits, and a killed one leaves no lock behind."""

import os
import socket
import threading

import pytest

from myxtts.errors import TrainingError
from myxtts.runtime.locks import FolderIsLocked, FolderLock, RunLock
from tests.runtime.other_process import another_training


def test_a_second_process_is_rejected_with_the_id_of_the_first(tmp_path):
    with another_training(tmp_path) as first:
        expected = rf"process {first.pid} on {socket.gethostname()}, since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d"
        with pytest.raises(TrainingError, match=rf"Another training uses {tmp_path}: {expected}\. .*--checkpoint-dir"):
            RunLock(tmp_path).acquire()


def test_a_killed_process_leaves_no_lock_behind(tmp_path):
    with another_training(tmp_path) as first:
        first.kill()
        first.wait()
        assert (tmp_path / "run.lock.json").exists()
        with RunLock(tmp_path):
            assert f'"process_id": {os.getpid()}' in (tmp_path / "run.lock.json").read_text()
    assert not (tmp_path / "run.lock.json").exists()


def test_a_released_folder_can_be_locked_by_another_process(tmp_path):
    with RunLock(tmp_path), RunLock(tmp_path):  # the trainers of one process share it
        pass
    with another_training(tmp_path):
        pass


def test_a_folder_that_cannot_be_locked_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainingError, match=r"The run folder .*file.* cannot be locked: .*--checkpoint-dir"):
        RunLock(tmp_path / "file" / "run").acquire()


def test_locks_of_one_process_exclude_each_other_unless_they_are_shared(tmp_path):
    with FolderLock(tmp_path, "lock"), pytest.raises(FolderIsLocked, match=f"process {os.getpid()} on"):
        FolderLock(tmp_path, "lock").acquire()


def test_waiting_announces_the_holder_and_ends_when_it_releases(tmp_path, monkeypatch):
    monkeypatch.setattr("myxtts.runtime.locks.POLL_SECONDS", 0.05)
    holder, waiter, lines = FolderLock(tmp_path, "lock"), FolderLock(tmp_path, "lock"), []
    holder.acquire()
    timer = threading.Timer(0.3, holder.release)
    timer.start()
    waiter.wait(lines.append)
    timer.join()
    waiter.release()
    assert len(lines) == 1
    assert lines[0].startswith(f"Waiting for process {os.getpid()} on ")
