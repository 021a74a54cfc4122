"""The process that runs an observed script: `python -m ... RESULT OPTIONS TARGET [arguments of the script]`.

OPTIONS is JSON (see `Options`). The hooks are installed when the script itself imports TensorFlow, so that what it sets before
(environment variables) takes effect.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.abc
import importlib.util
import json
import os
import runpy
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from myxtts.diagnostics.observe.hooks import Instrumentation
from myxtts.diagnostics.observe.notebook import run_notebook
from myxtts.runtime.safe_files import write_atomically

OWN_DEFAULTS = (
    "TF_CPU_ALLOCATOR_USE_BFC",
    "TF_ENABLE_ONEDNN_OPTS",
    "TF_CPP_MIN_LOG_LEVEL",
    "KERAS_HOME",
    "MPLCONFIGDIR",
)
"""Variables that `import myxtts` sets if the user has not."""


def without_own_defaults(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables without those that this process added to the ones that it was started with (known on Linux only)."""
    started_with = _names_at_start()
    if started_with is None:
        return dict(environment)
    return {name: value for name, value in environment.items() if name not in OWN_DEFAULTS or name in started_with}


def _names_at_start() -> set[str] | None:
    try:
        content = Path("/proc/self/environ").read_bytes()
    except OSError:
        return None
    return {os.fsdecode(entry.split(b"=", 1)[0]) for entry in content.split(b"\0") if entry}


@dataclass(frozen=True)
class Options:
    """How to run and observe the script."""

    kind: str = "script"
    """script | module | notebook"""
    measure_ceiling: bool = True
    steps: int | None = None
    """Observe so many steps, then leave the script alone."""
    use_counters: bool = True
    """Read TensorFlow's internal counters."""
    receives: int | None = None
    """A pipe into which the number of every signal is written that this process receives."""


@dataclass(frozen=True)
class Outcome:
    """How the script ended."""

    outcome: str
    """ended | exited | failed | interrupted | terminated"""
    code: int
    explanation: str


class Terminated(BaseException):
    """SIGTERM: the script ends, and the report of what was measured is still made."""


def main(arguments: list[str]) -> int:
    """Run the script, write the result file, and exit with the script's own code."""
    result, options_text, target, *rest = arguments
    options = Options(**json.loads(options_text))
    for name in set(os.environ) - set(without_own_defaults(os.environ)):
        del os.environ[name]
    watcher = Instrumentation(steps_limit=options.steps, use_counters=options.use_counters)
    _install_at_import(watcher)
    sys.argv = [target, *rest]
    with contextlib.suppress(ValueError):  # only the main thread may; this is one
        signal.signal(signal.SIGTERM, _raise_terminated)
        if options.receives is not None:
            os.set_inheritable(options.receives, False)
            signal.set_wakeup_fd(options.receives, warn_on_full_buffer=False)
    os.register_at_fork(after_in_child=lambda: _leave_alone(watcher))
    process = os.getpid()
    watcher.begin()
    outcome = _run(options.kind, target)
    if (
        os.getpid() != process
    ):  # a process that the script forked, and that ended in this module: the report is its parent's
        return outcome.code
    for number in (signal.SIGTERM, signal.SIGINT):  # the report is short, and Ctrl-C is often pressed twice
        signal.signal(number, signal.SIG_IGN)
    sys.stdout.flush()
    recording = watcher.remove()
    recording.child_seconds = sum(os.times()[2:4])
    recording.frameworks = tuple(name for name in ("torch", "jax") if name in sys.modules)
    _write_result(Path(result), recording, outcome, options.measure_ceiling and outcome.code == 0)
    return outcome.code


