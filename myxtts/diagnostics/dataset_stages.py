"""The transformations of a `tf.data` pipeline, read from the dataset objects and the graphs of their functions.

In: a dataset. Out: one `Stage` per transformation, the one nearest to the training first. Python functions and generators are
found as ops (`PyFunc`, `EagerPyFunc`, `GeneratorDataset`) in the functions' graphs, nested ones included, never in source text.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import Any

from myxtts.diagnostics.places import UNKNOWN, Place, code_of, place_of_code

_PYTHON_OPS = {"PyFunc": "numpy_function", "PyFuncStateless": "numpy_function", "EagerPyFunc": "py_function"}
_MOST_STAGES = 200


@dataclass(frozen=True)
class Stage:
    """One transformation."""

    kind: str
    """map, batch, prefetch, cache, shuffle, repeat, interleave, flat_map, from_generator, range, tensor_slice ..."""
    label: str
    """For people: `map(decode_wav)`."""
    place: Place
    """Where it was added."""
    function_place: Place = UNKNOWN
    """Where its function is defined."""
    is_parallel: bool = False
    python: tuple[str, ...] = ()
    """numpy_function, py_function, generator: what calls Python for each element."""
    python_places: tuple[Place, ...] = ()
    is_random: bool = False
    """Its function draws random numbers: its output must not be cached."""
    is_on_disk: bool = False
    """A cache with a file name."""
    ops: int = 0
    """Nodes of its function's graph."""
    is_users: bool = True
    """The user added it, not Keras."""


def describe_dataset(dataset: Any, places: Any, python_places: Any, made_by_keras: Any = ()) -> tuple[Stage, ...]:
    """The stages of a dataset; the mappings tell where datasets and Python functions were made, and by whom."""
    stages, waiting = [], [dataset]
    while waiting and len(stages) < _MOST_STAGES:
        current = waiting.pop(0)
        kind = _kind_of(current)
        if kind not in ("options", "restructured"):
            stages.append(_describe(current, kind, places, python_places, current not in made_by_keras))
        if kind != "from_generator":
            waiting += list(current._inputs())
    return tuple(stages)


def _describe(dataset: Any, kind: str, places: Any, python_places: Any, is_users: bool) -> Stage:
    place = places.get(dataset, UNKNOWN)
    functions = list(dataset._functions())
    ops = [node.op for function in functions for node in _nodes(function)]
    names = [_function_name(function) for function in functions if kind != "from_generator"]
    python = tuple(sorted({_PYTHON_OPS[op] for op in ops if op in _PYTHON_OPS}))
    if "GeneratorDataset" in ops:
        python = ("generator",)
    parallel = getattr(dataset, "_num_parallel_calls", None)
    filename = getattr(dataset, "_filename", None)
    return Stage(
        kind=kind,
        label=f"{kind}({', '.join(names)})" if names else kind,
        place=place,
        function_place=place_of_code(code_of(functions[0]._func)) if functions else UNKNOWN,
        is_parallel=parallel is not None and bool(_number(parallel) != 1),
        python=python,
        python_places=tuple(python_places.get(dataset, ())),
        is_random=any("Random" in op or "Multinomial" in op for op in ops),
        is_on_disk=filename is not None and _number(filename) not in (b"", None),
        ops=len(ops),
        is_users=is_users,
    )


def _kind_of(dataset: Any) -> str:
    """`_ParallelMapDataset` is `map`, `_PaddedBatchDataset` is `padded_batch`, a flat_map over a generator `from_generator`."""
    name = type(dataset).__name__.strip("_").removesuffix("V1").removesuffix("V2").removesuffix("Dataset")
    name = name.removeprefix("Parallel")
    kind = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    if kind == "flat_map" and any(node.op == "GeneratorDataset" for f in dataset._functions() for node in _nodes(f)):
        return "from_generator"
    return kind or type(dataset).__name__


def _nodes(function: Any) -> list[Any]:
    graph = function.function.graph.as_graph_def()
    return list(itertools.chain(graph.node, *(inner.node_def for inner in graph.library.function)))


def _function_name(function: Any) -> str:
    code = code_of(function._func)
    name = code.co_name if code is not None else type(function._func).__name__
    return "lambda" if name == "<lambda>" else name


def _number(value: Any) -> Any:
    """A Python value from an eager constant; None if it is only known in a graph."""
    return value.numpy() if hasattr(value, "numpy") else value if isinstance(value, (int, bytes)) else None
