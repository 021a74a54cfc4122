"""Play a wav file through a player that is installed: nothing is linked, so speaking needs no audio library."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from myxtts.errors import AudioError
from myxtts.runtime.printable import printable

FILE_VARIABLE = "MYXTTS_WAV"
"""Environment variable that hands the path to PowerShell, which would otherwise parse it as code."""
PLAYERS: Mapping[str, tuple[str, ...]] = {
    "paplay": ("{wav}",),
    "aplay": ("-q", "{wav}"),
    "ffplay": ("-nodisp", "-autoexit", "-loglevel", "error", "{wav}"),
    "afplay": ("{wav}",),
    "powershell": (
        "-NoProfile",
        "-Command",
        f"(New-Object System.Media.SoundPlayer $env:{FILE_VARIABLE}).PlaySync()",
    ),
}
"""Programs and their arguments, the preferred first: PulseAudio and PipeWire, ALSA, FFmpeg, macOS, Windows."""


def find_player() -> str:
    """The name of the first player that is installed; an `AudioError` if there is none."""
    for name in PLAYERS:
        if shutil.which(name) is not None:
            return name
    raise AudioError(
        f"No audio player is installed. Expected one of: {', '.join(PLAYERS)}. Install one (Debian, Ubuntu: "
        "`apt install alsa-utils`), or leave out --play and name a file: -o FILE.",
        "missing",
    )


def play(path: str | Path, player: str) -> None:
    """Play a wav file to its end; an `AudioError` with the player's own words if it fails."""
    path = os.path.abspath(path)
    words = [player, *(word.format(wav=path) for word in PLAYERS[player])]
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, FILE_VARIABLE: path},
            check=False,
        )
    except OSError as error:
        raise AudioError(f"The player {player} cannot be started: {error.strerror}.", "missing") from None
    if done.returncode:
        said = printable(" ".join(done.stderr.decode("utf-8", "replace").split()), keeps_lines=False)
        raise AudioError(
            f"The player {player} failed with exit code {done.returncode}: {said[:200] or 'no message'}. Write a file instead: "
            "-o FILE.",
            "missing",
        )
