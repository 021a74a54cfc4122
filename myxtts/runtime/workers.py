"""Worker processes of `prepare`: lists of jobs in, results as they are finished out.

Each worker is a fresh Python (`python -m myxtts.cache.worker`) that talks through its standard input and output: requests
are JSON lines, a result is a JSON head and raw bytes. So workers load neither TensorFlow nor the caller's main module, share
no lock with it, and end by themselves when it dies, even by `kill -9`. A job that kills its worker costs one worker.

A result with `transient` failed for a reason that says nothing about the clip (an I/O error, too little memory, a killed worker):
`run` tries it once more, alone in one worker, before it reports the failure.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import struct
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

import myxtts
from myxtts.errors import MyXTTSError
from myxtts.runtime.atomic import cause_of

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

WORKER_MODULE = "myxtts.cache.worker"
RESULT_HEAD = struct.Struct("<II")
"""Bytes of the JSON head and of the payload."""
MOST_REQUEST_BYTES = 32_768
"""Requests on their way to one worker: less than a pipe holds, so that asking never waits for an answer."""
PIPE_BYTES = 1 << 20
"""Of results on their way: several clips, so that a worker continues while the parent writes. An unprivileged user may own
64 such pipes (Linux's pipe-user-pages-soft); the others keep the system's size."""
KEPT_BYTES = 256 << 20
"""Freed memory that a worker keeps for the next clip (glibc's own variables): fetching it anew costs a tenth of the time."""
MOST_WAITING_RESULTS = 64
CRASHED = {
    "rejected": "decoder crashed",
    "detail": "the process that read this clip died (a crash, or killed for lack of memory)",
    "transient": True,
}

Progress = Callable[[str, int, int], None]
"""Called with the stage, what is done and what there is to do."""
Result = tuple[int, dict[str, Any], bytes]
"""Number of the item, head, payload."""


class WorkerPool:
    """A number of workers, started when they are first needed; `run` may be called many times, `close` ends them."""

    def __init__(self, setup: Mapping[str, Any], workers: int):
        self._setup = dict(setup)
        self._count = workers
        self._workers: list[_Worker] = []
        self._stop = threading.Event()
        """Of the run that is under way: its threads start no worker in place of one that `close` ended."""

    def start(self, workers: int) -> None:
        """Wait until so many workers (at most those of the pool) have imported what they need."""
        first = len(self._workers)
        try:
            for _ in range(first, min(workers, self._count)):
                self._workers.append(_start_worker(self._setup))
            for worker in self._workers[first:]:
                worker.wait_until_ready()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._stop.set()
        for worker in self._workers:
            worker.close()
        self._workers = []

    def run(
        self, kind: str, items: Sequence[Any], chunk: int = 8, stage: str = "", progress: Progress | None = None
    ) -> Iterator[Result]:
        """The result of every item, in the order in which they are finished; transient failures are tried once more."""
        failed: list[int] = []
        done = 0
        if progress is not None and items:
            progress(stage, 0, len(items))
        for number, head, payload in self._run_once(kind, items, chunk, self._count):
            if head.get("transient"):
                failed.append(number)
                continue
            yield number, head, payload
            done += 1
            if progress is not None:
                progress(stage, done, len(items))
        # alone in one worker: what failed for lack of memory then has all of it
        for place, head, payload in self._run_once(kind, [items[number] for number in failed], 1, 1):
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
            threading.Thread(target=self._serve, args=(workers, place, kind, chunks, results, stop), daemon=True)
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
            if running:  # the caller stopped early: what the workers still do is of no use to anybody
                stop.set()
                self.close()
                for thread in threads:
                    thread.join()

    def _serve(
        self,
        workers: list[_Worker],
        place: int,
        kind: str,
        chunks: _Chunks,
        results: queue.Queue,
        stop: threading.Event,
    ) -> None:
        """Keep one worker busy: the next request is sent before the last one is answered."""
        waiting: deque[tuple[int, Any, int]] = deque()
        outcome = None
        try:
            while not stop.is_set():
                worker = workers[place]
                while not waiting or (
                    worker.has_roomy_pipe and sum(size for _, _, size in waiting) < MOST_REQUEST_BYTES // 4
                ):
                    taken = chunks.take()
                    if not taken:
                        break
                    waiting.extend(worker.ask(kind, taken))
                if not waiting:
                    break
                try:
                    head, payload = worker.answer()
                except EOFError:
                    if stop.is_set():
                        break
                    head, payload = CRASHED, b""
                    worker.close()
                    workers[place] = worker = _start_worker(self._setup)
                    worker.wait_until_ready()
                    worker.ask(kind, [(number, item) for number, item, _ in islice(waiting, 1, None)])
                _put(results, (waiting.popleft()[0], head, payload), stop)
        except Exception as error:  # handed to the thread that asked, which raises it
            outcome = error
        finally:
            _put(results, outcome, stop)
            if outcome is not None:
                _put(results, None, stop)


class _Chunks:
    """Numbered items, taken a few at a time by several threads."""

    def __init__(self, items: Sequence[Any], size: int):
        self._items, self._size, self._lock = enumerate(items), size, threading.Lock()

    def take(self) -> list[tuple[int, Any]]:
        with self._lock:
            return list(islice(self._items, self._size))


def _start_worker(setup: Mapping[str, Any]) -> _Worker:
    try:
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
    except OSError as error:
        raise MyXTTSError(
            f"No temporary file can be made: {cause_of(error)}. Free some space, or name another folder: TMPDIR=FOLDER."
        ) from None
    package_parent = str(Path(myxtts.__file__).resolve().parent.parent)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, [package_parent, os.environ.get("PYTHONPATH")])),
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
        **dict.fromkeys(("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"), str(KEPT_BYTES)),
    }
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", WORKER_MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
            process_group=0,  # Ctrl-C reaches the parent alone, which then ends its workers in order
        )
    except OSError as error:  # too many processes, files or pipes for this user, or no memory
        errors.close()
        raise MyXTTSError(
            f"A worker process could not start: {error.strerror or error}. Try fewer: --num-workers N (data.num_workers)."
        ) from None
    _enlarge_pipe(process.stdout.fileno())
    worker = _Worker(process, errors, _pipe_bytes(process.stdin.fileno()) >= 2 * MOST_REQUEST_BYTES)
    worker.send(setup)
    return worker


