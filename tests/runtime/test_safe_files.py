"""Files are read within bounds, and written whole or not at all."""

import errno
import os
import socket
import subprocess
import sys

import pytest

from myxtts.runtime.safe_files import (
    append_whole,
    cause_of,
    check_regular_file,
    open_regular_file,
    read_regular_file,
    remove_unfinished,
    replacing,
    replacing_folder,
    temporary_path,
    visible_subfolders,
    write_atomically,
)
from myxtts.runtime.worker_process import child_environment


def test_a_regular_file_and_a_link_to_it_are_read_whole(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"four")
    link = tmp_path / "link"
    link.symlink_to(path)
    assert read_regular_file(path, 4) == read_regular_file(str(link), 100) == b"four"


def test_a_file_larger_than_the_limit_is_rejected_with_the_limit(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 2049)
    with pytest.raises(OSError, match="it is larger than 2 KiB"):
        read_regular_file(path, 2048)


def test_subfolders_are_listed_by_name_without_hidden_ones_and_files(tmp_path):
    for name in ("b", "a", ".hidden"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").touch()
    assert visible_subfolders(tmp_path) == [tmp_path / "a", tmp_path / "b"]
    assert visible_subfolders(tmp_path / "missing") == []


def test_a_pipe_that_nobody_writes_to_is_rejected_without_waiting(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(OSError, match="it is a pipe, not a regular file"):
        read_regular_file(path, 10)


def test_devices_folders_and_sockets_are_rejected_by_kind(tmp_path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "socket"))
    kinds = {"/dev/zero": "a device", str(tmp_path): "a folder", str(tmp_path / "socket"): "a socket"}
    for path, kind in kinds.items():
        with pytest.raises(OSError, match=f"it is {kind}, not a regular file"):
            read_regular_file(path, 10)


def test_a_missing_file_keeps_its_usual_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        open_regular_file(tmp_path / "missing")


def test_a_name_with_a_nul_character_is_an_os_error():
    with pytest.raises(OSError, match="NUL"):
        check_regular_file("a\0b")


def test_a_pipe_that_replaces_the_file_after_the_check_is_rejected_without_waiting(tmp_path, monkeypatch):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    monkeypatch.setattr("myxtts.runtime.safe_files.check_regular_file", lambda path: None)
    with pytest.raises(OSError, match="not a regular file"):
        open_regular_file(path)


def test_a_written_file_holds_the_whole_content_and_leaves_nothing_next_to_it(tmp_path):
    write_atomically(tmp_path / "a.json", "سلام")
    assert (tmp_path / "a.json").read_text(encoding="utf-8") == "سلام"
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_failed_write_keeps_the_old_file_and_removes_the_temporary_one(tmp_path):
    target = tmp_path / "a.bin"
    target.write_bytes(b"old")

    def write_half() -> None:
        with replacing(target) as temporary:
            temporary.write_bytes(b"ne")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        write_half()
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.bin"]


def test_a_pipe_and_a_device_are_not_replaced_by_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/null")
    for name, kind in (("pipe", "a pipe"), ("device", "a device")):
        with pytest.raises(OSError, match=f"it is {kind}, not a regular file"):
            write_atomically(tmp_path / name, b"x")
    assert sorted(os.listdir(tmp_path)) == ["device", "pipe"]
    assert (tmp_path / "device").is_symlink()


def test_names_as_long_as_the_file_system_allows_can_be_replaced(tmp_path):
    target = tmp_path / ("n" * 255)
    write_atomically(target, b"x")
    assert target.read_bytes() == b"x"


def test_a_folder_replaces_the_one_that_was_there(tmp_path):
    for content in ("old", "new"):
        with replacing_folder(tmp_path / "voice") as temporary:
            (temporary / content).write_text(content)
    assert os.listdir(tmp_path / "voice") == ["new"]
    assert os.listdir(tmp_path) == ["voice"]


def test_a_path_through_the_folder_itself_replaces_it(tmp_path):
    for content in ("old", "new"):
        (tmp_path / "voice").mkdir(exist_ok=True)
        with replacing_folder(tmp_path / "voice" / ".." / "voice") as temporary:
            (temporary / content).write_text(content)
    assert os.listdir(tmp_path / "voice") == ["new"]
    assert os.listdir(tmp_path) == ["voice"]


def test_a_folder_that_cannot_be_finished_leaves_the_old_one(tmp_path):
    with replacing_folder(tmp_path / "voice") as temporary:
        (temporary / "old").write_text("")

    def write_on_a_full_disk() -> None:
        with replacing_folder(tmp_path / "voice") as temporary:
            (temporary / "new").write_text("")
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_on_a_full_disk()
    assert os.listdir(tmp_path / "voice") == ["old"]
    assert os.listdir(tmp_path) == ["voice"]


def test_a_full_disk_is_named_as_the_cause():
    assert cause_of(OSError(errno.ENOSPC, "No space left on device")) == "the disk is full"
    assert cause_of(OSError(errno.EACCES, "Permission denied")) == "Permission denied"


def test_a_log_gets_its_header_once_and_every_line_whole(tmp_path):
    for line in (b"1\n", b"2\n"):
        append_whole(tmp_path / "log.csv", line, header=b"step\n")
    assert (tmp_path / "log.csv").read_bytes() == b"step\n1\n2\n"


def test_a_line_that_does_not_fit_is_removed_again(tmp_path):
    """The largest file allowed is a disk that fills up in the middle of a line."""
    resource = pytest.importorskip("resource")
    code = (
        "import resource, sys; from pathlib import Path; from myxtts.runtime.safe_files import append_whole\n"
        f"resource.setrlimit({resource.RLIMIT_FSIZE}, (100, 100))\n"
        "path = Path(sys.argv[1]); append_whole(path, b'x' * 60)\n"
        "try:\n    append_whole(path, b'y' * 60)\n"
        "except OSError:\n    sys.exit(7)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "log")], check=False)
    assert done.returncode == 7
    assert (tmp_path / "log").read_bytes() == b"x" * 60


def test_what_a_killed_process_was_writing_is_removed_and_what_a_living_one_writes_stays(tmp_path):
    code = (
        "import os, pathlib; from myxtts.runtime.safe_files import replacing\n"
        f"with replacing({str(tmp_path / 'a.wav')!r}) as file: file.touch(); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code], env=child_environment())
    (left,) = tmp_path.iterdir()
    (tmp_path / ".hidden.partial").touch()
    with replacing(tmp_path / "a.wav") as written:
        written.touch()
        remove_unfinished(tmp_path, ["b.wav"])
        assert left.exists()
        remove_unfinished(tmp_path, ["b.wav", "a.wav"])
        assert not left.exists()
        assert written.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".hidden.partial", "a.wav"]


def test_a_process_that_got_the_id_of_a_killed_one_does_not_keep_its_file(tmp_path):
    """In a container a program often has the same id in every run."""
    left = temporary_path(tmp_path / "a.wav")
    left.touch()
    os.utime(left, (1.0, 1.0))
    remove_unfinished(tmp_path, ["a.wav"])
    assert not left.exists()
