"""The process that runs an observed script. Arguments: result file, `ceiling` or `no-ceiling`, script, its arguments.

The hooks are set when the script itself imports TensorFlow, so that what it sets before (environment variables) holds.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import json
import os
import runpy
import sys
import traceback
from pathlib import Path
from typing import Any

from myxtts.diagnostics.observe.hooks import Instrumentation


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls `action` once, right after the named package has been imported."""

    def __init__(self, package: str, action: Any):
        self._package, self._action = package, action

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != self._package:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_then_act(module: Any) -> None:
            execute(module)
            self._action()

        spec.loader.exec_module = execute_then_act
        return spec


def main(arguments: list[str]) -> int:
    """Run the script, write the result file, and leave as the script would have left."""
    result, ceiling, script, *rest = arguments
    watcher = Instrumentation()
    installed: list[str] = []

    def install() -> None:
        """Keras imports TensorFlow and TensorFlow Keras: each is watched as soon as it is whole, in either order."""
        if "tensorflow" not in installed and hasattr(sys.modules.get("tensorflow"), "function"):
            watcher.install_tensorflow()
            installed.append("tensorflow")
        if "tensorflow" in installed and "keras" not in installed and hasattr(sys.modules.get("keras"), "Model"):
            watcher.install_keras()
            installed.append("keras")

    for package in ("tensorflow", "keras"):
        sys.meta_path.insert(0, _AfterImport(package, install))
    sys.argv = [script, *rest]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    outcome, code, explanation = "ended", 0, ""
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as error:
        outcome, code = "exited", _exit_code(error)
        explanation = f"The script called sys.exit({error.code!r})." if code else ""
    except KeyboardInterrupt:
        outcome, code, explanation = "interrupted", 130, "The script was interrupted."
    except BaseException as error:
        _show(error)
        outcome, code, explanation = "failed", 1, f"The script failed: {type(error).__name__}: {error}"
    sys.stdout.flush()
    recording = watcher.remove() if installed else watcher.recording
    _write(
        Path(result),
        recording,
        outcome,
        code,
        explanation,
        measure=ceiling == "ceiling" and code == 0 and bool(installed),
    )
    return code


def _exit_code(error: SystemExit) -> int:
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    sys.stderr.write(f"{error.code}\n")
    return 1


def _show(error: BaseException) -> None:
    """The script's own traceback, without the frames of this diagnosis."""
    frames = traceback.extract_tb(error.__traceback__)
    own = os.path.dirname(os.path.abspath(__file__))
    kept = [frame for frame in frames if not frame.filename.startswith(own) and "runpy" not in frame.filename]
    sys.stdout.flush()
    sys.stderr.write("Traceback (most recent call last):\n")
    sys.stderr.write("".join(traceback.format_list(kept)))
    sys.stderr.write("".join(traceback.format_exception_only(error)))
    sys.stderr.flush()


def _write(path: Path, recording: Any, outcome: str, code: int, explanation: str, measure: bool) -> None:
    from myxtts.diagnostics.observe.ceiling import measure_ceiling
    from myxtts.diagnostics.observe.report import build_report

    report = build_report(recording, measure_ceiling(recording) if measure else None)
    content = {
        "outcome": outcome,
        "script_exit_code": code,
        "explanation": explanation,
        "report": report.to_json(),
        "text": report.to_text(),
    }
    path.write_text(json.dumps(content), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
