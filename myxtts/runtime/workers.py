"""Worker processes: send jobs to N fresh Pythons, and get the results as they are finished.

A worker is `python -P -m MODULE`, so it imports neither TensorFlow nor the caller's main module, shares no lock with it, and
ends by itself when the caller dies, even by `kill -9`. A job that kills its worker costs one worker; the other jobs continue.

The caller runs many jobs of one kind at a time:

    with WorkerPool(setup, workers=4, module="package.module") as pool:
        for index, head, payload in pool.run("length", ["one", "two"]):
            ...                                   # index of the item, in the order in which the items are finished

A result whose head has `transient: true` reports a failure that says nothing about the item (an I/O error, too little memory, a
killed worker): `run` retries it once, alone in one worker. `myxtts.runtime.worker_process` has the other side.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Self

from myxtts.runtime.progress import ProgressCallback
from myxtts.runtime.worker_process import MOST_REQUEST_BYTES, WorkerProcess, start_worker

MOST_WAITING_RESULTS = 64
"""Results in memory that the caller has not taken yet; workers wait beyond that. Chosen; not measured."""
RETRIED_CRASH = {"transient": True}
"""Head of the result of a job whose worker died, for a pool that names none."""

Result = tuple[int, dict[str, Any], bytes]
"""Index of the item, head, payload."""


class WorkerPool:
    """Worker processes that are started when they are first needed; `run` may be called many times."""

    def __init__(
        self,
        setup: Mapping[str, Any],
        workers: int,
        *,
        module: str,
        crash_result: Mapping[str, Any] = RETRIED_CRASH,
    ):
        """
        Args:
            setup: JSON object for `build_jobs` in each worker.
            workers: largest number of processes.
            module: what each process runs, by its import path.
            crash_result: head of the result of a job whose worker died. `exit_code` and `stderr` (last line) are added.
        """
        self._setup, self._count = dict(setup), workers
        self._module, self._crash_result = module, crash_result
        self._workers: list[WorkerProcess] = []
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
        for position, head, payload in self._run_once(kind, [items[index] for index in failed], 1, 1):
            yield failed[position], head, payload
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
            threading.Thread(target=self._feed_worker, args=(workers, slot, kind, chunks, results, stop), daemon=True)
            for slot in range(wanted)
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
        workers: list[WorkerProcess],
        slot: int,
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
                worker = workers[slot]
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
                    workers[slot] = worker = self._start_worker()
                    worker.wait_until_ready()
                    worker.request(kind, [(index, item) for index, item, _ in islice(waiting, 1, None)])
                _put(results, (waiting.popleft()[0], head, payload), stop)
        except Exception as error:  # raised again by the thread that called `run`
            outcome = error
        finally:
            _put(results, outcome, stop)
            if outcome is not None:
                _put(results, None, stop)

    def _start_worker(self) -> WorkerProcess:
        return start_worker(self._module, self._setup)


class _Chunks:
    """Items with their index, taken a few at a time by several threads."""

    def __init__(self, items: Sequence[Any], size: int):
        self._items, self._size, self._lock = enumerate(items), size, threading.Lock()

    def take(self) -> list[tuple[int, Any]]:
        with self._lock:
            return list(islice(self._items, self._size))


def _put(results: queue.Queue, result: Any, stop: threading.Event) -> None:
    while not stop.is_set():
        with contextlib.suppress(queue.Full):
            return results.put(result, timeout=0.2)
    with contextlib.suppress(queue.Full):
        results.put_nowait(result)  # another thread has closed the pool: end the wait for results
