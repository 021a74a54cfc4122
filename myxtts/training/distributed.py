"""Several machines that train together: their addresses, how they connect, and which one is missing.

`TF_CONFIG` is the JSON that TensorFlow defines for this. TensorFlow's own way to connect blocks the whole process while a worker
is missing, and does not say which one. So the workers first meet by plain sockets on the same addresses (`Rendezvous`).
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import tensorflow as tf

from myxtts.errors import TrainingError

CLUSTER_VARIABLE = "TF_CONFIG"
TIMEOUT_VARIABLE = "MYXTTS_CLUSTER_SECONDS"
TIMEOUT_SECONDS = 60.0
"""Time for all workers to start; `MYXTTS_CLUSTER_SECONDS` replaces it. Chosen; not measured."""
LOST_WORKER_ERRORS = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
    tf.errors.InternalError,
    tf.errors.UnknownError,
)
"""What an exchange between workers raises when one of them is lost."""
COORDINATOR = "CoordinationService"
Result = TypeVar("Result")
_TASK = re.compile(r"/job:(chief|worker)/(?:replica:\d+/)?task:(\d+)")
GREETING = b"myxtts worker %d of %d\n"
CALL_SECONDS = 2.0
"""Timeout of one connection attempt, which is repeated. Chosen; not measured."""
PAUSE_SECONDS = 0.1
"""Pause between two connection attempts. Chosen; not measured."""


@dataclass(frozen=True)
class Cluster:
    """The workers of a run, and which one this process is."""

    addresses: tuple[str, ...]
    """host:port of every worker; the first one is the chief, the only one that writes checkpoints."""
    index: int
    """This process in `addresses`."""
    has_chief_job: bool = False
    """TF_CONFIG may name the chief separately from the workers; then TensorFlow's worker 0 is the second address."""

    @property
    def is_chief(self) -> bool:
        """Whether this process writes checkpoints."""
        return self.index == 0

    @property
    def others(self) -> list[int]:
        """The other workers."""
        return [index for index in range(len(self.addresses)) if index != self.index]

    def name_of(self, index: int) -> str:
        """A worker, for messages."""
        return f"worker {index}{' (the chief)' if index == 0 else ''} at {self.addresses[index]}"

    def index_of_task(self, job: str, task: int) -> int | None:
        """The worker that TensorFlow calls /job:<job>/task:<task>."""
        index = task + (1 if self.has_chief_job and job == "worker" else 0)
        return index if index < len(self.addresses) else None


def read_cluster(variables: Mapping[str, str] = os.environ) -> Cluster | None:
    """The cluster that TF_CONFIG describes; None without it, or if it names this process alone."""
    received = variables.get(CLUSTER_VARIABLE)
    if not received:
        return None
    try:
        content = json.loads(received)
        jobs, task = content["cluster"], content["task"]
        chiefs, workers = _addresses(jobs.get("chief", [])), _addresses(jobs.get("worker", []))
        job, index = task["type"], int(task["index"])
        own = {"chief": chiefs, "worker": workers}[job]
        if not 0 <= index < len(own) or set(jobs) - {"chief", "worker"} or len(chiefs) > 1:
            raise ValueError("no such task")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise TrainingError(
            f"{CLUSTER_VARIABLE} does not describe a cluster with this process in it. Received: {received}. Expected: "
            '{"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", "index": 0}}.'
        ) from None
    if len(chiefs) + len(workers) < 2:
        return None
    return Cluster((*chiefs, *workers), index if job == "chief" else index + len(chiefs), bool(chiefs))


def _addresses(values: Sequence[str]) -> list[str]:
    for value in values:
        host, _, port = value.rpartition(":")
        if not host or not port.isdigit():
            raise ValueError(f"not host:port: {value}")
    return list(values)


def connect(cluster: Cluster, timeout_seconds: float | None = None) -> tf.distribute.Strategy:
    """The strategy of the cluster, once all of its workers are there; otherwise a `TrainingError` that names the missing ones."""
    if timeout_seconds is None:
        timeout_seconds = float(os.environ.get(TIMEOUT_VARIABLE, TIMEOUT_SECONDS))
    own = cluster.name_of(cluster.index)
    try:
        missing = Rendezvous(cluster.addresses, cluster.index).missing_after(timeout_seconds)
    except OSError as error:
        raise TrainingError(
            f"The port of {own} cannot be used ({error.strerror}): another process uses it, or an earlier run is still "
            f"ending. Stop it, or change the port of this worker in {CLUSTER_VARIABLE} of every worker."
        ) from None
    if missing:
        raise TrainingError(
            f"Timed out after {timeout_seconds:g} s waiting for {_listed(cluster, missing)} (this is {own}). Start the same "
            "command there with its own task index, check that both sides can reach each other's port, or remove it from "
            f"{CLUSTER_VARIABLE} of every worker. If workers start slowly: {TIMEOUT_VARIABLE}=seconds."
        )
    # A worker that dies at this moment blocks TensorFlow, and Python with it; then this watchdog ends the process.
    faulthandler.dump_traceback_later(timeout_seconds, exit=True, file=sys.__stderr__ or sys.stderr)
    try:
        return tf.distribute.MultiWorkerMirroredStrategy()
    finally:
        faulthandler.cancel_dump_traceback_later()


def silent_workers(cluster: Cluster) -> list[int]:
    """The other workers that do not accept a connection."""
    others = cluster.others
    with ThreadPoolExecutor(max_workers=min(len(others), 32)) as pool:
        replies = pool.map(lambda index: answers(cluster.addresses[index]), others)
        return [index for index, is_there in zip(others, replies, strict=True) if not is_there]


