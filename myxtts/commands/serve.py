"""`myxtts serve`: voices over HTTP and Wyoming, until Ctrl-C."""

from __future__ import annotations

import argparse
import errno
import os
import re
import socket
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from myxtts.errors import ConfigError
from myxtts.runtime.atomic import cause_of
from myxtts.runtime.console import printable

if TYPE_CHECKING:
    from fastapi import FastAPI

    from myxtts.serving.settings import Settings

KEY_VARIABLE = "MYXTTS_API_KEYS"
"""Environment variable with API keys, separated by commas: arguments can be seen by other users of the machine."""
_HOST_NAME = re.compile(r"[\w.:-]+")
_ORIGIN = re.compile(r"https?://[\w.:\[\]-]+/?", re.IGNORECASE)


def configure_serve(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts serve`."""
    from myxtts.serving.settings import WYOMING_PORT, Settings

    defaults = Settings()
    add_voice_flag(parser)
    parser.add_argument(
        "--host", default=defaults.host, help="address to bind to (default: %(default)s, this machine only)"
    )
    parser.add_argument("--port", type=int, default=defaults.port, help="HTTP port (default: %(default)s)")
    parser.add_argument(
        "--wyoming",
        type=int,
        nargs="?",
        const=WYOMING_PORT,
        metavar="PORT",
        help=f"also speak Wyoming, the protocol of Home Assistant (default port: {WYOMING_PORT})",
    )
    parser.add_argument("--announce", action="store_true", help="announce the Wyoming server on the network (zeroconf)")
    parser.add_argument(
        "--api-keys",
        metavar="FILE",
        type=Path,
        help=f"file with one key per line; requests must have one of them (or the variable {KEY_VARIABLE})",
    )
    parser.add_argument(
        "--allowed-host", metavar="NAME", action="append", default=[], help="name that requests may use for this server"
    )
    parser.add_argument(
        "--allowed-origin", metavar="ORIGIN", action="append", default=[], help="web pages that may call this server"
    )
    parser.add_argument(
        "--speakers", metavar="FOLDER", type=Path, help="store cloned speakers here (default: no cloning)"
    )
    parser.add_argument(
        "--keep-recordings", action="store_true", help="store the recording of a clone if its request asks for it"
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=defaults.workers,
        metavar="N",
        help="sentences spoken at the same time (default: %(default)s)",
    )
    parser.add_argument("--threads", type=int, metavar="N", help="threads of one sentence (default: all cores)")
    parser.add_argument(
        "--max-characters",
        type=int,
        default=defaults.max_characters,
        metavar="N",
        help="characters of one text (default: %(default)s)",
    )
    parser.add_argument(
        "--max-requests",
        type=int,
        default=defaults.max_requests,
        metavar="N",
        help="texts spoken at the same time (default: %(default)s)",
    )


def add_voice_flag(parser: argparse.ArgumentParser) -> None:
    """`--voice`, of the server and of the studio."""
    parser.add_argument(
        "--voice",
        metavar="NAME|DIR",
        action="append",
        default=[],
        type=Path,
        help="a bundled voice by name, or a voice folder (repeatable; the first is the default; default: the bundled voices)",
    )


def run_serve(arguments: argparse.Namespace) -> int:
    """Serve until the process is asked to end."""
    from myxtts.serving.app import create_app
    from myxtts.serving.voices import open_voices

    settings = settings_from(arguments)
    check_port(settings.host, settings.port, "--port")
    if settings.wyoming_port is not None:
        check_port(settings.host, settings.wyoming_port, "--wyoming")
    if settings.speakers_folder is not None:
        try:
            settings.speakers_folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"--speakers must be a folder. {settings.speakers_folder} cannot be one: {cause_of(error)}."
            ) from None
    voices, problems = open_voices(arguments.voice, settings.speakers_folder, arguments.threads)
    for problem in problems:
        sys.stderr.write(f"{printable(problem, keeps_lines=False)}\n")
    app = create_app(voices, settings)
    address = f"[{settings.host}]" if ":" in settings.host else settings.host
    sys.stdout.write(f"voices: {', '.join(printable(name) for name in voices.loaded)}\n")
    sys.stdout.write(f"http://{address}:{settings.port}/v1  (documentation: /docs)\n")
    if settings.wyoming_port is not None:
        sys.stdout.write(f"tcp://{address}:{settings.wyoming_port}  (Wyoming)\n")
    sys.stdout.flush()
    run_app(app, settings)
    return 0


def run_app(app: FastAPI, settings: Settings) -> None:
    """Answer requests until the process is asked to end."""
    import uvicorn

    uvicorn.run(
        app,
        host=settings.host,
        port=settings.port,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=5,
    )


def settings_from(arguments: argparse.Namespace) -> Settings:
    """The settings of the command line; a `ConfigError` for values that make no server."""
    from myxtts.serving.settings import Settings

    for name in ("max_characters", "max_requests", "workers", "threads"):
        value = vars(arguments)[name]
        if value is not None and value < 1:
            raise ConfigError(f"--{name.replace('_', '-')} must be at least 1. Received: {value}.")
    if arguments.announce and arguments.wyoming is None:
        raise ConfigError("--announce announces the Wyoming server. Add --wyoming.")
    if arguments.announce and find_spec("zeroconf") is None:
        raise ConfigError("--announce needs zeroconf. Run `pip install '.[discovery]'` in the project folder.")
    if arguments.wyoming == arguments.port:
        raise ConfigError(f"--port and --wyoming must differ. Received: {arguments.port} for both.")
    if arguments.keep_recordings and arguments.speakers is None:
        raise ConfigError("--keep-recordings needs a folder for them. Add --speakers FOLDER.")
    for name in arguments.allowed_host:
        if not _HOST_NAME.fullmatch(name):
            raise ConfigError(f"--allowed-host must be a name such as tts.example.org. Received: {name!r:.80}.")
    for origin in arguments.allowed_origin:
        if not _ORIGIN.fullmatch(origin):
            raise ConfigError(f"--allowed-origin must be like https://example.org. Received: {origin!r:.80}.")
    return Settings(
        host=arguments.host,
        port=arguments.port,
        wyoming_port=arguments.wyoming,
        announces_wyoming=arguments.announce,
        api_keys=_read_keys(arguments.api_keys),
        allowed_hosts=tuple(arguments.allowed_host),
        allowed_origins=tuple(arguments.allowed_origin),
        speakers_folder=arguments.speakers,
        keeps_recordings=arguments.keep_recordings,
        max_characters=arguments.max_characters,
        max_requests=arguments.max_requests,
        workers=arguments.workers,
    )


def check_port(host: str, port: int, flag: str) -> None:
    """Raise a `ConfigError` if nothing can listen at an address; before the voices are loaded."""
    if not 1 <= port <= 65535:
        raise ConfigError(f"{flag} must lie between 1 and 65535. Received: {port}.")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            raise ConfigError(
                f"--host must be an address of this machine, or 0.0.0.0. Received: {host!r:.80}."
            ) from None
        reason = error.strerror or str(error)
        raise ConfigError(
            f"{host} port {port} cannot be used: {reason}. Choose another port with {flag}, or end what uses it."
        ) from None


def _read_keys(path: Path | None) -> tuple[str, ...]:
    """The keys of the file and of the environment variable."""
    lines = os.environ.get(KEY_VARIABLE, "").split(",")
    if path is not None:
        try:
            lines += path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise ConfigError(f"The keys in {path} cannot be read: {reason}.") from None
    keys = tuple(line.strip() for line in lines if line.strip())
    if path is not None and not keys:
        raise ConfigError(f"{path} has no key. Expected one key per line.")
    return keys
