"""Several machines that train together: who they are, how they meet, and who is missing when one is lost.

In: `TF_CONFIG`, the JSON that TensorFlow defines for this. Out: a `Cluster`, its strategy, and errors that name the worker.
TensorFlow waits for a worker that never starts without saying for whom; so they meet first, under a watchdog of ours.
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

# MERGED: The meeting of the workers of a cluster before TensorFlow connects them.
#
# TensorFlow's own connecting blocks the whole process while a worker is missing, and does not say which. So the workers first
# meet
# by plain sockets on the same addresses: each one listens, greets every other and waits to be greeted by every other. Who has
# done
# both is not needed by anyone any more and goes on; the port is then free for TensorFlow.

GREETING = b"myxtts worker %d of %d\n"
CALL_SECONDS = 2.0
"""How long one call may take; it is repeated until the meeting's time is over."""
PAUSE_SECONDS = 0.1


class Meeting:
    """One worker's part of the meeting."""

    def __init__(self, addresses: Sequence[str], number: int):
        self._addresses, self._number = addresses, number
        others = set(range(len(addresses))) - {number}
        self._not_reached, self._not_heard_of = set(others), set(others)
        self._is_over = threading.Event()

    def missing_after(self, patience_seconds: float) -> list[int]:
        """Meet; returns the workers that did not come within the time. An `OSError` if the own port cannot be used."""
        deadline = time.monotonic() + patience_seconds
        port = _host_and_port(self._addresses[self._number])[1]
        with _listener(port) as listener:
            listener.settimeout(PAUSE_SECONDS)
            callers = [
                threading.Thread(target=self._call, args=(number,), daemon=True) for number in sorted(self._not_reached)
            ]
            for caller in callers:
                caller.start()
            while self._missing() and time.monotonic() < deadline:
                with contextlib.suppress(OSError):  # nobody called, or who called went away: wait for the next
                    self._answer(listener.accept()[0])
            missing = self._missing()
            self._is_over.set()
            for caller in callers:
                caller.join()
        return missing

    def _missing(self) -> list[int]:
        return sorted(self._not_reached | self._not_heard_of)

    def _greeting(self, number: int) -> bytes:
        return GREETING % (number, len(self._addresses))

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(CALL_SECONDS)
            received = _line(connection)
            known = {self._greeting(number): number for number in range(len(self._addresses))}
            if received in known:
                connection.sendall(self._greeting(self._number))
                _line(connection)  # until the caller has hung up: then the port is not kept busy on our side
                self._not_heard_of.discard(known[received])

    def _call(self, number: int) -> None:
        while not self._is_over.is_set():
            with (
                contextlib.suppress(OSError),
                socket.create_connection(_host_and_port(self._addresses[number]), timeout=CALL_SECONDS) as connection,
            ):
                connection.sendall(self._greeting(self._number))
                if _line(connection) == self._greeting(number):
                    self._not_reached.discard(number)
                    return
            self._is_over.wait(PAUSE_SECONDS)


def answers(address: str) -> bool:
    """Whether anyone accepts connections there."""
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


CLUSTER_VARIABLE = "TF_CONFIG"
PATIENCE_VARIABLE = "MYXTTS_CLUSTER_SECONDS"
PATIENCE_SECONDS = 60.0
"""How long the workers may take to meet. `MYXTTS_CLUSTER_SECONDS` replaces it, for clusters that start slowly."""
LOST_WORKER_ERRORS = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
    tf.errors.InternalError,
    tf.errors.UnknownError,
)
"""What an exchange between workers raises when one of them is gone."""
COORDINATOR = "CoordinationService"
Result = TypeVar("Result")
_TASK = re.compile(r"/job:(chief|worker)/(?:replica:\d+/)?task:(\d+)")


@dataclass(frozen=True)
class Cluster:
    """The workers of a run, as one of them sees them."""

    addresses: tuple[str, ...]
    """host:port of every worker; the first is the chief's, who alone writes checkpoints."""
    number: int
    """Which of them this process is."""
    has_chief_job: bool = False
    """TF_CONFIG may name the chief apart from the workers; then worker 0 is the second address."""

    @property
    def is_chief(self) -> bool:
        """Whether this process writes."""
        return self.number == 0

    def name_of(self, number: int) -> str:
        """A worker in words."""
        return f"worker {number}{' (the chief)' if number == 0 else ''} at {self.addresses[number]}"

    def number_of_task(self, job: str, index: int) -> int | None:
        """The worker that TensorFlow calls /job:<job>/task:<index>."""
        number = index + (1 if self.has_chief_job and job == "worker" else 0)
        return number if number < len(self.addresses) else None


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
    number = index if job == "chief" else index + len(chiefs)
    return Cluster((*chiefs, *workers), number, bool(chiefs))