def _enlarge_pipe(descriptor: int) -> None:
    """Ask for `PIPE_BYTES`; a system that refuses, or a user who has too many large pipes, keeps the usual size."""
    if fcntl is not None and hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES)


def _pipe_bytes(descriptor: int) -> int:
    """What a pipe holds; 0 where the system does not say. Linux gives very small pipes to users who own many."""
    if fcntl is None or not hasattr(fcntl, "F_GETPIPE_SZ"):
        return 0
    return fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ)


class _Worker:
    """One process and its pipes."""

    def __init__(self, process: subprocess.Popen, errors: IO[bytes], has_roomy_pipe: bool):
        self._process, self._errors = process, errors
        self.has_roomy_pipe = has_roomy_pipe
        """Whether a request can be sent while an answer is awaited. In a smaller pipe it could block, and the answer too."""

    def wait_until_ready(self) -> None:
        """Importing is over; a worker that cannot start says why."""
        try:
            self.answer()
        except EOFError:
            self._errors.seek(0)
            lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
            raise MyXTTSError(f"A worker process could not start: {lines[-1] if lines else 'no message'}") from None

    def ask(self, kind: str, numbered: Sequence[tuple[int, Any]]) -> list[tuple[int, Any, int]]:
        """Send jobs; returns (number, item, share of the request's bytes) of each."""
        if not numbered:
            return []
        size = self.send({"kind": kind, "items": [item for _, item in numbered]})
        return [(number, item, size // len(numbered)) for number, item in numbered]

    def answer(self) -> tuple[dict[str, Any], bytes]:
        """The next result; EOFError if the process is gone."""
        head_size, payload_size = RESULT_HEAD.unpack(self._read(RESULT_HEAD.size))
        return json.loads(self._read(head_size)), self._read(payload_size)

    def close(self) -> None:
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError, ValueError):
                stream.close()
        self._process.wait()
        self._errors.close()

    def _read(self, size: int) -> bytes:
        try:
            data = self._process.stdout.read(size)
        except ValueError:  # closed by another thread
            raise EOFError from None
        if len(data) < size:
            raise EOFError
        return data

    def send(self, message: Any) -> int:
        line = json.dumps(message).encode() + b"\n"
        with contextlib.suppress(BrokenPipeError, ValueError):  # a dead worker is noticed when it does not answer
            self._process.stdin.write(line)
            self._process.stdin.flush()
        return len(line)


def _put(results: queue.Queue, result: Any, stop: threading.Event) -> None:
    while not stop.is_set():
        with contextlib.suppress(queue.Full):
            return results.put(result, timeout=0.2)
