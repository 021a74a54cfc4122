"""One worker process: how it is started, what it is sent, and what it runs.

The module of a worker calls `serve_jobs` with a function that builds its jobs from a setup:

    def build_jobs(setup):                        # once per process: load models, read settings
        def length(text):                         # any JSON value in; a dict and bytes out
            return {"length": len(text)}, b""
        return {"length": length}

    if __name__ == "__main__":
        sys.exit(serve_jobs(build_jobs))

Protocol: the setup and the requests (`{"kind": …, "items": […]}`) are JSON lines on standard input; a result is two sizes
(`RESULT_HEAD`), a JSON head and raw bytes on standard output.

`module_command` and `child_environment` start any other module of the package in a process of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import site
import struct
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, BinaryIO

import myxtts
from myxtts.errors import MyXTTSError
from myxtts.runtime.safe_files import cause_of

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

RESULT_HEAD = struct.Struct("<II")
"""Sizes in bytes of a result's JSON head and of its payload."""
MOST_REQUEST_BYTES = 32_768
"""Bytes of requests on their way to one worker: less than a pipe holds, so that sending never waits for a result."""
PIPE_BYTES = 1 << 20
"""Size of the pipe for results: several clips, so that a worker continues while the caller writes. An unprivileged user may own
64 such pipes (Linux's pipe-user-pages-soft); further pipes keep the default size."""
KEPT_BYTES = 256 << 20
"""Freed memory that a worker keeps for the next job (glibc's variables): requesting it again costs a tenth of the time."""
NICENESS = 10
"""Added by `os.nice` in a process that works next to a training, so that the training goes first."""
LAST_SECONDS = 5.0
"""How long a worker that closed its output may take to exit."""

Job = Callable[[Any], tuple[dict[str, Any], Any]]
"""An item → the head and the payload (bytes, or anything with the buffer protocol) of its result."""


def serve_jobs(build_jobs: Callable[[dict[str, Any]], Mapping[str, Job]]) -> int:
    """The main function of a worker: build the jobs from the setup, then do them until the pool closes. Returns an exit code.

    What libraries print goes to standard error, so that it cannot damage the results. An exception that a job raises ends the
    worker: the pool reports it as a crash with the last line of the traceback.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    results = os.fdopen(os.dup(1), "wb", buffering=PIPE_BYTES)
    os.dup2(2, 1)
    try:
        requests = sys.stdin.buffer
        jobs = build_jobs(json.loads(requests.readline()))
        _write_result(results, {"ready": True}, b"")
        for line in requests:
            request = json.loads(line)
            for item in request["items"]:
                _write_result(results, *jobs[request["kind"]](item))
    except BrokenPipeError:
        os._exit(1)  # the pool is gone, so no message can be read
    return 0


def module_command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module with this Python, without the current folder on its import path."""
    return [sys.executable, "-P", "-m", module, *arguments]


def child_environment() -> dict[str, str]:
    """This process's environment, in which a child can import this very package from any folder.

    A package in a site-packages folder is found without help. That folder must not be on PYTHONPATH, which comes before the
    standard library: packages such as resemblyzer's `typing` install modules with names of the standard library there.
    """
    package_parent = Path(myxtts.__file__).resolve().parent.parent
    known = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    if package_parent in _site_folders():
        path = [folder for folder in known if not _has_other_copy(Path(folder), package_parent)]
    else:
        path = [str(package_parent), *(folder for folder in known if folder != str(package_parent))]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return environment | ({"PYTHONPATH": os.pathsep.join(path)} if path else {})


def _site_folders() -> set[Path]:
    """The site-packages folders in which every Python that this one starts searches, after the standard library."""
    folders = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    return {Path(folder).resolve() for folder in folders}


def _has_other_copy(folder: Path, package_parent: Path) -> bool:
    """Whether a child would import another copy of the package from a folder of PYTHONPATH; this process did not."""
    return (folder / "myxtts" / "__init__.py").is_file() and folder.resolve() != package_parent