def _addresses(values: Sequence[str]) -> list[str]:
    for value in values:
        host, _, port = value.rpartition(":")
        if not host or not port.isdigit():
            raise ValueError(f"not host:port: {value}")
    return list(values)


def meet(cluster: Cluster, patience_seconds: float | None = None) -> tf.distribute.Strategy:
    """The strategy of the cluster, once all of its workers are there; a `TrainingError` that names the missing ones, if not."""
    if patience_seconds is None:
        patience_seconds = float(os.environ.get(PATIENCE_VARIABLE, PATIENCE_SECONDS))
    own = cluster.name_of(cluster.number)
    try:
        missing = Meeting(cluster.addresses, cluster.number).missing_after(patience_seconds)
    except OSError as error:
        raise TrainingError(
            f"The port of {own} cannot be used ({error.strerror}): another process has it, or an earlier run is still "
            f"ending. Stop that one, or give this worker another port in {CLUSTER_VARIABLE} everywhere."
        ) from None
    if missing:
        raise TrainingError(
            f"Timed out after {patience_seconds:g} s waiting for {_listed(cluster, missing)} (this is {own}). Start the same "
            "command there with its own task index, check that both sides can reach each other's port, or take it out of "
            f"{CLUSTER_VARIABLE} everywhere. If workers start slowly: {PATIENCE_VARIABLE}=seconds."
        )
    # A worker that dies in this very moment would block TensorFlow, and Python with it: then this ends the process.
    faulthandler.dump_traceback_later(patience_seconds, exit=True, file=sys.__stderr__)
    try:
        return tf.distribute.MultiWorkerMirroredStrategy()
    finally:
        faulthandler.cancel_dump_traceback_later()


def silent_workers(cluster: Cluster) -> list[int]:
    """The other workers that do not accept a connection."""
    others = [number for number in range(len(cluster.addresses)) if number != cluster.number]
    with ThreadPoolExecutor(max_workers=min(len(others), 32)) as pool:
        replies = pool.map(lambda number: answers(cluster.addresses[number]), others)
        return [number for number, is_there in zip(others, replies, strict=True) if not is_there]


def lost_worker(cluster: Cluster, error: tf.errors.OpError, step: int) -> TrainingError | None:
    """What to tell the user when an exchange failed; None if the error names no worker and all of them answer."""
    lost = silent_workers(cluster) or named_workers(cluster, str(error))
    if not lost:
        return None
    return TrainingError(
        f"Lost {_listed(cluster, lost)} after step {step} ({type(error).__name__}). The checkpoints are whole. Look at the "
        "output of that worker, then start the same command on every worker again, with it or with another "
        f"{CLUSTER_VARIABLE} without it: the run goes on from its last checkpoint."
    )


def named_workers(cluster: Cluster, text: str) -> list[int]:
    """Other workers that a message of TensorFlow names, the one named most often first."""
    numbers = [cluster.number_of_task(job, int(index)) for job, index in _TASK.findall(text)]
    others = [number for number in numbers if number is not None and number != cluster.number]
    if not others and COORDINATOR in text and not cluster.is_chief:
        return [0]  # a frozen chief accepts connections, and TensorFlow names only the service that it runs
    return sorted(set(others), key=lambda number: (-others.count(number), number))


def in_turn(cluster: Cluster, strategy: tf.distribute.Strategy, action: Callable[[], Result]) -> Result:
    """Run `action` on every worker, one after the other, the chief first: they may share a folder that it writes to."""
    results = []
    for number in range(len(cluster.addresses)):
        if number == cluster.number:
            results.append(action())
        _sum_over_replicas(strategy, np.zeros(1))
    return results[0]


def check_agreement(strategy: tf.distribute.Strategy, cluster: Cluster, facts: Mapping[str, int]) -> None:
    """All workers must begin at the same place of the same data: small whole numbers, compared across the cluster."""
    mine = np.array(list(facts.values()), np.float64)
    differs = _sum_over_replicas(strategy, mine) != mine * strategy.num_replicas_in_sync
    names = [name for name, is_different in zip(facts, differs, strict=True) if is_different]
    if names:
        raise TrainingError(
            f"The workers do not agree on: {', '.join(names)} (here, {cluster.name_of(cluster.number)}: "
            + ", ".join(f"{name} {facts[name]}" for name in names)
            + "). Every worker needs the same configuration and recordings, and a training.checkpoint_dir that all of them "
            "share (or a copy of the chief's)."
        )


def _sum_over_replicas(strategy: tf.distribute.Strategy, values: np.ndarray) -> np.ndarray:
    @tf.function
    def summed(vector):
        def body(part):  # a copy on the replica's device, which the exchange asks for
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(part))

        return strategy.run(body, args=(vector,))

    return strategy.experimental_local_results(summed(tf.constant(values, tf.float64)))[0].numpy()


def _listed(cluster: Cluster, numbers: Sequence[int]) -> str:
    return ", ".join(cluster.name_of(number) for number in numbers)
