"""`myxtts serve`: voices over HTTP and Wyoming, until Ctrl-C; `myxtts studio`: the same server with the studio's pages, for this
machine only."""

from __future__ import annotations

import argparse
import contextlib
import errno
import ipaddress
import os
import re
import socket
import sys
import threading
import webbrowser
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from myxtts.errors import ConfigError, EvaluationError, install_line
from myxtts.runtime.console import printable
from myxtts.runtime.safe_files import cause_of

if TYPE_CHECKING:
    import numpy as np
    from fastapi import FastAPI

    from myxtts.serving.settings import Settings
    from myxtts.serving.studio import Judges


KEY_VARIABLE = "MYXTTS_API_KEYS"
"""Environment variable with API keys, separated by commas: arguments can be seen by other users of the machine."""
LOCK_NAME = "studio.lock"
BROWSER_SECONDS = 1.0
"""Delay before the page is opened, so that the server has started."""
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
        help=f"also serve Wyoming, the protocol of Home Assistant (default port: {WYOMING_PORT})",
    )
    parser.add_argument("--announce", action="store_true", help="announce the Wyoming server on the network (zeroconf)")
    parser.add_argument(
        "--api-keys",
        metavar="FILE",
        type=Path,
        help=f"file with one API key per line, of which every request must send one (or set {KEY_VARIABLE})",
    )
    parser.add_argument(
        "--allowed-host",
        metavar="NAME",
        action="append",
        default=[],
        help="host name that requests may use for this server (repeatable)",
    )
    parser.add_argument(
        "--allowed-origin",
        metavar="ORIGIN",
        action="append",
        default=[],
        help="origin of web pages that may call this server (repeatable)",
    )
    parser.add_argument(
        "--speakers", metavar="FOLDER", type=Path, help="folder for cloned speakers (default: no cloning)"
    )
    parser.add_argument(
        "--keep-recordings", action="store_true", help="also store the recording of a clone, if the request asks for it"
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=defaults.workers,
        metavar="N",
        help="sentences spoken at the same time (default: %(default)s)",
    )
    parser.add_argument(
        "--threads", type=int, default=1, metavar="N", help="threads per sentence (default: %(default)s)"
    )
    parser.add_argument(
        "--max-characters",
        type=int,
        default=defaults.max_characters,
        metavar="N",
        help="maximum number of characters per text (default: %(default)s)",
    )
    parser.add_argument(
        "--max-requests",
        type=int,
        default=defaults.max_requests,
        metavar="N",
        help="maximum number of requests at the same time (default: %(default)s)",
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
                f"--speakers must be a folder. {settings.speakers_folder} cannot be one: {cause_of(error)}. Name another."
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
    if settings.announces_wyoming and is_loopback(settings.host):
        sys.stderr.write(
            f"--announce: no other machine can reach {settings.host}. For Home Assistant use --host 0.0.0.0.\n"
        )
    run_app(app, settings)
    return 0


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to an address that `check_port` has accepted."""
    return ipaddress.ip_address(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0]).is_loopback


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
    """The settings of the command line; a `ConfigError` for values that a server cannot have."""
    from myxtts.serving.settings import Settings

    for name in ("max_characters", "max_requests", "workers", "threads"):
        value = vars(arguments)[name]
        if value is not None and value < 1:
            raise ConfigError(f"--{name.replace('_', '-')} must be at least 1. Received: {value}.")
    if arguments.announce and arguments.wyoming is None:
        raise ConfigError("--announce announces the Wyoming server. Add --wyoming.")
    if arguments.announce and find_spec("zeroconf") is None:
        raise ConfigError(f"--announce needs zeroconf. Run {install_line('discovery')}.")
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
            f"{host} port {port} cannot be used: {reason}. Choose another port with {flag}, or stop the program that uses it."
        ) from None


def _read_keys(path: Path | None) -> tuple[str, ...]:
    """The keys of the file and of the environment variable."""
    lines = os.environ.get(KEY_VARIABLE, "").split(",")
    if path is not None:
        try:
            lines += path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise ConfigError(
                f"The keys in {path} cannot be read: {reason}. Expected a text file with one key per line."
            ) from None
    keys = tuple(line.strip() for line in lines if line.strip())
    if path is not None and not keys:
        raise ConfigError(f"{path} has no key. Expected one key per line.")
    return keys


def configure_studio(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts studio`."""
    from myxtts.serving.settings import DEFAULT_PORT

    parser.add_argument(
        "workspace",
        metavar="WORKSPACE",
        nargs="?",
        type=Path,
        default=Path("."),
        help="folder of runs, corpora, speakers and evaluations (default: the current folder)",
    )
    add_voice_flag(parser)
    parser.add_argument(
        "--corpus",
        metavar="DIR",
        action="append",
        default=[],
        type=Path,
        help="another folder of recordings to train on (repeatable)",
    )
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="port on this machine (default: %(default)s)")
    parser.add_argument(
        "--threads", type=int, default=1, metavar="N", help="threads per sentence (default: %(default)s)"
    )
    parser.add_argument("--no-browser", action="store_true", help="do not open the page in the browser")


