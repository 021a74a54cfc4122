"""What a server allows: addresses, keys and limits, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DEFAULT_PORT = 8000
"""SillyTavern's default address of an OpenAI-compatible server."""
WYOMING_PORT = 10200
"""Where Home Assistant expects text-to-speech."""
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of one server."""

    host: str = LOOPBACK
    """Address to bind to; only this machine by default."""
    port: int = DEFAULT_PORT
    wyoming_port: int | None = None
    """None: no Wyoming server."""
    announces_wyoming: bool = False
    """Announce the Wyoming server by zeroconf, so that Home Assistant finds it."""
    api_keys: tuple[str, ...] = ()
    """Requests must have one of them; none: no key is needed."""
    allowed_hosts: tuple[str, ...] = ()
    """Names in the Host header, next to IP addresses, localhost and this machine's name."""
    allowed_origins: tuple[str, ...] = ()
    """Origins of web pages that may call the server, such as `https://example.org`."""
    speakers_folder: Path | None = None
    """Where cloned speakers are stored; None: cloning is off."""
    keeps_recordings: bool = False
    """Store an uploaded recording next to its speaker if the request asks for it."""

    max_characters: int = 100_000
    """Characters of one text: about two hours of speech."""
    max_pending_characters: int = 400_000
    """Characters of all texts that are being spoken."""
    max_requests: int = 32
    """Requests that are spoken at the same time; they take turns sentence by sentence."""
    max_connections: int = 64
    """Connections to the Wyoming port."""
    max_body_bytes: int = 2 << 20
    """Body of a request that is not an upload: 100,000 characters in UTF-8, escaped as JSON."""
    max_upload_bytes: int = 25 << 20
    """Body of an upload: a reference is a minute of speech, which is 11 MB as 24-bit stereo at 32 kHz."""
    body_seconds: float = 60.0
    """Time in which a request's body must arrive."""
    stalled_seconds: float = 120.0
    """A client that does not read its answer for so long is disconnected."""
    workers: int = 2
    """Sentences spoken at the same time, each by one thread."""