def lost_worker(cluster: Cluster, error: tf.errors.OpError, step: int) -> TrainingError | None:
    """The error to raise when an exchange failed; None if the error names no worker and all of them answer."""
    lost = silent_workers(cluster) or named_workers(cluster, str(error))
    if not lost:
        return None
    return TrainingError(
        f"Lost {_listed(cluster, lost)} after step {step} ({type(error).__name__}). The checkpoints are complete. Read the "
        "output of that worker, then start the same command on every worker again: the run resumes from its last "
        f"checkpoint. To train without that worker, remove it from {CLUSTER_VARIABLE} of the others first."
    )


def named_workers(cluster: Cluster, text: str) -> list[int]:
    """Other workers that a message of TensorFlow names, the one named most often first."""
    indices = [cluster.index_of_task(job, int(task)) for job, task in _TASK.findall(text)]
    others = [index for index in indices if index is not None and index != cluster.index]
    if not others and COORDINATOR in text and not cluster.is_chief:
        return [0]  # a frozen chief accepts connections, and TensorFlow names only the service that it runs
    return sorted(set(others), key=lambda index: (-others.count(index), index))


def in_turn(cluster: Cluster, strategy: tf.distribute.Strategy, action: Callable[[], Result]) -> Result:
    """Run `action` on every worker, one after the other, the chief first: it may write to a folder that they share."""
    results = []
    for index in range(len(cluster.addresses)):
        if index == cluster.index:
            results.append(action())
        _sum_over_replicas(strategy, np.zeros(1))
    return results[0]


def check_agreement(strategy: tf.distribute.Strategy, cluster: Cluster, facts: Mapping[str, int]) -> None:
    """Raise a `TrainingError` if the facts, small whole numbers by name, are not the same on all workers."""
    mine = np.array(list(facts.values()), np.float64)
    differs = _sum_over_replicas(strategy, mine) != mine * strategy.num_replicas_in_sync
    names = [name for name, is_different in zip(facts, differs, strict=True) if is_different]
    if names:
        raise TrainingError(
            f"The workers do not agree on: {', '.join(names)} (here, {cluster.name_of(cluster.index)}: "
            + ", ".join(f"{name} {facts[name]}" for name in names)
            + "). Every worker needs the same configuration and recordings, and a training.checkpoint_dir that all of them "
            "share (or a copy of the chief's)."
        )


def _sum_over_replicas(strategy: tf.distribute.Strategy, values: np.ndarray) -> np.ndarray:
    @tf.function
    def summed(vector):
        def body(part):  # a copy on the replica's device, which the exchange requires
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(part))

        return strategy.run(body, args=(vector,))

    return strategy.experimental_local_results(summed(tf.constant(values, tf.float64)))[0].numpy()


def _listed(cluster: Cluster, indices: Sequence[int]) -> str:
    return ", ".join(cluster.name_of(index) for index in indices)


class Rendezvous:
    """One worker's part of the meeting before TensorFlow connects the workers.

    Each worker opens its own address, connects to every other worker, and waits for a connection from each. A worker that has
    done both proceeds and frees its port for TensorFlow.
    """

    def __init__(self, addresses: Sequence[str], index: int):
        self._addresses, self._index = addresses, index
        others = set(range(len(addresses))) - {index}
        self._not_reached, self._not_heard_from = set(others), set(others)
        self._is_over = threading.Event()

    def missing_after(self, timeout_seconds: float) -> list[int]:
        """Wait for the others; returns those that did not arrive in time. Raises OSError if this worker's port cannot be used."""
        deadline = time.monotonic() + timeout_seconds
        port = _host_and_port(self._addresses[self._index])[1]
        with _listener(port) as listener:
            listener.settimeout(PAUSE_SECONDS)
            callers = [
                threading.Thread(target=self._call, args=(index,), daemon=True) for index in sorted(self._not_reached)
            ]
            for caller in callers:
                caller.start()
            while self._missing() and time.monotonic() < deadline:
                with contextlib.suppress(OSError):  # no call yet, or the caller disconnected: wait for the next one
                    self._answer(listener.accept()[0])
            missing = self._missing()
            self._is_over.set()
            for caller in callers:
                caller.join()
        return missing

    def _missing(self) -> list[int]:
        return sorted(self._not_reached | self._not_heard_from)

    def _greeting(self, index: int) -> bytes:
        return GREETING % (index, len(self._addresses))

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(CALL_SECONDS)
            received = _line(connection)
            known = {self._greeting(index): index for index in range(len(self._addresses))}
            if received in known:
                connection.sendall(self._greeting(self._index))
                _line(connection)  # until the caller disconnects: then the port is not kept busy on this side
                self._not_heard_from.discard(known[received])

    def _call(self, index: int) -> None:
        while not self._is_over.is_set():
            with (
                contextlib.suppress(OSError),
                socket.create_connection(_host_and_port(self._addresses[index]), timeout=CALL_SECONDS) as connection,
            ):
                connection.sendall(self._greeting(self._index))
                if _line(connection) == self._greeting(index):
                    self._not_reached.discard(index)
                    return
            self._is_over.wait(PAUSE_SECONDS)


def answers(address: str) -> bool:
    """Whether a process accepts connections there."""
    try:
        with socket.create_connection(_host_and_port(address), timeout=CALL_SECONDS):
            return True
    except OSError:
        return False


def _listener(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


def _line(connection: socket.socket) -> bytes:
    received = b""
    while not received.endswith(b"\n") and len(received) < 100:
        part = connection.recv(100)
        if not part:
            break
        received += part
    return received


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