def run_studio(arguments: argparse.Namespace) -> int:
    """Serve the studio until the process is asked to end."""
    from myxtts.runtime.locks import FolderIsLocked, FolderLock
    from myxtts.serving.app import create_app
    from myxtts.serving.settings import LOOPBACK, Settings
    from myxtts.serving.studio import add_studio
    from myxtts.serving.voices import open_voices
    from myxtts.serving.workspace import Workspace
    from myxtts.synthesis.bundled import bundled_voices, find_voice

    if arguments.threads < 1:
        raise ConfigError(f"--threads must be at least 1. Received: {arguments.threads}.")
    for folder in arguments.corpus:
        if not folder.is_dir():
            raise ConfigError(f"--corpus must be a folder of recordings. Received: {folder}.")
    folders = [find_voice(folder) for folder in arguments.voice] or list(bundled_voices().values())
    places = {folder.resolve().name: folder.resolve() for folder in folders}
    workspace = Workspace(arguments.workspace.resolve(), places, [folder.resolve() for folder in arguments.corpus])
    settings = Settings(host=LOOPBACK, port=arguments.port, speakers_folder=workspace.speakers_folder)
    check_port(settings.host, settings.port, "--port")
    with contextlib.ExitStack() as stack:
        try:
            workspace.speakers_folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(FolderLock(workspace.folder, LOCK_NAME))
        except FolderIsLocked as locked:
            raise ConfigError(f"Another studio uses {workspace.folder}: {locked}. Open its page, or stop it.") from None
        except OSError as error:
            raise ConfigError(
                f"The workspace {workspace.folder} cannot be written: {cause_of(error)}. Name another folder."
            ) from None
        voices, problems = open_voices(folders, settings.speakers_folder, arguments.threads)
        for problem in problems:
            sys.stderr.write(f"{printable(problem, keeps_lines=False)}\n")
        app = create_app(voices, settings)
        add_studio(app, workspace, _judges())
        address = f"http://{LOOPBACK}:{settings.port}/studio/"
        sys.stdout.write(f"workspace: {printable(str(workspace.folder))}\nstudio: {address}\nStop with Ctrl-C.\n")
        sys.stdout.flush()
        if not arguments.no_browser:
            opener = threading.Timer(BROWSER_SECONDS, webbrowser.open, [address])
            opener.daemon = True
            opener.start()
        run_app(app, settings)
    return 0


def _judges() -> Judges:
    """A recognizer and a speaker encoder, as far as their packages are installed."""
    from myxtts.evaluation.metrics import METRIC_PACKAGES, has_package
    from myxtts.serving.studio import Judges
    from myxtts.serving.studio_record import Heard

    def hear(samples: np.ndarray, sample_rate: int, text: str, language: str) -> Heard | None:
        from myxtts.evaluation.clip_metrics import count_errors
        from myxtts.evaluation.recognizers import open_recognizer

        try:
            recognizer = open_recognizer(None, [language])
        except EvaluationError:  # none for this language
            return None
        heard = recognizer.recognize([samples], sample_rate, [language])[0]
        return Heard(heard, count_errors(text, heard, language).character_error)

    def compare(first: np.ndarray, first_rate: int, second: np.ndarray, second_rate: int) -> float | None:
        from myxtts.evaluation.clip_metrics import SpeakerEmbedder

        embedder = SpeakerEmbedder.load()
        one, other = embedder.embed(first, first_rate), embedder.embed(second, second_rate)
        return None if one is None or other is None else float(one @ other)

    has_recognizer = has_package("rapidfuzz") and (has_package("moonshine_voice") or has_package("pocketsphinx"))
    has_encoder = has_package("resemblyzer") and has_package("torch")
    metrics = [name for name, packages in METRIC_PACKAGES.items() if all(map(has_package, packages))]
    if not has_recognizer:
        metrics = [name for name in metrics if name not in ("cer", "wer")]
    return Judges(hear if has_recognizer else None, compare if has_encoder else None, tuple(metrics))
