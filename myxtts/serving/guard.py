"""What is checked before a request reaches a route: Host, Origin, API key, size and time of the body.

A web page of an attacker can let its own name point to this machine (DNS rebinding). Its requests then have that name in the Host
header, so only known names are served; IP addresses cannot be rebound.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import socket
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from myxtts.serving.api_errors import error_response
from myxtts.serving.settings import Settings

PUBLIC_PATHS = ("/health", "/ready", "/v1/audio/voices", "/v1/audio/models")
"""Answered without a key: Open WebUI asks for voices and models without one."""
LOCAL_NAMES = ("localhost", "host.docker.internal")


def host_name(header: str) -> str:
    """The name or address in a Host header, lower case, without the port."""
    name = header.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.rpartition(":")[0] if name.count(":") == 1 else name


def is_address(name: str) -> bool:
    """Whether a host is an IP address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Guard:
    """ASGI middleware with the checks of this module."""

    def __init__(self, app: ASGIApp, settings: Settings, count_request: Callable[[str, int], None]):
        self._app = app
        self._count_request = count_request
        self._settings = settings
        self._hosts = {*LOCAL_NAMES, socket.gethostname().lower(), *(name.lower() for name in settings.allowed_hosts)}
        self._key_hashes = [hashlib.sha256(key.encode()).digest() for key in settings.api_keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = self._counting(scope, send)
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        problem = self._problem(scope, headers)
        if problem is not None:
            status, message, code, extra = problem
            await error_response(status, message, code=code, headers=extra)(scope, receive, send)
            return
        is_upload = headers.get(b"content-type", "").lower().startswith("multipart/form-data")
        limit = self._settings.max_upload_bytes if is_upload else self._settings.max_body_bytes
        body = _Body(receive, limit, self._settings.body_seconds)
        length = headers.get(b"content-length", "0")
        if length.isascii() and length.isdigit() and int(length[:20]) > limit:
            await _too_large(limit)(scope, receive, send)
            return
        answer = _Answer(send, self._settings.stalled_seconds)

        async def send_unless_refused(message: Message) -> None:
            if body.refusal is None or answer.is_started:
                await answer.send(message)

        with suppress(_BodyRefused):  # a framework may also turn it into an answer of its own, which is not sent
            await self._app(scope, body.receive, send_unless_refused)
        if body.refusal is not None and not answer.is_started:
            await body.refusal(scope, receive, answer.send)

    def _counting(self, scope: Scope, send: Send) -> Send:
        async def counting_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = scope.get("route")  # set by the router
                self._count_request(getattr(route, "path", "other"), message["status"])
            await send(message)

        return counting_send

    def _problem(self, scope: Scope, headers: dict[bytes, str]) -> tuple[int, str, str | None, dict[str, str]] | None:
        host = headers.get(b"host", "")
        name = host_name(host)
        if not is_address(name) and name not in self._hosts:
            message = f"This server does not accept requests for the host {host!r:.80}. Add it with --allowed-host."
            return 403, message, "host_not_allowed", {}
        origin = headers.get(b"origin")
        if origin is not None and not self._is_allowed_origin(origin, host):
            message = f"Pages of {origin!r:.80} may not use this server. Add it with --allowed-origin."
            return 403, message, "origin_not_allowed", {}
        is_preflight = scope["method"] == "OPTIONS"
        if self._key_hashes and scope["path"] not in PUBLIC_PATHS and not is_preflight:
            kind, _, key = headers.get(b"authorization", "").partition(" ")
            given = hashlib.sha256(key.strip().encode("latin-1")).digest()  # the bytes as they came
            # Every key is compared, each in constant time.
            matches = [hmac.compare_digest(given, known) for known in self._key_hashes]
            if kind.lower() != "bearer" or not any(matches):
                message = "The API key is missing or wrong. Send it as `Authorization: Bearer KEY`."
                return 401, message, None, {"WWW-Authenticate": "Bearer"}
        return None

    def _is_allowed_origin(self, origin: str, host: str) -> bool:
        if origin.rstrip("/").lower() in (each.rstrip("/").lower() for each in self._settings.allowed_origins):
            return True
        try:
            return urlsplit(origin).netloc.lower() == host.strip().lower()
        except ValueError:
            return False


class _BodyRefused(Exception):
    """The body of a request is too large or too late."""


def _too_large(limit: int) -> ASGIApp:
    return error_response(413, f"The body is larger than {limit:,} bytes, the limit.", headers={"Connection": "close"})


class _Body:
    """Counts the bytes of a body and the seconds until it is complete."""

    def __init__(self, receive: Receive, limit: int, seconds: float):
        self._receive = receive
        self._limit = limit
        self._seconds = seconds
        self._deadline: float | None = None
        self._is_complete = False
        self._num_bytes = 0
        self.refusal: ASGIApp | None = None
        """The answer to a body that is too large or too late."""

    async def receive(self) -> Message:
        if self._is_complete:  # only the message that the client has left can follow
            return await self._receive()
        loop = asyncio.get_running_loop()
        if self._deadline is None:
            self._deadline = loop.time() + self._seconds
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            late = f"The body did not arrive within {self._seconds:g} s."
            self.refusal = error_response(408, late, headers={"Connection": "close"})
            raise _BodyRefused from None
        if message["type"] == "http.request":
            self._num_bytes += len(message.get("body", b""))
            self._is_complete = not message.get("more_body", False)
            if self._num_bytes > self._limit:
                self.refusal = _too_large(self._limit)
                raise _BodyRefused
        return message


class _Answer:
    """Sends an answer as long as the client reads it."""

    def __init__(self, send: Send, stalled_seconds: float):
        self._send = send
        self._seconds = stalled_seconds
        self.is_started = False

    async def send(self, message: Message) -> None:
        self.is_started = True
        try:
            async with asyncio.timeout(self._seconds):
                await self._send(message)
        except TimeoutError:
            raise OSError(f"The client has not read for {self._seconds:g} s.") from None
