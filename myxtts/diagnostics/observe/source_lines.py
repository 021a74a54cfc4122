"""Where in the user's code something happens: file and line of the nearest frame outside libraries and this diagnosis."""

from __future__ import annotations

import ast
import functools
import linecache
import os
import sys
import sysconfig
from dataclasses import dataclass, field
from dis import opname
from inspect import CO_GENERATOR
from types import CodeType, FrameType
from typing import Any

_OWN_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
_LIBRARY_FOLDERS = tuple({sysconfig.get_paths()[name] + os.sep for name in ("stdlib", "platstdlib")})
_PACKAGE_FOLDERS = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_KERAS_ANYWHERE = tuple(os.sep + os.path.join(name, "src", "") for name in ("keras", "tf_keras"))
"""Their own folders, also where they are installed next to the script (`pip install --target`)."""
_KERAS = (*_KERAS_ANYWHERE, *(folder + name + os.sep for folder in _PACKAGE_FOLDERS for name in ("keras", "tf_keras")))
_FRAMEWORKS = (
    *_KERAS,
    os.sep + os.path.join("tensorflow", "python", ""),
    *(folder + name + os.sep for folder in _PACKAGE_FOLDERS for name in ("tensorflow", "numpy")),
)
_ITERATORS = tuple(
    os.sep + os.path.join("tensorflow", "python", *path)
    for path in (("data", "ops", "iterator_ops.py"), ("data", "ops", "multi_device_iterator_ops.py"),
                 ("distribute", "input_lib.py"))
)  # fmt: skip
_MOST_FRAMES = 200
_AUTOGRAPH = "__autograph_generated_file"


@dataclass(frozen=True, order=True)
class SourceLocation:
    """A line of source code."""

    file: str
    line: int
    function: str = ""
    definition_line: int = field(default=0, compare=False)
    """Where the function begins that the line is in; 0 at the top of a file."""

    def __str__(self) -> str:
        return f"{short_path(self.file)}:{self.line}"


UNKNOWN = SourceLocation("", 0)
"""No line of the user's code is on the stack."""


def short_path(path: str) -> str:
    """Relative to the current folder if that is shorter."""
    try:
        relative = os.path.relpath(path)
    except ValueError:  # another drive
        return path
    return relative if len(relative) < len(path) else path


@functools.cache
def is_framework(file: str) -> bool:
    """TensorFlow, Keras, NumPy, code that AutoGraph generated, or this diagnosis."""
    return file.startswith((_OWN_FOLDER, "<")) or _AUTOGRAPH in file or any(folder in file for folder in _FRAMEWORKS)


@functools.cache
def is_keras(file: str) -> bool:
    """Keras 3, Keras 2 or tf_keras."""
    return any(folder in file for folder in _KERAS)


@functools.cache
def is_user_code(file: str) -> bool:
    """Neither a framework, nor Python's own library, nor an installed package."""
    return not (
        is_framework(file)
        or any(folder in file for folder in _PACKAGE_FOLDERS)
        or file.startswith(_LIBRARY_FOLDERS)
        or "importlib" in file
    )


def location_of(frame: FrameType | None) -> SourceLocation:
    """The nearest user frame from `frame` outwards; if there is none, the nearest one outside the frameworks."""
    fallback = None
    for _ in range(_MOST_FRAMES):
        if frame is None:
            break
        file = frame.f_code.co_filename
        if is_user_code(file):
            return _line_of(frame.f_code, frame.f_lineno)
        if _AUTOGRAPH in file:
            original = _before_autograph(file, frame.f_lineno)
            if original is not None and is_user_code(original.file):
                return original
        if fallback is None and not is_framework(file) and not file.startswith(_LIBRARY_FOLDERS):
            fallback = SourceLocation(file, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return fallback or UNKNOWN


@functools.cache
def loops_of(file: str) -> tuple[range, ...]:
    """The lines of every `for` and `while` loop of a file; empty if its source cannot be read."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return ()
    loops = (node for node in ast.walk(tree) if isinstance(node, (ast.For, ast.While)))
    return tuple(range(loop.lineno, (loop.end_lineno or loop.lineno) + 1) for loop in loops)


def counter_at(location: SourceLocation) -> str:
    """The user's name for the number of the step at a line: of the loop around it, or an argument of its callback; or empty."""
    try:
        tree = ast.parse("".join(linecache.getlines(location.file)))
    except SyntaxError:
        return ""
    around = [node for node in ast.walk(tree) if _contains(node, location.line)]
    loops = [node for node in around if isinstance(node, (ast.For, ast.While))]
    functions = [node for node in around if isinstance(node, ast.FunctionDef)]
    begin = max((function.lineno for function in functions), default=0)
    loop = max(loops, key=lambda node: node.lineno, default=None)
    if isinstance(loop, ast.For) and loop.lineno >= begin:
        calls = [node.func for node in ast.walk(loop.iter) if isinstance(node, ast.Call)]
        called = {function.id for function in calls if isinstance(function, ast.Name)}
        is_pair = isinstance(loop.target, ast.Tuple) and len(loop.target.elts) == 2
        target = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) and is_pair else loop.target
        if isinstance(target, ast.Name) and ("enumerate" if is_pair else "range") in called and target.id != "_":
            return target.id
    innermost = max(functions, key=lambda node: node.lineno, default=None)
    if innermost is not None and innermost.name.startswith("on_"):
        names = [argument.arg for argument in innermost.args.args]
        return next((name for name in names if name in ("batch", "epoch", "step")), "")
    return ""


