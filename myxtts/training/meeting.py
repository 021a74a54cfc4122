"""The meeting of the workers of a cluster before TensorFlow connects them.

TensorFlow's own connecting blocks the whole process while a worker is missing, and does not say which. So the workers first meet
by plain sockets on the same addresses: each one listens, greets every other and waits to be greeted by every other. Who has done
both is not needed by anyone any more and goes on; the port is then free for TensorFlow.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Sequence

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
