"""Wyoming as bytes: events, the description of a service, and its announcement in the network.

An event is a line of JSON `{"type", "data", "data_length", "payload_length"}`, then that many bytes of more data (JSON) and of
payload.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from myxtts import __version__
from myxtts.serving.api_errors import LOG
from myxtts.serving.turns import SpeechEngine

SERVICE_NAME = "myxtts"
LONGEST_LINE = 1 << 16
"""Bytes of a header: text is in it or in the data after it."""
MOST_DATA_BYTES = 1 << 20
MOST_PAYLOAD_BYTES = 1 << 20
"""Nothing that is sent to a text-to-speech server has a payload; it is read and dropped."""


class Event(NamedTuple):
    """One message of the protocol."""

    type: str
    data: dict[str, Any]


class ProtocolError(Exception):
    """The other side does not speak Wyoming, or sends too much."""


async def read_event(reader: asyncio.StreamReader) -> Event | None:
    """The next event; None at the end of the connection."""
    try:
        line = await reader.readline()
    except ValueError:
        raise ProtocolError(f"The header is too long. Expected at most {LONGEST_LINE} bytes.") from None
    if not line:
        return None
    header = _parse(line)
    kind, data = header.get("type"), header.get("data") or {}
    data_length, payload_length = header.get("data_length") or 0, header.get("payload_length") or 0
    if not isinstance(kind, str) or not isinstance(data, dict):
        raise ProtocolError(f"A header must have a type (text) and data (object). Received: {header!r:.80}.")
    for name, length, most in (
        ("data_length", data_length, MOST_DATA_BYTES),
        ("payload_length", payload_length, MOST_PAYLOAD_BYTES),
    ):
        if type(length) is not int or not 0 <= length <= most:
            raise ProtocolError(f"{name} must lie between 0 and {most}. Received: {length!r:.40}.")
    try:
        if data_length:
            data = {**data, **_parse(await reader.readexactly(data_length))}
        if payload_length:
            await reader.readexactly(payload_length)
    except asyncio.IncompleteReadError:
        return None
    return Event(kind, data)


def _parse(content: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(content)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise ProtocolError(f"An event must be a JSON object. Received: {content!r:.80}.")
    return parsed


def write_event(kind: str, data: dict[str, Any] | None = None, payload: bytes = b"") -> bytes:
    """An event as bytes."""
    header: dict[str, Any] = {"type": kind, "version": "1.10.0"}
    content = json.dumps(data).encode() if data else b""
    if content:
        header["data_length"] = len(content)
    if payload:
        header["payload_length"] = len(payload)
    return json.dumps(header).encode() + b"\n" + content + payload


def service_info(engine: SpeechEngine) -> dict[str, Any]:
    """The data of an `info` event."""
    voices = []
    for name, voice in engine.voices.loaded.items():
        description = voice.description
        voices.append(
            {
                "name": name,
                "attribution": {"name": description.attribution or "unknown", "url": ""},
                "installed": True,
                "description": name,
                "version": __version__,
                "languages": list(voice.languages),
                "speakers": [{"name": each} for each in voice.speakers] if len(voice.speakers) > 1 else None,
            }
        )
    for entry in engine.voices.entries():
        if entry.is_cloned:
            voices.append(
                {
                    "name": entry.id,
                    "attribution": {"name": "cloned", "url": ""},
                    "installed": True,
                    "description": entry.id,
                    "version": __version__,
                    "languages": list(entry.languages),
                    "speakers": None,
                }
            )
    program = {
        "name": SERVICE_NAME,
        "attribution": {"name": "MyXTTS", "url": ""},
        "installed": True,
        "description": "Text-to-speech",
        "version": __version__,
        "voices": voices,
        "supports_synthesize_streaming": True,
    }
    return {"tts": [program], "asr": [], "handle": [], "intent": [], "wake": [], "mic": [], "snd": []}


@asynccontextmanager
async def announced(host: str, port: int, *, is_wanted: bool) -> AsyncIterator[None]:
    """Announce the port on the network inside the block, so that Home Assistant finds it."""
    if not is_wanted:
        yield
        return
    from zeroconf import Error, InterfaceChoice
    from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

    service = "_wyoming._tcp.local."
    own = resolved(host)
    is_everywhere = own in ("0.0.0.0", "::")
    machine = re.sub("[^A-Za-z0-9-]", "-", socket.gethostname().partition(".")[0])[:40]
    info = AsyncServiceInfo(
        service,
        f"{SERVICE_NAME}.{service}",
        port=port,
        parsed_addresses=_addresses() if is_everywhere else [own],
        server=f"{SERVICE_NAME}-{machine}.local.",
    )
    zeroconf = None
    try:
        zeroconf = AsyncZeroconf(interfaces=InterfaceChoice.Default if is_everywhere else [own])
        await zeroconf.async_register_service(info, allow_name_change=True)
    except (OSError, Error) as error:
        reason = str(error) or type(error).__name__
        LOG.warning("The Wyoming server cannot be announced (%s). Enter its address in the client.", reason)
    try:
        yield
    finally:
        if zeroconf is not None:
            await zeroconf.async_unregister_all_services()
            await zeroconf.async_close()


def resolved(host: str) -> str:
    """The address that a name of this machine stands for."""
    return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])


def _addresses() -> list[str]:
    """The IPv4 addresses of this machine in its networks."""
    import psutil

    return [
        address.address
        for each in psutil.net_if_addrs().values()
        for address in each
        if address.family == socket.AF_INET and not address.address.startswith("127.")
    ]