def _contains(node: ast.AST, line: int) -> bool:
    return isinstance(node, (ast.For, ast.While, ast.FunctionDef)) and node.lineno <= line <= (
        node.end_lineno or node.lineno
    )


def callers_of(frame: FrameType | None) -> list[SourceLocation]:
    """The user's lines that wait for the nearest one, nearest first, at most 8."""
    found: list[SourceLocation] = []
    for _ in range(_MOST_FRAMES):
        if frame is None or len(found) > 8:
            break
        if is_user_code(frame.f_code.co_filename):
            found.append(_line_of(frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return found[1:]


@functools.lru_cache(maxsize=4096)
def _line_of(code: CodeType, line: int) -> SourceLocation:
    inside = 0 if code.co_name == "<module>" else code.co_firstlineno
    return SourceLocation(code.co_filename, line, code.co_name, inside)


def _before_autograph(file: str, line: int) -> SourceLocation | None:
    """The user's line behind a line of AutoGraph's rewritten code; AutoGraph keeps a map for its error messages."""
    from tensorflow.python.autograph.impl import api

    for by_options in list(api._TRANSPILER._cache._cache.values()):
        for factory in list(by_options.values()):
            if getattr(factory.module, "__file__", None) == file:
                for generated, origin in factory.source_map.items():
                    if generated.lineno == line:
                        return SourceLocation(origin.loc.filename, origin.loc.lineno, origin.function_name or "")
    return None


def activity_of(frame: FrameType | None) -> str:
    """What the frames inside the user's nearest line do for it: `import`, `keras` (models and layers), `next` or `python`."""
    activity = "python"
    for _ in range(_MOST_FRAMES):
        if frame is None or is_user_code(frame.f_code.co_filename):
            break
        file = frame.f_code.co_filename
        if file.startswith("<frozen importlib"):
            return "import"
        if is_keras(file) and not _is_keras_data(file):
            activity = "keras"
        elif activity == "python" and file.endswith(_ITERATORS) and frame.f_code.co_name == "__next__":
            activity = "next"
        frame = frame.f_back
    return activity


@functools.cache
def _is_keras_data(file: str) -> bool:
    """Folders of Keras that read and prepare data: what only they do builds no model."""
    inside = file.rpartition(f"keras{os.sep}")[2].split(os.sep)
    return bool({"utils", "datasets", "preprocessing"}.intersection(inside))


def waits_inside_framework(frame: FrameType | None) -> bool:
    """Whether the innermost frame is a framework's, at a call of something that is not Python."""
    if frame is None or not is_framework(frame.f_code.co_filename):
        return False
    return opname[frame.f_code.co_code[frame.f_lasti]].startswith(("CALL", "PRECALL"))


def source_text(location: SourceLocation) -> str:
    """The text of the line; empty if it cannot be read."""
    return linecache.getline(location.file, location.line).strip()


def caller_location() -> SourceLocation:
    """Where the user's code called into the framework that called us."""
    return location_of(sys._getframe(1))


def is_called_by_framework(frame: FrameType | None) -> bool:
    """Whether the caller, this diagnosis aside, is a framework: what Keras fetches for itself is not the user's code."""
    while frame is not None and frame.f_code.co_filename.startswith(_OWN_FOLDER):
        frame = frame.f_back
    return frame is not None and is_framework(frame.f_code.co_filename)


def is_called_by_keras(frame: FrameType | None) -> bool:
    """Whether the caller, this diagnosis aside, is Keras."""
    while frame is not None and frame.f_code.co_filename.startswith(_OWN_FOLDER):
        frame = frame.f_back
    return frame is not None and is_keras(frame.f_code.co_filename)


def consumer_of_generator(frame: FrameType | None) -> SourceLocation | None:
    """Where user code that runs inside one of the user's generators is iterated: `for batch in batches():`; otherwise None."""
    is_inside = False
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return None
        code = frame.f_code
        if is_user_code(code.co_filename):
            if is_inside and not code.co_flags & CO_GENERATOR:
                return SourceLocation(code.co_filename, frame.f_lineno, code.co_name)
            is_inside |= bool(code.co_flags & CO_GENERATOR)
        elif is_inside and is_framework(code.co_filename):
            return None  # a framework asks the generator: the time is counted as waiting for its data
        frame = frame.f_back
    return None


def is_made_by_keras(frame: FrameType | None) -> bool:
    """Whether the nearest frame outside TensorFlow and this diagnosis is Keras's."""
    while frame is not None:
        file = frame.f_code.co_filename
        if not (file.startswith(_OWN_FOLDER) or f"{os.sep}tensorflow{os.sep}" in file or _AUTOGRAPH in file):
            return is_keras(file)
        frame = frame.f_back
    return False


def location_of_code(code: CodeType | None) -> SourceLocation:
    """Where a function is defined: the line of its first decorator, or of `def`."""
    return SourceLocation(code.co_filename, code.co_firstlineno, code.co_name) if code is not None else UNKNOWN


def code_of(function: Any) -> CodeType | None:
    """The code behind any callable: decorated, bound, partial, or an object with `__call__`."""
    for _ in range(10):
        if hasattr(function, "__code__"):
            wrapped = getattr(function, "__wrapped__", None)
            if wrapped is None or is_user_code(function.__code__.co_filename):
                return function.__code__
            function = wrapped
        elif hasattr(function, "__func__"):
            function = function.__func__
        elif hasattr(function, "func"):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            function = vars(type(function)).get("__call__")
    return None
