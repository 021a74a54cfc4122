"""Two trainings in one run folder: the second is refused before it touches anything; a killed one blocks nobody."""

import os
import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest

from myxtts.errors import TrainingError
from myxtts.runtime.locks import RunLock

HOLD = """
import sys
from pathlib import Path
from myxtts.runtime.locks import RunLock
with RunLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_training(folder):
    """A process that holds the lock of a folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_second_process_is_refused_with_the_name_of_the_first(tmp_path):
    with another_training(tmp_path) as first:
        expected = rf"process {first.pid} on {socket.gethostname()}, since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d"
        with pytest.raises(TrainingError, match=rf"Another training uses {tmp_path}: {expected}\. .*--checkpoint-dir"):
            RunLock(tmp_path).acquire()


def test_the_lock_of_a_killed_process_blocks_nobody(tmp_path):
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
