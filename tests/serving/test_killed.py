"""`kill -9` of a server or studio leaves nothing broken: no file of an upload, no name that cannot be used again."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import psutil
import pytest

pytest.importorskip("uvicorn", reason="the extra `serve` or `test` is not installed")

from myxtts.errors import CorpusError, TrainingError
from myxtts.serving import processes, recorder
from myxtts.serving.processes import Launch, is_unused
from myxtts.serving.runs import TrainingWish, describe_run, find_runs, start_training
from tests.serving.test_app import free_port, wait_until
from tests.synthesis.tiny_voice import write_recording, write_voice

START_SECONDS = 120


class Server:
    """`myxtts serve` or `studio` as a process whose temporary files go to a folder of the test."""

    def __init__(self, folder, *words: str):
        self.port = free_port()
        self.temporary = folder / "temporary"
        self.temporary.mkdir(exist_ok=True)
        self.output = folder / "output.txt"
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "myxtts.cli", *words, f"--port={self.port}", "--threads=1"],
                stdout=output,
                stderr=output,
                env=os.environ | {"TMPDIR": str(self.temporary)},
            )

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            assert self.process.poll() is None, self.output.read_text()
            assert time.monotonic() < deadline, self.output.read_text()
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/ready", timeout=5).close()
                return
            time.sleep(0.1)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def start(tmp_path):
    servers = []

    def start_server(*words):
        servers.append(Server(tmp_path, *words))
        servers[-1].wait_until_ready()
        return servers[-1]

    yield start_server
    for server in servers:
        server.kill()


def upload_of(recording: bytes, port: int, path: str, **fields: str) -> bytes:
    parts = "".join(
        f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields.items()
    )
    parts += '--x\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
    body = parts.encode() + recording + b"\r\n--x--\r\n"
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n"
        f"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def send_and_kill(server: Server, content: bytes, *, is_whole: bool) -> None:
    """Kill a server that has half of an upload, or that has all of it and is decoding it."""
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(content if is_whole else content[: len(content) // 2])
        if is_whole:
            wait_for_child(server)
        else:
            time.sleep(0.3)
        server.kill()


def wait_for_child(server: Server) -> None:
    deadline = time.monotonic() + 30
    while not psutil.Process(server.process.pid).children() and time.monotonic() < deadline:
        time.sleep(0.002)


def files_in(folder) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_a_server_killed_in_the_middle_of_an_upload_leaves_no_file(start, tmp_path):
    voice = write_voice(tmp_path / "duo", ("anna", "ben"))
    speakers = tmp_path / "speakers"
    recording = write_recording(tmp_path / "a.wav", seconds=60.0).read_bytes()  # more than stays in memory
    words = ("serve", f"--voice={voice}", f"--speakers={speakers}", "--keep-recordings")
    for is_whole in (False, True):
        server = start(*words)
        content = upload_of(recording, server.port, "/v1/audio/speakers", name="carl", keep_recording="true")
        send_and_kill(server, content, is_whole=is_whole)
        assert files_in(server.temporary) == []
        assert files_in(speakers) == []
    server = start(*words)
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(upload_of(recording, server.port, "/v1/audio/speakers", name="carl"))
        assert client.recv(100).startswith(b"HTTP/1.1 201")


def test_a_studio_killed_with_references_in_memory_leaves_no_file(start, tmp_path):
    voice = write_voice(tmp_path / "duo", ("anna", "ben"))
    recording = write_recording(tmp_path / "a.wav").read_bytes()
    server = start("studio", str(tmp_path / "workspace"), f"--voice={voice}", "--no-browser")
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(upload_of(recording, server.port, "/studio/api/clones"))
        assert client.recv(100).startswith(b"HTTP/1.1 200")
    server.kill()
    assert files_in(server.temporary) == []
    start("studio", str(tmp_path / "workspace"), f"--voice={voice}", "--no-browser")  # the lock is free again


KILLED_START = """
import os, signal, sys
from pathlib import Path
from myxtts.runtime import safe_files
from myxtts.serving import processes

moments = iter(range(100))
def maybe_die(*_):
    if next(moments) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

real_replace, real_popen = os.replace, processes.subprocess.Popen
def replace(*arguments):
    maybe_die()
    real_replace(*arguments)
    maybe_die()
def popen(*arguments, **options):
    maybe_die()
    process = real_popen(*arguments, **options)
    print(process.pid, flush=True)
    maybe_die()
    return process
safe_files.os.replace, processes.subprocess.Popen = replace, popen
processes.launch(Path(sys.argv[1]), processes.Launch(("--version",), minutes=5.0))
"""
"""A start that is killed before or after each of its steps: launch.json, the process, launch.json with its id."""


@pytest.mark.parametrize("moment", range(6))
def test_a_training_start_that_is_killed_can_be_repeated(tmp_path, moment):
    folder = tmp_path / "runs" / "mine"
    killed = subprocess.run([sys.executable, "-c", KILLED_START, str(folder), str(moment)], capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    if killed.stdout:  # a `myxtts --version` without a parent
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(int(killed.stdout)).wait(30)
    if moment == 0:  # before anything has its name: the name is free
        assert find_runs(tmp_path) == {}
        assert is_unused(folder)
    else:
        assert list(find_runs(tmp_path)) == ["runs/mine"]
        found = describe_run(folder)
        assert (found["is_running"], found["can_resume"]) == (False, True)
        with pytest.raises(TrainingError, match="already"):
            start_training(folder, TrainingWish(None, "bundled", "tiny", None, 1.0))
    started = processes.launch(folder, Launch(("--version",)))
    assert json.loads((folder / processes.LAUNCH_NAME).read_text())["process_id"] == started.process_id
    wait_until(lambda: not started.is_alive())


def test_a_corpus_whose_making_was_killed_can_be_made_again(tmp_path):
    (tmp_path / "mine" / "wavs").mkdir(parents=True)
    (tmp_path / "mine" / ".0a1b2c3d.99.0.partial").write_text("{")
    recorder.create_corpus(tmp_path, "mine", "en", "ruth")
    with pytest.raises(CorpusError, match="already"):
        recorder.create_corpus(tmp_path, "mine", "en", "ruth")
