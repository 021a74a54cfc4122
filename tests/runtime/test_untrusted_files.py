"""Bounded reading: regular files up to a size, and nothing that blocks or never ends."""

import os
import socket

import pytest

from myxtts.runtime.untrusted_files import check_regular_file, open_regular_file, read_regular_file


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
    monkeypatch.setattr("myxtts.runtime.untrusted_files.check_regular_file", lambda path: None)
    with pytest.raises(OSError, match="not a regular file"):
        open_regular_file(path)
