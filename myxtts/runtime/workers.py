"""Worker processes: send jobs to N fresh Pythons, and get the results as they are finished.

A worker is `python -P -m MODULE`, so it imports neither TensorFlow nor the caller's main module, shares no lock with it, and
ends by itself when the caller dies, even by `kill -9`. A job that kills its worker costs one worker; the other jobs continue.

The module of a worker calls `serve_jobs` with a function that builds its jobs from a setup:

    def build_jobs(setup):                        # once per process: load models, read settings
        def length(text):                         # any JSON value in; a dict and bytes out
            return {"length": len(text)}, b""
        return {"length": length}

    if __name__ == "__main__":
        sys.exit(serve_jobs(build_jobs))

and the caller runs many jobs of one kind at a time:

    with WorkerPool(setup, workers=4, module="package.module") as pool:
        for index, head, payload in pool.run("length", ["one", "two"]):
            ...                                   # index of the item, in the order in which the items are finished

Protocol: the setup and the requests (`{"kind": …, "items": […]}`) are JSON lines on standard input; a result is two sizes
(`RESULT_HEAD`), a JSON head and raw bytes on standard output. A head with `transient: true` reports a failure that says nothing
about the item (an I/O error, too little memory, a killed worker): `run` retries it once, alone in one worker.

`module_command` and `child_environment` start any other module of the package in a process of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any, BinaryIO, Self

import myxtts
from myxtts.errors import MyXTTSError
from myxtts.runtime.atomic import cause_of
from myxtts.runtime.progress import ProgressCallback

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

WORKER_MODULE = "myxtts.cache.worker"
"""The module of a pool that names none: the workers of `myxtts prepare`."""
RESULT_HEAD = struct.Struct("<II")
"""Sizes in bytes of a result's JSON head and of its payload."""
MOST_REQUEST_BYTES = 32_768
"""Bytes of requests on their way to one worker: less than a pipe holds, so that sending never waits for a result."""
PIPE_BYTES = 1 << 20
"""Size of the pipe for results: several clips, so that a worker continues while the caller writes. An unprivileged user may own
64 such pipes (Linux's pipe-user-pages-soft); further pipes keep the default size."""
KEPT_BYTES = 256 << 20
"""Freed memory that a worker keeps for the next job (glibc's variables): requesting it again costs a tenth of the time."""
MOST_WAITING_RESULTS = 64
LAST_SECONDS = 5.0
"""How long a worker that closed its output may take to exit."""
CRASHED = {
    "rejected": "decoder crashed",
    "detail": "the process that read this clip died (a crash, or killed for lack of memory)",
    "transient": True,
}
"""Head of the result of a job whose worker died, for a pool that names none."""

Progress = ProgressCallback
Result = tuple[int, dict[str, Any], bytes]
"""Index of the item, head, payload."""
Job = Callable[[Any], tuple[dict[str, Any], Any]]
"""An item → the head and the payload (bytes, or anything with the buffer protocol) of its result."""


