"""Worker processes of `prepare`: lists of jobs in, results as they are finished out.

Each worker is a fresh Python (`python -m myxtts.data.prepare_worker`) that talks through its standard input and output: requests
are JSON lines, a result is a JSON head and raw bytes. So workers load neither TensorFlow nor the caller's main module, share
no lock with it, and end by themselves when it dies, even by `kill -9`. A file that crashes its decoder costs one worker and is
reported like any other unusable clip.
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import myxtts
from myxtts.errors import MyXTTSError

WORKER_MODULE = "myxtts.data.prepare_worker"
RESULT_HEAD = struct.Struct("<II")
"""Bytes of the JSON head and of the payload."""
MOST_REQUEST_BYTES = 32_768
"""Requests on their way to one worker: less than a pipe holds, so that asking never waits for an answer."""
PIPE_BYTES = 1 << 20
"""Of results on their way: several clips, so that a worker goes on while the parent writes."""
KEPT_BYTES = 256 << 20
"""Freed memory that a worker keeps for the next clip (glibc's own variables): fetching it anew costs a tenth of the time."""
MOST_WAITING_RESULTS = 64
CRASHED = {"rejected": "decoder crashed", "detail": "the process that read this clip died"}


class WorkerPool:
    """A number of workers, started when they are first needed; `run` may be called many times, `close` ends them."""

    def __init__(self, setup: Mapping[str, Any], workers: int):
        self._setup = dict(setup)
        self._count = workers
        self._workers: list[_Worker] = []

    def start(self) -> None:
        """Wait until every worker has imported what it needs."""
        if self._workers:
            return
        self._workers = [_Worker(self._setup) for _ in range(self._count)]
        try:
            for worker in self._workers:
                worker.wait_until_ready()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        for worker in self._workers:
            worker.close()
        self._workers = []

    def run(self, kind: str, items: Iterable[Any], chunk: int = 8) -> Iterator[tuple[int, dict[str, Any], bytes]]:
        """(number of the item, head, payload) of every item, in the order in which they are finished."""
        self.start()
        chunks = _Chunks(items, chunk)
        results: queue.Queue[Any] = queue.Queue(MOST_WAITING_RESULTS)
        stop = threading.Event()
        workers = self._workers
        threads = [
            threading.Thread(target=self._serve, args=(workers, place, kind, chunks, results, stop), daemon=True)
            for place in range(len(workers))
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
                while not waiting or sum(size for _, _, size in waiting) < MOST_REQUEST_BYTES // 4:
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
                    workers[place] = worker = _Worker(self._setup)
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

    def __init__(self, items: Iterable[Any], size: int):
        self._items, self._size, self._lock = enumerate(items), size, threading.Lock()

    def take(self) -> list[tuple[int, Any]]:
        with self._lock:
            return list(islice(self._items, self._size))


class _Worker:
    """One process and its pipes."""

    def __init__(self, setup: Mapping[str, Any]):
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
        package_parent = str(Path(myxtts.__file__).resolve().parent.parent)
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, [package_parent, os.environ.get("PYTHONPATH")])),
            **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
            **dict.fromkeys(("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"), str(KEPT_BYTES)),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", WORKER_MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            pipesize=PIPE_BYTES,
            process_group=0,  # Ctrl-C reaches the parent alone, which then ends its workers in order
        )
        self._send(setup)

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
        size = self._send({"kind": kind, "items": [item for _, item in numbered]})
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

    def _send(self, message: Any) -> int:
        line = json.dumps(message).encode() + b"\n"
        with contextlib.suppress(BrokenPipeError, ValueError):  # a dead worker is noticed when it does not answer
            self._process.stdin.write(line)
            self._process.stdin.flush()
        return len(line)


def _put(results: queue.Queue, result: Any, stop: threading.Event) -> None:
    while not stop.is_set():
        with contextlib.suppress(queue.Full):
            return results.put(result, timeout=0.2)
