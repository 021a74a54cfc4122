"""Runs an unmodified training script under observation: `myxtts diagnose run SCRIPT.py [its arguments]`.

The script runs in a process of its own, started with the same Python, so that it can leave in any way it likes. Its output and
files are its own; the observation is written to a file beside, and the report is printed by the caller afterwards.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from myxtts.errors import DiagnosisError

EXIT_FINE, EXIT_PROBLEM, EXIT_NOT_MEASURED = 0, 1, 2


@dataclass(frozen=True)
class ScriptRun:
    """What became of a script."""

    outcome: str
    """ended | exited | failed | interrupted | killed"""
    script_exit_code: int
    """As the shell would have seen it: 128 + n for a signal."""
    explanation: str
    """One line for people; empty if it simply ended."""
    report: dict[str, Any] | None
    """The report as JSON data; None if the process died before it could be made."""
    text: str
    """The report as text."""

    @property
    def exit_code(self) -> int:
        """0 fine, 1 problem found, 2 could not measure or the script failed."""
        if self.script_exit_code != 0 or self.report is None:
            return EXIT_NOT_MEASURED
        return int(self.report["exit_code"])


def run_script(script: str | Path, arguments: Sequence[str] = (), measure_ceiling: bool = True) -> ScriptRun:
    """Run a script to its end and diagnose it."""
    path = Path(script)
    if not path.is_file():
        raise DiagnosisError(
            f"There is no such script. Received: {path}. Expected: a Python file, as in `myxtts diagnose run train.py`."
        )
    with tempfile.TemporaryDirectory(prefix="myxtts-diagnosis-") as folder:
        result = Path(folder) / "report.json"
        command = [sys.executable, "-m", "myxtts.diagnostics.observe.child", str(result)]
        command += ["ceiling" if measure_ceiling else "no-ceiling", str(path), *arguments]
        process = subprocess.Popen(command, env=_environment())
        code = _wait(process)
        content = json.loads(result.read_text(encoding="utf-8")) if result.exists() else None
    if content is None:
        code = 128 - code if code < 0 else code
        how = (
            f"by signal {signal.Signals(code - 128).name}"
            if code > 128 and code - 128 in set(signal.Signals)
            else (f"at once (os._exit or a crash) with code {code}")
        )
        return ScriptRun(
            "killed", code or 1, f"The script's process was ended {how}; nothing could be measured.", None, ""
        )
    return ScriptRun(**content)


def _environment() -> dict[str, str]:
    """The script's environment is ours; the package must be importable from wherever the script runs."""
    environment = dict(os.environ)
    root = str(Path(__file__).resolve().parents[2])
    known = environment.get("PYTHONPATH", "")
    if root not in sys.path[1:] and root not in known.split(os.pathsep):
        environment["PYTHONPATH"] = f"{root}{os.pathsep}{known}" if known else root
    return environment


def _wait(process: subprocess.Popen) -> int:
    """Wait for the script; Ctrl-C reaches it directly, and here it only means to go on waiting for its end."""
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue
