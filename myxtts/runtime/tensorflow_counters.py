"""Experimental: TensorFlow's internal counters of XLA compilations, time in `IteratorGetNext` and bytes fetched.

TensorFlow 2.21 keeps these counters but has no Python function that returns them: `tensorflow.python.eager.monitoring` only
creates new ones. They are registered in a C++ map whose layout follows from the headers that TensorFlow installs
(`xla/tsl/lib/monitoring/*.h`). The map is read once (3 ms), through `/proc/self/mem`, so that another layout means "not
available" instead of a crash; after that a reading is one load of an integer. `MYXTTS_TENSORFLOW_COUNTERS=off` switches all of
this off; then retracing is detected by traces and batch signatures alone.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable

from myxtts.errors import DiagnosisError

SWITCH_VARIABLE = "MYXTTS_TENSORFLOW_COUNTERS"
XLA_COMPILATIONS = "/tensorflow/core/xla_compilations"
XLA_COMPILATION_MICROSECONDS = "/tensorflow/core/xla_compilation_time_usecs"
ITERATOR_BUSY_MICROSECONDS = "/tensorflow/data/iterator_busy"
"""Time during which an iterator on the host was asked for its next batch, from Python or inside a graph."""
BYTES_FETCHED = "/tensorflow/data/bytes_fetched"
"""Bytes that iterators have returned."""

_DEFAULT_REGISTRY = "_ZN3tsl10monitoring18CollectionRegistry7DefaultEv"
_GET_CELL = "_ZN3tsl10monitoring7CounterILi0EE7GetCellIJEEEPNS0_11CounterCellEDpRKT_"
_MOST_METRICS = 100_000
# CollectionRegistry: Env* (8), Mutex (8), std::map: comparison (8), color (8), root, leftmost, rightmost, count.
_REGISTRY_ROOT, _REGISTRY_COUNT = 16 + 16, 16 + 40
# Node of the map: color (8), parent (8), left, right, then the key as (length, characters) and the MetricDef*.
_NODE_LEFT, _NODE_RIGHT, _NODE_KEY_LENGTH, _NODE_KEY, _NODE_METRIC = 16, 24, 32, 40, 48
# Counter<0>: Mutex (8), Status (8), std::map of cells (48), then the MetricDef that the registry points at.
_COUNTER_METRIC = 64
# MetricDef: kind (4), value type (4), then the name as std::string: characters, length.
_METRIC_NAME, _METRIC_NAME_LENGTH = 8, 16


class LayoutError(DiagnosisError):
    """TensorFlow's counters are not laid out in memory as its headers say."""


def find_counter(name: str) -> Callable[[], int] | None:
    """A function that returns the counter's value in well under a microsecond; None if it is not available."""
    metrics, _ = _metrics()
    if metrics is None or name not in metrics:
        return None
    cell = ctypes.c_int64.from_address(_cell_address(metrics[name]))
    return lambda: cell.value


def why_unavailable() -> str | None:
    """One sentence that says why TensorFlow's counters are not available; None if they are."""
    return _metrics()[1]


def _metrics() -> tuple[dict[str, int] | None, str | None]:
    """Addresses of the counters without labels by name, or why they are not available."""
    if os.environ.get(SWITCH_VARIABLE, "").lower() in ("off", "0", "false", "no"):
        return None, f"TensorFlow's counters are switched off ({SWITCH_VARIABLE})."
    return _found_metrics()


@functools.cache
def _found_metrics() -> tuple[dict[str, int] | None, str | None]:
    if sys.platform != "linux" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None, f"TensorFlow's counters can be read on 64-bit Linux only; this is {sys.platform}."
    try:
        return _find_metrics(), None
    except (LayoutError, OSError, OverflowError, AttributeError) as error:
        return None, f"TensorFlow's counters cannot be read in this build: {error}"


def _find_metrics() -> dict[str, int]:
    default_registry = getattr(_library(), _DEFAULT_REGISTRY)
    default_registry.restype = ctypes.c_void_p
    memory = os.open("/proc/self/mem", os.O_RDONLY)
    try:
        metrics = _registered_metrics(memory, default_registry())
        for name in (XLA_COMPILATIONS, XLA_COMPILATION_MICROSECONDS, ITERATOR_BUSY_MICROSECONDS, BYTES_FETCHED):
            if name not in metrics:
                raise LayoutError(f"the counter {name} is not registered")
            metric = metrics[name]
            stored = _bytes(memory, _word(memory, metric + _METRIC_NAME), _word(memory, metric + _METRIC_NAME_LENGTH))
            if stored != name.encode():
                raise LayoutError(f"the counter {name} has the name {stored!r}")
    finally:
        os.close(memory)
    return metrics


def _cell_address(metric: int) -> int:
    get_cell = getattr(_library(), _GET_CELL)
    get_cell.argtypes, get_cell.restype = [ctypes.c_void_p], ctypes.c_void_p
    return get_cell(metric - _COUNTER_METRIC)


def _library() -> ctypes.CDLL:
    import tensorflow as tf

    return ctypes.CDLL(os.path.join(tf.sysconfig.get_lib(), "libtensorflow_framework.so.2"))


def _registered_metrics(memory: int, registry: int) -> dict[str, int]:
    """Metric name → address of its definition."""
    count = _word(memory, registry + _REGISTRY_COUNT)
    if not 0 < count < _MOST_METRICS:
        raise LayoutError(f"its registry reports {count} metrics")
    metrics, nodes = {}, [_word(memory, registry + _REGISTRY_ROOT)]
    while nodes:
        node = nodes.pop()
        if node == 0:
            continue
        if len(metrics) > count:
            raise LayoutError("its registry has more metrics than it reports")
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
