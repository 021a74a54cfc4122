"""Runs the code cells of a Jupyter notebook in order, in one namespace, without Jupyter."""

from __future__ import annotations

import json
import linecache
import sys
import types
from pathlib import Path

from myxtts.errors import DiagnosisError


def read_cells(path: Path) -> list[str]:
    """The source of each code cell; magics (`%matplotlib`) and shell commands (`!pip`) become comments of the same length."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        sources = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError) as error:
        raise DiagnosisError(
            f"The notebook cannot be read. Received: {path} ({error}). Expected: nbformat 4."
        ) from None
    return [_without_magics(source if isinstance(source, str) else "".join(source)) for source in sources]


def run_notebook(path: Path) -> None:
    """Run all cells as the main module; a line of cell 3 is reported as `train.ipynb[3]:line`."""
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=str(path), display=print)
    sys.modules["__main__"] = module
    for index, source in enumerate(read_cells(path), 1):
        name = f"{path}[{index}]"
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)  # AutoGraph reads it
        exec(compile(source, name, "exec"), module.__dict__)


def _without_magics(source: str) -> str:
    lines = source.splitlines()
    if lines and lines[0].lstrip().startswith("%%"):  # a whole cell in another language, or timed
        is_python = lines[0].lstrip().split()[0] in ("%%time", "%%timeit", "%%capture")
        lines = [f"# {lines[0]}", *(lines[1:] if is_python else [f"# {line}" for line in lines[1:]])]
    return "\n".join(_comment(line) if line.lstrip().startswith(("%", "!")) else line for line in lines) + "\n"


def _comment(line: str) -> str:
    indent = line[: len(line) - len(line.lstrip())]
    return f"{indent}pass  # {line.lstrip()}"
