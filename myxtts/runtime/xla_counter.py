"""How often XLA has compiled in this process, and for how long: TensorFlow's own counters, read in place.

TensorFlow counts every compilation in `/tensorflow/core/xla_compilations`, but has no Python function that returns the
figure. The counters are registered by name in a C++ map whose layout follows from the headers that TensorFlow installs
(`xla/tsl/lib/monitoring/*.h`). The map is walked once, through `/proc/self/mem`, so that a layout other than the expected
one gives "not available" instead of a crash; after that a reading is one load of an integer (about 0.2 microseconds).
Nothing is set before the import, nothing is logged, and compilations of any caller are seen: `jit_compile`, Keras, clusters.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

from myxtts.errors import DiagnosisError

COMPILATIONS = "/tensorflow/core/xla_compilations"
COMPILATION_MICROSECONDS = "/tensorflow/core/xla_compilation_time_usecs"

_DEFAULT_REGISTRY = "_ZN3tsl10monitoring18CollectionRegistry7DefaultEv"
_GET_CELL = "_ZN3tsl10monitoring7CounterILi0EE7GetCellIJEEEPNS0_11CounterCellEDpRKT_"
_MOST_METRICS = 100_000
# CollectionRegistry: Env* (8), Mutex (8), std::map: comparison (8), colour (8), root, leftmost, rightmost, count.
_REGISTRY_ROOT, _REGISTRY_COUNT = 16 + 16, 16 + 40
# Node of the map: colour (8), parent (8), left, right, then the key as (length, characters) and the MetricDef*.
_NODE_LEFT, _NODE_RIGHT, _NODE_KEY_LENGTH, _NODE_KEY, _NODE_METRIC = 16, 24, 32, 40, 48
# Counter<0>: Mutex (8), Status (8), std::map of cells (48), then the MetricDef that the registry points at.
_COUNTER_METRIC = 64
# MetricDef: kind (4), value type (4), then the name as std::string: characters, length.
_METRIC_NAME, _METRIC_NAME_LENGTH = 8, 16


class LayoutError(DiagnosisError):
    """TensorFlow's counters do not lie in memory as its headers say."""


@dataclass(frozen=True)
class XlaCompilations:
    """Compilations since the process started."""

    count: int
    seconds: float


def read_compilations() -> XlaCompilations | None:
    """The compilations so far, or None where TensorFlow's counters cannot be reached (`why_unavailable` says why)."""
    cells, _ = _cells()
    if cells is None:
        return None
    return XlaCompilations(cells[0].value, cells[1].value / 1e6)


def compilation_counter() -> Callable[[], int] | None:
    """A function that returns the count of compilations in well under a microsecond; None where it cannot be had."""
    cells, _ = _cells()
    if cells is None:
        return None
    cell = cells[0]
    return lambda: cell.value


def why_unavailable() -> str | None:
    """One sentence that says why compilations cannot be counted here; None if they can."""
    return _cells()[1]


@functools.cache
def _cells() -> tuple[tuple[ctypes.c_int64, ctypes.c_int64] | None, str | None]:
    if sys.platform != "linux" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None, f"XLA compilations are counted on 64-bit Linux only; this is {sys.platform}."
    try:
        return _find_cells(), None
    except (LayoutError, OSError, OverflowError, AttributeError) as error:
        return None, f"XLA compilations cannot be counted with this build of TensorFlow: {error}"


def _find_cells() -> tuple[ctypes.c_int64, ctypes.c_int64]:
    import tensorflow as tf

    library = ctypes.CDLL(os.path.join(tf.sysconfig.get_lib(), "libtensorflow_framework.so.2"))
    default_registry = getattr(library, _DEFAULT_REGISTRY)
    default_registry.restype = ctypes.c_void_p
    get_cell = getattr(library, _GET_CELL)
    get_cell.argtypes, get_cell.restype = [ctypes.c_void_p], ctypes.c_void_p
    memory = os.open("/proc/self/mem", os.O_RDONLY)
    try:
        metrics = _registered_metrics(memory, default_registry())
        cells = []
        for name in (COMPILATIONS, COMPILATION_MICROSECONDS):
            if name not in metrics:
                raise LayoutError(f"the counter {name} is not registered")
            metric = metrics[name]
            stored_name = _bytes(
                memory, _word(memory, metric + _METRIC_NAME), _word(memory, metric + _METRIC_NAME_LENGTH)
            )
            if stored_name != name.encode():
                raise LayoutError(f"the counter {name} calls itself {stored_name!r}")
            cells.append(ctypes.c_int64.from_address(get_cell(metric - _COUNTER_METRIC)))
    finally:
        os.close(memory)
    return cells[0], cells[1]


def _registered_metrics(memory: int, registry: int) -> dict[str, int]:
    """Address of the definition of each registered metric, by name."""
    count = _word(memory, registry + _REGISTRY_COUNT)
    if not 0 < count < _MOST_METRICS:
        raise LayoutError(f"its registry claims to hold {count} metrics")
    metrics, nodes = {}, [_word(memory, registry + _REGISTRY_ROOT)]
    while nodes:
        node = nodes.pop()
        if node == 0:
            continue
        if len(metrics) > count:
            raise LayoutError("its registry holds more metrics than it claims")
        name = _bytes(memory, _word(memory, node + _NODE_KEY), _word(memory, node + _NODE_KEY_LENGTH))
        metrics[name.decode("ascii", "replace")] = _word(memory, node + _NODE_METRIC)
        nodes += [_word(memory, node + _NODE_LEFT), _word(memory, node + _NODE_RIGHT)]
    return metrics


def _bytes(memory: int, address: int, length: int) -> bytes:
    if not 0 < length < 4096:
        raise LayoutError(f"a name in its registry is {length} bytes long")
    return os.pread(memory, length, address)


def _word(memory: int, address: int) -> int:
    return int.from_bytes(os.pread(memory, 8, address), sys.byteorder)
