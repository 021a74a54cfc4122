"""Runs a notebook (`.ipynb`) without IPython: its code cells in order, their lines named `train.ipynb[3]:line`.

Magics that matter to a training are done (`%env`, `%cd`, `%time`); the others, and shell commands such as `!pip install`, are
left out. A line that begins with `%` inside an expression is Python, and stays.
"""

from __future__ import annotations

import json
import linecache
import os
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

from myxtts.errors import DiagnosisError

_PYTHON_CELLS = ("%%time", "%%timeit", "%%capture", "%%prun")
_TIMED = re.compile(r"%(?:time|timeit|prun)\b((?:\s+-\w+(?:\s+\d+)?)*)\s*(\S.*)")
_ENVIRONMENT = re.compile(r"%(?:set_)?env\s+(\w+)\s*[=\s]\s*(.*\S)")
_FOLDER = re.compile(r"%cd\s+(?:-q\s+)?['\"]?([^'\"]+?)['\"]?\s*$")
_MAGIC = re.compile(r"%%?[A-Za-z_]|!")
_ASSIGNED = re.compile(r"([A-Za-z_][\w.\[\], ]*?)\s*=\s*([%!])([A-Za-z_./{$].*)$")
_HELP = re.compile(r"\?{1,2}[\w.*]+;?\s*$|[\w.*]+\?{1,2};?\s*$")


def read_cells(path: Path) -> list[str]:
    """The source of each code cell as Python, line for line."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        sources = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError) as error:
        raise DiagnosisError(
            f"The notebook cannot be read. Received: {path} ({error}). Expected: nbformat 4."
        ) from None
    return [as_python(source if isinstance(source, str) else "".join(source)) for source in sources]


def run_notebook(path: Path) -> None:
    """Run all cells as the main module."""
    module = types.ModuleType("__main__")
    shell = NotebookShell()
    module.__dict__.update(
        __file__=str(path), display=print, get_ipython=lambda: shell, _notebook_output=shell.getoutput
    )
    sys.modules["__main__"] = module
    for index, source in enumerate(read_cells(path), 1):
        name = f"{path}[{index}]"
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)  # AutoGraph reads it
        exec(compile(source, name, "exec"), module.__dict__)


class NotebookShell:
    """What `get_ipython()` gives to a notebook here: its magics and commands do nothing."""

    def getoutput(self, command: str) -> list[str]:
        """The lines that a command prints: `files = !ls`."""
        return subprocess.run(command, shell=True, stdout=subprocess.PIPE, text=True, check=False).stdout.splitlines()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *arguments, **options: None


def as_python(source: str) -> str:
    """A cell as Python: each line stays at its place; what is not Python is replaced, or becomes a comment."""
    lines = source.splitlines()
    if lines and lines[0].lstrip().startswith("%%"):  # a whole cell in another language, or timed
        is_python = lines[0].split()[0] in _PYTHON_CELLS
        lines = [f"# {lines[0]}", *(lines[1:] if is_python else [f"# {line}" for line in lines[1:]])]
    text = "\n".join(lines) + "\n"
    try:
        compile(text, "cell", "exec")
    except (SyntaxError, ValueError):
        return "\n".join(_line_as_python(line) for line in lines) + "\n"
    return text


def _line_as_python(line: str) -> str:
    content = line.lstrip()
    indent = line[: len(line) - len(content)]
    if timed := _TIMED.match(content):
        return indent + timed[2]
    if variable := _ENVIRONMENT.match(content):
        return f"{indent}__import__('os').environ[{variable[1]!r}] = {variable[2]!r}"
    if folder := _FOLDER.match(content):
        return f"{indent}__import__('os').chdir({os.path.expanduser(folder[1])!r})"
    if assigned := _ASSIGNED.match(content):
        value = f"_notebook_output({assigned[3]!r})" if assigned[2] == "!" else "None"
        value = "__import__('os').getcwd()" if assigned[3].split()[0] == "pwd" and assigned[2] == "%" else value
        return f"{indent}{assigned[1]} = {value}"
    if _MAGIC.match(content) or _HELP.match(content):
        return f"{indent}pass  # {content}"
    return line
