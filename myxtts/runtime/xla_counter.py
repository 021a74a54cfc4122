"""How often XLA has compiled in this process, and for how long. Compilations of any caller are seen: `jit_compile`, Keras,
clusters; with or without a retrace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from myxtts.runtime.tensorflow_counters import (
    XLA_COMPILATION_MICROSECONDS,
    XLA_COMPILATIONS,
    find_counter,
    why_unavailable,
)

__all__ = ["XlaCompilations", "compilation_counter", "read_compilations", "why_unavailable"]


@dataclass(frozen=True)
class XlaCompilations:
    """Compilations since the process started."""

    count: int
    seconds: float


def read_compilations() -> XlaCompilations | None:
    """The compilations so far, or None where TensorFlow's counters cannot be reached (`why_unavailable` says why)."""
    count, microseconds = compilation_counter(), find_counter(XLA_COMPILATION_MICROSECONDS)
    if count is None or microseconds is None:
        return None
    return XlaCompilations(count(), microseconds() / 1e6)


def compilation_counter() -> Callable[[], int] | None:
    """A function that returns the count of compilations in well under a microsecond; None where it cannot be had."""
    return find_counter(XLA_COMPILATIONS)
