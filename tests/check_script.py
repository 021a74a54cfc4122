"""Run the tests of one file as a script: `python tests/test_….py` prints what was checked and exits non-zero on failure."""

from __future__ import annotations

import re
import sys

import pytest

from myxtts.runtime.startup import start_tensorflow

TENSORFLOW_LINE = re.compile(r"WARNING: All log messages|[IWEF]\d{4} \d\d:|\d{4}-\d\d-\d\d \d\d:.*: [IWEF] ")
"""How a line of TensorFlow's C++ log begins, in its newer and its older format."""


def tensorflow_lines(errors: str) -> list[str]:
    """The lines of TensorFlow's own log in what a command wrote to standard error."""
    return [line for line in errors.splitlines() if TENSORFLOW_LINE.match(line)]


class _Report:
    """One line per test: its name as a sentence, and what it measured (`record_property`)."""

    def __init__(self) -> None:
        self.passed = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            _print(f"🔴 {_sentence(report)}\n   {crash or report.longreprtext}")
        elif report.when == "call":
            self.passed += 1
            _print(f"✅ {_sentence(report)}")
            for name, value in report.user_properties:
                _print(f"   {name}: {value}")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            _print(f"🔴 {report.nodeid} cannot be loaded\n{report.longreprtext}")


def run_as_script(file: str, success: str | None = None) -> int:
    """The exit code of the tests in `file`; `success` is printed before the last line if all of them passed."""
    start_tensorflow()
    report = _Report()
    # The terminal plugin owns the options in `addopts`, and its dots would stand between our lines.
    code = pytest.main([file, "-p", "no:terminal", "-p", "no:cacheprovider", "-o", "addopts="], plugins=[report])
    if code != pytest.ExitCode.OK or not report.passed:
        _print(f"🔴 FAILED. The tracebacks: {sys.executable} -m pytest {file}")
        return int(code) or 1
    if success is not None:
        _print(success)
    _print("✅ ALL TESTS PASSED")
    return 0


def _sentence(report: pytest.TestReport) -> str:
    name = report.location[2].removeprefix("test_").replace("_", " ")
    return name[:1].upper() + name[1:]


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
