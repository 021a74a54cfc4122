"""Code that worker processes run at their start, to make something in them fail."""

from __future__ import annotations

import os
from pathlib import Path


def sabotage_workers(monkeypatch, folder: Path, code: str) -> None:
    """Every worker started from now on runs `code` first; `folder` must be writable."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(code, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")])))


def failing_read(name: str, failure: str) -> str:
    """Reading the samples of recordings whose name holds `name` runs the statement `failure`."""
    return (
        "import errno, os, signal, soundfile\n"
        "from pathlib import Path\n"
        "read = soundfile.SoundFile.read\n"
        "def failing(self, *args, **kwargs):\n"
        f"    if {name!r} in str(self.name):\n"
        f"        {failure}\n"
        "    return read(self, *args, **kwargs)\n"
        "soundfile.SoundFile.read = failing\n"
    )