def _run(kind: str, target: str) -> Outcome:
    try:
        if kind == "module":
            sys.path[0] = os.getcwd()
            runpy.run_module(target, run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = os.path.dirname(os.path.abspath(target))
            if kind == "notebook":
                run_notebook(Path(target))
            else:
                runpy.run_path(target, run_name="__main__")
    except SystemExit as error:
        code = _exit_code(error)
        return Outcome("exited", code, f"The script called sys.exit({error.code!r})." if code else "")
    except KeyboardInterrupt:
        return Outcome("interrupted", 130, "The script was interrupted.")
    except Terminated:
        return Outcome("terminated", 143, "The script was terminated (SIGTERM).")
    except BaseException as error:
        _print_traceback(error)
        first, *_ = [
            *(line.strip() for line in str(error).splitlines() if line.strip()),
            "",
        ]  # the whole message is printed above
        return Outcome("failed", 1, f"The script failed: {type(error).__name__}: {first}".rstrip(": "))
    return Outcome("ended", 0, "")


def _install_at_import(watcher: Instrumentation) -> None:
    """Keras imports TensorFlow and TensorFlow Keras: each is observed as soon as it is complete, in either order."""
    installed: list[str] = []

    def install() -> None:
        if "tensorflow" not in installed and hasattr(sys.modules.get("tensorflow"), "function"):
            installed.append("tensorflow")
            watcher.install_tensorflow()
        loaded = [name for name in ("keras", "tf_keras") if hasattr(sys.modules.get(name), "Model")]
        if "keras" not in installed and loaded:
            installed.append("keras")
            is_other = loaded == ["keras"] and _keras_backend() not in (None, "tensorflow")
            if is_other:
                watcher.recording.keras_backend = _keras_backend()
            elif "tensorflow" in installed:
                watcher.install_keras()
            else:
                installed.remove("keras")

    for package in ("tensorflow", "keras", "tf_keras"):
        sys.meta_path.insert(0, _AfterImport(package, install))
    sys.meta_path.insert(0, _AfterImport("numba", watcher.release_numpy))


def _keras_backend() -> str | None:
    backend: Any = getattr(sys.modules["keras"], "backend", None)
    return backend.backend() if hasattr(backend, "backend") else None


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


def _leave_alone(watcher: Instrumentation) -> None:
    """A forked process has no hooks, and SIGTERM ends it at once, as `multiprocessing.Pool` expects of its workers."""
    watcher.abandon()
    with contextlib.suppress(ValueError):  # forked by another thread than the main one
        signal.set_wakeup_fd(-1)
    if signal.getsignal(signal.SIGTERM) is _raise_terminated:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _raise_terminated(number: int, frame: FrameType | None) -> None:
    raise Terminated


def _exit_code(error: SystemExit) -> int:
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    sys.stderr.write(f"{error.code}\n")
    return 1


def _print_traceback(error: BaseException) -> None:
    """The script's own traceback, without the frames of this diagnosis."""
    frames = traceback.extract_tb(error.__traceback__)
    own = os.path.dirname(os.path.abspath(__file__))
    kept = [frame for frame in frames if not frame.filename.startswith(own) and "runpy" not in frame.filename]
    sys.stdout.flush()
    sys.stderr.write("Traceback (most recent call last):\n")
    sys.stderr.write("".join(traceback.format_list(kept)))
    sys.stderr.write("".join(traceback.format_exception_only(error)))
    sys.stderr.flush()


def _write_result(path: Path, recording: Any, outcome: Outcome, measure: bool) -> None:
    """Write the report, then once more with the ceiling: if that crashes or does not end, the first one stands."""
    from myxtts.diagnostics.observe.ceiling import MOST_SECONDS, measure_ceiling, unmeasured_ceiling
    from myxtts.diagnostics.observe.report import build_report

    content: dict[str, Any] = {
        "outcome": outcome.outcome, "script_exit_code": outcome.code, "explanation": outcome.explanation,
        "report": None, "text": "",
    }  # fmt: skip
    try:
        ceiling = unmeasured_ceiling(recording, "it did not end") if measure else None
        report = build_report(recording, ceiling)
        content.update(report=report.to_json(), text=report.to_text())
        if ceiling is not None:
            write_atomically(path, json.dumps(content), is_durable=False)
            with _ends_process_after(MOST_SECONDS, outcome.code):
                ceiling = measure_ceiling(recording)
            report = build_report(recording, ceiling)
            content.update(report=report.to_json(), text=report.to_text())
    except Exception as error:  # a defect of the diagnosis: the script's own outcome is still reported
        what = f"The diagnosis itself failed ({type(error).__name__}: {error}); this says nothing about the script."
        content["explanation"] = f"{outcome.explanation} {what}".strip()
        sys.stderr.write(traceback.format_exc())
    write_atomically(path, json.dumps(content), is_durable=False)


@contextlib.contextmanager
def _ends_process_after(seconds: float, code: int) -> Iterator[None]:
    """End the process, as at its regular end, if the block takes longer."""

    def end() -> None:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        os._exit(code)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
