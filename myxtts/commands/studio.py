"""`myxtts studio`: the server of `myxtts serve` with the studio's pages, for this machine only, until Ctrl-C."""

from __future__ import annotations

import argparse
import contextlib
import sys
import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

from myxtts.commands.serve import add_voice_flag, check_port, run_app
from myxtts.errors import ConfigError, EvaluationError
from myxtts.runtime.atomic import cause_of
from myxtts.runtime.console import printable

if TYPE_CHECKING:
    import numpy as np

    from myxtts.serving.studio import Judges

LOCK_NAME = "studio.lock"
BROWSER_SECONDS = 1.0
"""Until the page is opened: the server must have started."""


def configure_studio(parser: argparse.ArgumentParser) -> None:
    """Arguments of `myxtts studio`."""
    from myxtts.serving.settings import DEFAULT_PORT

    parser.add_argument(
        "workspace",
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
        help="folder of recordings elsewhere that can be trained on (repeatable)",
    )
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="port on this machine (default: %(default)s)")
    parser.add_argument("--threads", type=int, metavar="N", help="threads of one sentence (default: all cores)")
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

    if arguments.threads is not None and arguments.threads < 1:
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
            raise ConfigError(f"Another studio uses {workspace.folder}: {locked}. Use its page.") from None
        except OSError as error:
            raise ConfigError(f"The workspace {workspace.folder} cannot be written: {cause_of(error)}.") from None
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
    from myxtts.evaluation.metrics import METRIC_PACKAGES, is_installed
    from myxtts.serving.studio import Judges
    from myxtts.serving.studio_record import Heard

    def hear(samples: np.ndarray, sample_rate: int, text: str, language: str) -> Heard | None:
        from myxtts.evaluation.recognizers import open_recognizer
        from myxtts.evaluation.text_errors import count_errors

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

    has_recognizer = is_installed("rapidfuzz") and (is_installed("moonshine_voice") or is_installed("pocketsphinx"))
    has_encoder = is_installed("resemblyzer") and is_installed("torch")
    metrics = [name for name, packages in METRIC_PACKAGES.items() if all(map(is_installed, packages))]
    if not has_recognizer:
        metrics = [name for name in metrics if name not in ("cer", "wer")]
    return Judges(hear if has_recognizer else None, compare if has_encoder else None, tuple(metrics))
