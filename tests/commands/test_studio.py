"""`myxtts studio`: what is wrong is said in one line before anything is served."""

import socket

import pytest

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")

from myxtts.cli import main
from myxtts.runtime.locks import FolderLock


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_port_that_is_taken_is_refused(tmp_path, capsys):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert main(["studio", str(tmp_path), "--port", str(port), "--no-browser"]) == 2
    assert str(port) in capsys.readouterr().err


def test_a_second_studio_in_a_workspace_is_refused(tmp_path, capsys):
    with FolderLock(tmp_path, "studio.lock"):
        assert main(["studio", str(tmp_path), "--port", str(free_port()), "--no-browser"]) == 2
    assert "Another studio" in capsys.readouterr().err


@pytest.mark.parametrize(("flag", "value"), [("--threads", "0"), ("--corpus", "no-such-folder")])
def test_values_that_make_no_studio_are_refused(tmp_path, capsys, flag, value):
    assert main(["studio", str(tmp_path), "--port", str(free_port()), "--no-browser", flag, value]) == 2
    assert flag in capsys.readouterr().err
