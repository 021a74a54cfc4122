"""Runs an unmodified training script under observation: `myxtts diagnose run SCRIPT.py [its arguments]`.

The script runs in a process of its own, started with the same Python, so that it can end in any way. Its output and files are
its own. The report is written to a temporary file and printed by the caller afterwards.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from myxtts.diagnostics.observe.child import Options, without_own_defaults
from myxtts.errors import DiagnosisError

EXIT_NOT_MEASURED = 2
SECONDS_TO_RECEIVE = 0.5
"""Time in which a signal that a terminal sends to all of its processes also reaches the script."""


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
    with tempfile.TemporaryDirectory(prefix="diagnosis-") as folder, _open_pipe() as (received, receives):
        result = Path(folder) / "report.json"
        options = Options(kind, measure_ceiling, steps, use_counters, receives)
        command = [sys.executable, "-m", Options.__module__, str(result), json.dumps(asdict(options))]
        inherited = (receives,) if receives is not None else ()
        process = subprocess.Popen([*command, str(script), *arguments], env=_environment(), pass_fds=inherited)
        code = SignalRelay(process, received).wait()
        content = json.loads(result.read_text(encoding="utf-8")) if result.exists() else None
    return ScriptRun(**content) if content is not None else _without_result(code)


@contextlib.contextmanager
def _open_pipe() -> Iterator[tuple[int, int] | tuple[None, None]]:
    """The two ends of a pipe, to read from and to write to without waiting; None where processes cannot share one."""
    if os.name != "posix":
        yield None, None
        return
    received, receives = os.pipe()
    os.set_blocking(receives, False)
    try:
        yield received, receives
    finally:
        os.close(received)
        os.close(receives)


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


class SignalRelay:
    """Passes SIGINT and SIGTERM on to the script while it runs, if they reached this process alone.

    Ctrl-C reaches every process of the terminal; a signal sent to one process id does not. A second one would interrupt whatever
    the script does at the first. So the script's process writes each signal that it receives into a pipe, and a signal is passed
    on only if the script has not received as many by itself.
    """

    def __init__(self, process: subprocess.Popen, received_by_script: int | None):
        """
        Args:
            process: The script.
            received_by_script: The end of the pipe to read from; None where processes cannot share one.
        """
        self._process = process
        self._pipe = received_by_script
        self._known: Counter[int] = Counter()
        """Signals that the script has received, passed-on ones included."""
        self._received: Counter[int] = Counter()

    def wait(self) -> int:
        """Wait for the script to end; its exit code. A second SIGTERM ends it without a report."""
        passed_on = [n for n in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(n) is not signal.SIG_IGN]  # nohup
        previous = {number: _set_handler(number, self._pass_on) for number in passed_on}
        try:
            return self._process.wait()
        finally:
            for number, handler in previous.items():
                _set_handler(number, handler)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self._received[number] += 1
        if number == signal.SIGTERM and self._received[number] > 1:
            self._process.kill()
            return
        deadline = time.monotonic() + SECONDS_TO_RECEIVE
        while self._known[number] < self._received[number] and self._read(deadline - time.monotonic()):
            pass
        if self._known[number] < self._received[number]:
            self._process.send_signal(number)

    def _read(self, seconds: float) -> bool:
        """Read what the script has received within a time; False if there was nothing."""
        if self._pipe is None or seconds < 0 or not select.select([self._pipe], [], [], seconds)[0]:
            return False
        numbers = os.read(self._pipe, 4096)
        self._known.update(numbers)
        return bool(numbers)


def _set_handler(number: int, handler: Any) -> Any:
    """Set the handler of a signal where that is allowed: in the main thread."""
    try:
        return signal.signal(number, handler)
    except (ValueError, TypeError):
        return None