class WorkerPool:
    """Worker processes that are started when they are first needed; `run` may be called many times."""

    def __init__(
        self,
        setup: Mapping[str, Any],
        workers: int,
        *,
        module: str | None = None,
        crash_result: Mapping[str, Any] = CRASHED,
    ):
        """
        Args:
            setup: JSON object for `build_jobs` in each worker.
            workers: largest number of processes.
            module: what each process runs, by its import path; None for `WORKER_MODULE`.
            crash_result: head of the result of a job whose worker died. `exit_code` and `stderr` (last line) are added.
        """
        self._setup, self._count = dict(setup), workers
        self._module, self._crash_result = module, crash_result
        self._workers: list[_Worker] = []
        self._stop = threading.Event()
        """Of the current run: its threads start no worker to replace one that `close` ended."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def start(self, workers: int) -> None:
        """Start workers up to this number (at most that of the pool), and wait until they are ready."""
        first = len(self._workers)
        try:
            for _ in range(first, min(workers, self._count)):
                self._workers.append(self._start_worker())
            for worker in self._workers[first:]:
                worker.wait_until_ready()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Kill all workers; the next `run` starts new ones."""
        self._stop.set()
        for worker in self._workers:
            worker.close()
        self._workers = []

    def run(
        self,
        kind: str,
        items: Sequence[Any],
        chunk: int = 8,
        stage: str = "",
        progress: ProgressCallback | None = None,
    ) -> Iterator[Result]:
        """Yield the result of every item, in the order in which they are finished; retry transient failures once.

        Args:
            kind: which of the worker's jobs.
            items: JSON values.
            chunk: items per request; 1 for jobs that take seconds.
            stage: name of this work for `progress`.
            progress: called with the number of finished items.
        """
        failed: list[int] = []
        done = 0
        if progress is not None and items:
            progress(stage, 0, len(items))
        for index, head, payload in self._run_once(kind, items, chunk, self._count):
            if head.get("transient"):
                failed.append(index)
                continue
            yield index, head, payload
            done += 1
            if progress is not None:
                progress(stage, done, len(items))
        # alone in one worker: a job that failed for lack of memory then has all of it
        for place, head, payload in self._run_once(kind, [items[index] for index in failed], 1, 1):
            yield failed[place], head, payload
            done += 1
            if progress is not None:
                progress(stage, done, len(items))

    def _run_once(self, kind: str, items: Sequence[Any], chunk: int, most_workers: int) -> Iterator[Result]:
        if not items:
            return
        wanted = min(most_workers, self._count, -(-len(items) // chunk))
        self.start(wanted)
        chunks = _Chunks(items, chunk)
        results: queue.Queue[Any] = queue.Queue(MOST_WAITING_RESULTS)
        stop = self._stop = threading.Event()
        workers = self._workers
        threads = [
            threading.Thread(target=self._feed_worker, args=(workers, place, kind, chunks, results, stop), daemon=True)
            for place in range(wanted)
        ]
        for thread in threads:
            thread.start()
        running = len(threads)
        try:
            while running:
                result = results.get()
                if result is None:
                    running -= 1
                elif isinstance(result, BaseException):
                    raise result
                else:
                    yield result
        finally:
            if running:  # the caller stopped early: nobody needs the remaining results
                stop.set()
                self.close()
                for thread in threads:
                    thread.join()

    def _feed_worker(
        self,
        workers: list[_Worker],
        place: int,
        kind: str,
        chunks: _Chunks,
        results: queue.Queue,
        stop: threading.Event,
    ) -> None:
        """Keep one worker busy: send the next request before the last one is answered; replace a worker that died."""
        waiting: deque[tuple[int, Any, int]] = deque()
        outcome = None
        try:
            while not stop.is_set():
                worker = workers[place]
                while not waiting or (
                    worker.has_large_pipe and sum(size for _, _, size in waiting) < MOST_REQUEST_BYTES // 4
                ):
                    taken = chunks.take()
                    if not taken:
                        break
                    waiting.extend(worker.request(kind, taken))
                if not waiting:
                    break
                try:
                    head, payload = worker.read_result()
                except EOFError:
                    if stop.is_set():
                        break
                    head, payload = {**self._crash_result, **worker.describe_end()}, b""
                    worker.close()
                    workers[place] = worker = self._start_worker()
                    worker.wait_until_ready()
                    worker.request(kind, [(index, item) for index, item, _ in islice(waiting, 1, None)])
                _put(results, (waiting.popleft()[0], head, payload), stop)
        except Exception as error:  # raised again by the thread that called `run`
            outcome = error
        finally:
            _put(results, outcome, stop)
            if outcome is not None:
                _put(results, None, stop)

    def _start_worker(self) -> _Worker:
        return _start_worker(self._module or WORKER_MODULE, self._setup)


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
        os._exit(1)  # the pool is gone, and with it everybody who could read a message
    return 0


def module_command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module with this Python, without the current folder on its import path."""
    return [sys.executable, "-P", "-m", module, *arguments]


def child_environment() -> dict[str, str]:
    """This process's environment, in which a child can import this very package from any folder."""
    package_parent = str(Path(myxtts.__file__).resolve().parent.parent)
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = [package_parent, *(folder for folder in known if folder and folder != package_parent)]
    return os.environ | {"PYTHONPATH": os.pathsep.join(path)}


class _Chunks:
    """Items with their index, taken a few at a time by several threads."""

    def __init__(self, items: Sequence[Any], size: int):
        self._items, self._size, self._lock = enumerate(items), size, threading.Lock()

    def take(self) -> list[tuple[int, Any]]:
        with self._lock:
            return list(islice(self._items, self._size))


def _start_worker(module: str, setup: Mapping[str, Any]) -> _Worker:
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
    worker = _Worker(process, errors)
    worker.send(setup)
    return worker


class _Worker:
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


def _put(results: queue.Queue, result: Any, stop: threading.Event) -> None:
    while not stop.is_set():
        with contextlib.suppress(queue.Full):
            return results.put(result, timeout=0.2)
    with contextlib.suppress(queue.Full):
        results.put_nowait(result)  # another thread has closed the pool: who waits for results must wait no longer
