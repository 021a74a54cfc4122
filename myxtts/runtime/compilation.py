"""Counts traces, XLA compilations and batch signatures of compiled steps, and reports any increase after warm-up.

A function with an `input_signature` never traces again, so its traces alone prove nothing: compilations (TensorFlow's own
counter, see `tensorflow_counters`) and batch signatures are counted as well. `RetraceWatch` is given the arguments of every call
and returns a `Retrace` that names the argument that changed, its old and new signature, and the fix.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from myxtts.errors import TrainingError
from myxtts.runtime.signatures import (
    ArgumentChange,
    Signature,
    argument_names,
    changes_between,
    nearest_signature,
    signature_of,
)
from myxtts.runtime.tensorflow_counters import XLA_COMPILATIONS, find_counter, why_unavailable


class RetraceKind(StrEnum):
    """What increased after the warm-up."""

    TRACE = "trace"
    COMPILATION = "compilation"
    SIGNATURE = "signature"


_CAUSES = {
    RetraceKind.TRACE: "'{function}' was traced again",
    RetraceKind.COMPILATION: "XLA compiled '{function}' again without a retrace",
    RetraceKind.SIGNATURE: "'{function}' got a batch of a shape that it was not compiled for",
}
_FIXES = {
    "shape": "pad every batch to a planned shape: data.plan: packed, buckets or fixed (--enable-static-shapes)",
    "dtype": "cast the argument before the call: tf.cast({argument}, {old_dtype})",
    "value": "pass a tensor instead of a Python value: {argument}=tf.constant({argument})",
    "object": "create the object once, outside the loop, and pass the same one at every step",
    "absent": "call the function with the same number of arguments at every step",
}
_FIX_UNSEEN = {
    RetraceKind.TRACE: "build every layer and optimizer variable before the first step; pass no new Python objects",
    RetraceKind.COMPILATION: "a value that XLA needs at compile time (a size, a range) changes: make it a constant",
    RetraceKind.SIGNATURE: "pad every batch to a planned shape: data.plan: packed, buckets or fixed",
}


@dataclass(frozen=True)
class Retrace:
    """One increase of a counter after the warm-up."""

    step: int
    total: int
    """Increases since the warm-up, including this one."""
    kind: RetraceKind
    function: str
    changes: tuple[ArgumentChange, ...]
    """What differs from the most similar earlier call; empty if nothing does."""
    fix: str

    @property
    def argument(self) -> str | None:
        """Name of the first argument that changed."""
        return self.changes[0].argument if self.changes else None

    def __str__(self) -> str:
        cause = _CAUSES[self.kind].format(function=self.function)
        if self.changes:
            cause += f": {self.changes[0]}"
            if len(self.changes) > 1:
                cause += f" (and {len(self.changes) - 1} more)"
        else:
            cause += " although the shapes and dtypes of its arguments did not change"
        return f"tf.function RETRACING detected at step {self.step} (total retraces: {self.total}). {cause}. Fix: {self.fix}."


@dataclass(frozen=True)
class Counts:
    """Traces and signatures of the watched functions; compilations of the whole process, None if not available."""

    traces: int
    compilations: int | None
    signatures: int

    def __sub__(self, earlier: Counts) -> Counts:
        compilations = None
        if self.compilations is not None and earlier.compilations is not None:
            compilations = self.compilations - earlier.compilations
        return Counts(self.traces - earlier.traces, compilations, self.signatures - earlier.signatures)


@dataclass
class _WatchedFunction:
    function: Any
    traces: int
    known: set[Signature] = field(default_factory=set)
    order: list[Signature] = field(default_factory=list)
    last: Signature | None = None

    def add_signature(self, signature: Signature) -> None:
        if signature not in self.known:
            self.known.add(signature)
            self.order.append(signature)


class RetraceWatch:
    """Watches step functions; call `observe` after each step and `warmed_up` once everything is compiled."""

    def __init__(self, functions: Mapping[str, Any] | None = None, on_retrace: Literal["warn", "fail"] = "warn"):
        self._watched: dict[str, _WatchedFunction] = {}
        self._fails = on_retrace == "fail"
        self._compilations = 0
        self._expected_depth = 0
        self._before_expected = Counts(0, None, 0)
        self._at_warmup: Counts | None = None
        self._retraces: list[Retrace] = []
        for name, function in (functions or {}).items():
            self.add(name, function)

    def add(self, name: str, function: Any) -> None:
        """Watch another `tf.function`; its traces so far are not reported. A plain function has no traces."""
        self._watched[name] = _WatchedFunction(function, _traces(function))

    def is_watching(self, name: str) -> bool:
        """Whether a function of this name was added or observed."""
        return name in self._watched

    def expect(self, name: str, arguments: Any) -> None:
        """Declare a planned call with these arguments (tensors or `TensorSpec`s): its signature will not be reported."""
        self._watched[name].add_signature(signature_of(arguments))

    def warmed_up(self) -> None:
        """From now on, report every increase as a `Retrace`."""
        self._rebase()
        self._at_warmup = self.counts()

    @property
    def is_warm(self) -> bool:
        """Whether increases are reported."""
        return self._at_warmup is not None

    @contextlib.contextmanager
    def compiling(self) -> Iterator[None]:
        """Inside the block (in any thread) new traces and compilations are intended: neither reported nor counted."""
        if self._expected_depth == 0:
            self._before_expected = self.counts()
        self._expected_depth += 1
        try:
            yield
        finally:
            self._expected_depth -= 1
            self._rebase()
            if self._expected_depth == 0 and self._at_warmup is not None:
                self._at_warmup = self._at_warmup - (self._before_expected - self.counts())

    def observe(self, step: int, name: str, arguments: Any, function: Any = None) -> Retrace | None:
        """Check counters after function `name` ran with `arguments`; `on_retrace="fail"` raises the `Retrace` as TrainingError.

        A name that was never added belongs to a `function` that was built during the run, for an unplanned shape.
        """
        watched = self._watched.get(name)
        if watched is None:
            watched = self._watched[name] = _WatchedFunction(function, 0)
        signature = signature_of(arguments)
        traces = _traces(watched.function)
        compilations = self._compilation_count()
        is_new = signature not in watched.known
        has_traced, has_compiled = traces > watched.traces, compilations > self._compilations
        if not (is_new or has_traced or has_compiled):
            watched.last = signature
            return None
        kind = RetraceKind.TRACE if has_traced else RetraceKind.COMPILATION if has_compiled else RetraceKind.SIGNATURE
        changes: tuple[ArgumentChange, ...] = ()
        if is_new:
            nearest = nearest_signature(signature, watched.order or self._all_signatures())
            changes = changes_between(nearest, signature, argument_names(arguments)) if nearest is not None else ()
        watched.traces, self._compilations, watched.last = traces, compilations, signature
        watched.add_signature(signature)
        if self._at_warmup is None or self._expected_depth > 0:
            return None
        retrace = Retrace(step, len(self._retraces) + 1, kind, name, changes, _fix(kind, changes))
        self._retraces.append(retrace)
        if self._fails:
            raise TrainingError(str(retrace))
        return retrace

    @property
    def retraces(self) -> tuple[Retrace, ...]:
        """Every increase since the warm-up."""
        return tuple(self._retraces)

    def counts(self) -> Counts:
        """All counts so far."""
        return Counts(
            sum(_traces(watched.function) for watched in self._watched.values()),
            self._compilation_count() if self._read_compilations is not None else None,
            sum(len(watched.known) for watched in self._watched.values()),
        )

    def counts_since_warmup(self) -> Counts:
        """What was added since `warmed_up`, without what was intended (`compiling`)."""
        return self.counts() - (self._at_warmup or self.counts())

    def why_compilations_are_unknown(self) -> str | None:
        """One sentence if XLA compilations cannot be counted here, otherwise None."""
        return why_unavailable()

    @functools.cached_property
    def _read_compilations(self) -> Callable[[], int] | None:
        """TensorFlow's counter, looked up at its first use and not when the watch is created."""
        return find_counter(XLA_COMPILATIONS)

    def _compilation_count(self) -> int:
        return self._read_compilations() if self._read_compilations is not None else 0

    def _all_signatures(self) -> list[Signature]:
        return [signature for watched in self._watched.values() for signature in watched.order]

    def _rebase(self) -> None:
        self._compilations = self._compilation_count()
        for watched in self._watched.values():
            watched.traces = _traces(watched.function)


def _traces(function: Any) -> int:
    count = getattr(function, "experimental_get_tracing_count", None)
    return count() if count is not None else 0


def _fix(kind: RetraceKind, changes: tuple[ArgumentChange, ...]) -> str:
    if not changes:
        return _FIX_UNSEEN[kind]
    first = changes[0]
    old_dtype = f"tf.{first.old.split(' ')[0]}"
    return _FIXES[first.kind].format(argument=first.argument, old_dtype=old_dtype)
