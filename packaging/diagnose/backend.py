"""Build backend: copies the diagnosis out of the repository into a package of its own, then builds it with setuptools."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403 - every hook but the two below is setuptools' own

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "myxtts"
PACKAGE = HERE / "myxtts_diagnose"
RUNTIME = ("machine", "safe_files", "signatures", "tensorflow_counters", "timers")
RENAMED = {
    "myxtts.diagnostics.observe": "myxtts_diagnose",
    "myxtts.runtime": "myxtts_diagnose.runtime",
    "myxtts.errors": "myxtts_diagnose.errors",
    "myxtts diagnose": "tf-diagnose",
}


def copy_sources() -> None:
    """Write the package next to this file; in an unpacked sdist it is already there."""
    if not SOURCE.is_dir():
        return
    shutil.rmtree(PACKAGE, ignore_errors=True)
    (PACKAGE / "runtime").mkdir(parents=True)
    files = {PACKAGE / path.name: path for path in (SOURCE / "diagnostics" / "observe").glob("*.py")}
    files |= {PACKAGE / "runtime" / f"{name}.py": SOURCE / "runtime" / f"{name}.py" for name in (*RUNTIME, "__init__")}
    files[PACKAGE / "errors.py"] = SOURCE / "errors.py"
    for target, source in files.items():
        text = source.read_text(encoding="utf-8")
        for old, new in RENAMED.items():
            text = text.replace(old, new)
        target.write_text(text, encoding="utf-8")


def build_wheel(*args, **kwargs):
    """A wheel of freshly copied sources."""
    copy_sources()
    return build_meta.build_wheel(*args, **kwargs)


def build_sdist(*args, **kwargs):
    """An sdist that holds the copied sources."""
    copy_sources()
    return build_meta.build_sdist(*args, **kwargs)