def start_worker(module: str, setup: Mapping[str, Any]) -> WorkerProcess:
    try:
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
    except OSError as error:
        raise MyXTTSError(
            f"No temporary file can be created: {cause_of(error)}. Free some space, or name another folder: TMPDIR=FOLDER."
        ) from None
    environment = child_environment() | {
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
        **dict.fromkeys(("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"), str(KEPT_BYTES)),
    }
    try:
        process = subprocess.Popen(
            module_command(module),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
            process_group=0,  # Ctrl-C reaches the caller alone, which then ends its workers in order
        )
    except OSError as error:  # too many processes, files or pipes for this user, or no memory
        errors.close()
        raise MyXTTSError(
            f"A worker process could not start: {error.strerror or error}. Try fewer: --num-workers N (data.num_workers)."
        ) from None
    worker = WorkerProcess(process, errors)
    worker.send(setup)
    return worker


class WorkerProcess:
    """One process and its pipes."""

    def __init__(self, process: subprocess.Popen, errors: IO[bytes]):
        if process.stdin is None or process.stdout is None:
            raise ValueError("a worker needs pipes for its standard input and output")
        self._process, self._errors = process, errors
        self._requests, self._results = process.stdin, process.stdout
        _enlarge_pipe(self._results.fileno())
        self.has_large_pipe = _pipe_bytes(self._requests.fileno()) >= 2 * MOST_REQUEST_BYTES
        """Whether a request can be sent while a result is due. In a smaller pipe both sides could block each other."""

    def wait_until_ready(self) -> None:
        """Wait until the jobs are built; raises MyXTTSError with the reason if that fails."""
        try:
            self.read_result()
        except EOFError:
            reason = self.describe_end()["stderr"] or "no message"
            raise MyXTTSError(f"A worker process could not start: {reason}") from None

    def request(self, kind: str, items: Sequence[tuple[int, Any]]) -> list[tuple[int, Any, int]]:
        """Send (index, item) pairs; returns each with its part of the request's bytes."""
        if not items:
            return []
        size = self.send({"kind": kind, "items": [item for _, item in items]})
        return [(index, item, size // len(items)) for index, item in items]

    def read_result(self) -> tuple[dict[str, Any], bytes]:
        """The next result; raises EOFError if the process is gone."""
        head_size, payload_size = RESULT_HEAD.unpack(self._read(RESULT_HEAD.size))
        return json.loads(self._read(head_size)), self._read(payload_size)

    def describe_end(self) -> dict[str, Any]:
        """Exit code and last line of standard error of a process that closed its output."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LAST_SECONDS)
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return {"exit_code": self._process.poll(), "stderr": lines[-1] if lines else ""}

    def send(self, message: Any) -> int:
        line = json.dumps(message).encode() + b"\n"
        with contextlib.suppress(BrokenPipeError, ValueError):  # a dead worker is noticed when it does not answer
            self._requests.write(line)
            self._requests.flush()
        return len(line)

    def close(self) -> None:
        if hasattr(os, "killpg"):  # with what it has started, such as a recognizer's command
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        for stream in (self._requests, self._results):
            with contextlib.suppress(OSError, ValueError):
                stream.close()
        self._process.wait()
        self._errors.close()

    def _read(self, size: int) -> bytes:
        try:
            data = self._results.read(size)
        except ValueError:  # closed by another thread
            raise EOFError from None
        if len(data) < size:
            raise EOFError
        return data


def _enlarge_pipe(descriptor: int) -> None:
    """Request `PIPE_BYTES`; a system that refuses, or a user who owns too many large pipes, keeps the default size."""
    if fcntl is not None and hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES)


def _pipe_bytes(descriptor: int) -> int:
    """Size of a pipe; 0 if the system does not report it. Linux gives very small pipes to users who own many."""
    if fcntl is None or not hasattr(fcntl, "F_GETPIPE_SZ"):
        return 0
    return fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ)


def _write_result(results: BinaryIO, head: dict[str, Any], payload: Any) -> None:
    data = json.dumps(head).encode()
    results.write(RESULT_HEAD.pack(len(data), len(payload)) + data)
    results.write(payload)
    results.flush()
