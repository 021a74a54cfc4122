"""Runs an unmodified training script under observation: `myxtts diagnose run SCRIPT.py [its arguments]`.

The script runs in a process of its own, started with the same Python, so that it can end in any way. Its output and files are
its own. The report is written to a temporary file and printed by the caller afterwards.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from myxtts.diagnostics.observe.child import Options, without_own_defaults
from myxtts.errors import DiagnosisError

EXIT_NOT_MEASURED = 2


@dataclass(frozen=True)
class ScriptRun:
    """How a script ended, and its report."""

    outcome: str
    """ended | exited | failed | interrupted | terminated | killed"""
    script_exit_code: int
    """As the shell would have seen it: 128 + n for a signal."""
    explanation: str
    """One line for people; empty if it simply ended."""
    report: dict[str, Any] | None
    """The report as JSON data; None if the process ended before it could be made."""
    text: str
    """The report as text."""

    @property
    def exit_code(self) -> int:
        """0 fine, 1 problem found, 2 could not measure or the script failed."""
        if self.script_exit_code != 0 or self.report is None:
            return EXIT_NOT_MEASURED
        return int(self.report["exit_code"])


def run_script(
    script: str | Path,
    arguments: Sequence[str] = (),
    measure_ceiling: bool = True,
    steps: int | None = None,
    is_module: bool = False,
    use_counters: bool = True,
) -> ScriptRun:
    """Run a script, notebook or module (`python -m`) to its end and diagnose it.

    Args:
        script: Path of a `.py` file or a notebook, or the name of a module.
        arguments: The script's own arguments.
        measure_ceiling: Time step and loader alone after the run.
        steps: Observe so many steps only.
        is_module: `script` is the name of a module.
        use_counters: Read TensorFlow's internal counters (XLA compilations, waiting inside graphs).
    """
    kind = "module" if is_module else "notebook" if Path(script).suffix == ".ipynb" else "script"
    if kind != "module" and not Path(script).is_file():
        raise DiagnosisError(
            f"There is no such script. Received: {script}. Expected: a Python file or a notebook, as in "
            "`myxtts diagnose run train.py`, or a module, as in `myxtts diagnose run -m package.train`."
        )
    if steps is not None and steps < 1:
        raise DiagnosisError(f"At least 1 step must be observed. Received: {steps}.")
    options = Options(kind, measure_ceiling, steps, use_counters)
    with tempfile.TemporaryDirectory(prefix="diagnosis-") as folder:
        result = Path(folder) / "report.json"
        command = [sys.executable, "-m", Options.__module__, str(result), json.dumps(asdict(options))]
        process = subprocess.Popen([*command, str(script), *arguments], env=_environment())
        code = _wait(process)
        content = json.loads(result.read_text(encoding="utf-8")) if result.exists() else None
    return ScriptRun(**content) if content is not None else _without_result(code)


def _without_result(code: int) -> ScriptRun:
    code = 128 - code if code < 0 else code
    if code > 128 and code - 128 in set(signal.Signals):
        how = f"by signal {signal.Signals(code - 128).name}"
    else:
        how = f"immediately (os._exit or a crash) with code {code}"
    explanation = f"The script's process was ended {how}; nothing could be measured."
    return ScriptRun("killed", code or 1, explanation, None, "")


def _environment() -> dict[str, str]:
    """The script's environment is the user's; the package must be importable from wherever the script runs."""
    environment = without_own_defaults(os.environ)
    depth = __name__.count(".")
    root = str(Path(__file__).resolve().parents[depth])
    known = environment.get("PYTHONPATH", "")
    if root not in sys.path[1:] and root not in known.split(os.pathsep):
        environment["PYTHONPATH"] = f"{root}{os.pathsep}{known}" if known else root
    return environment


def _wait(process: subprocess.Popen) -> int:
    """Wait for the script. Ctrl-C reaches it directly; SIGTERM is passed on, a second one ends it without a report."""
    received: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        received.append(number)
        process.send_signal(signal.SIGTERM if len(received) == 1 else signal.SIGKILL)

    previous = _set_handler(pass_on)
    try:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue
    finally:
        _set_handler(previous)


def _set_handler(handler: Any) -> Any:
    """Set the handler of SIGTERM where that is allowed: in the main thread."""
    try:
        return signal.signal(signal.SIGTERM, handler)
    except (ValueError, TypeError):
        return None
