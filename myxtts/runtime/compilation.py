"""Counts traces, XLA compilations and batch signatures of compiled steps, and tells a rise after the warm-up.

In: the step functions by name, and after every call of one the arguments it got. Out: nothing while all is well; else a
`Retrace` that names the argument, what it was and is, and the fix. A function with an `input_signature` never traces again,
so its traces alone say nothing: compilations (TensorFlow's own counter) and signatures are counted beside them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from myxtts.errors import TrainingError
from myxtts.runtime.signatures import (
    Change,
    Signature,
    argument_names,
    changes_between,
    nearest_signature,
    signature_of,
)
from myxtts.runtime.tensorflow_counters import (
    XLA_COMPILATION_MICROSECONDS,
    XLA_COMPILATIONS,
    find_counter,
    why_unavailable,
)


class RetraceKind(StrEnum):
    """What rose after the warm-up."""

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
    "object": "make the object once, outside the loop, and pass the same one at every step",
    "absent": "call the function with the same number of arguments at every step",
}
_FIX_UNSEEN = {
    RetraceKind.TRACE: "build every layer and optimizer variable before the first step; pass no new Python objects",
    RetraceKind.COMPILATION: "a value that XLA needs while it compiles (a size, a range) changes: make it a constant",
    RetraceKind.SIGNATURE: "pad every batch to a planned shape: data.plan: packed, buckets or fixed",
}


@dataclass(frozen=True)
class Retrace:
    """One rise of a counter after the warm-up."""

    step: int
    total: int
    """Rises since the warm-up, this one included."""
    kind: RetraceKind
    function: str
    changes: tuple[Change, ...]
    """What differs from the nearest earlier call; empty if the arguments are alike."""
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
            cause += " although shape and dtype of its arguments are known"
        return f"tf.function RETRACING detected at step {self.step} (total retraces: {self.total}). {cause}. Fix: {self.fix}."


@dataclass(frozen=True)
class Counts:
    """Traces and signatures of the watched functions; compilations of the whole process, None if they cannot be counted."""

    traces: int
    compilations: int | None
    signatures: int

    def __sub__(self, earlier: Counts) -> Counts:
        both = self.compilations is not None and earlier.compilations is not None
        return Counts(
            self.traces - earlier.traces,
            self.compilations - earlier.compilations if both else None,
            self.signatures - earlier.signatures,
        )


@dataclass
class _Watched:
    function: Any
    traces: int
    known: set[Signature] = field(default_factory=set)
    order: list[Signature] = field(default_factory=list)
    last: Signature | None = None

    def learn(self, signature: Signature) -> None:
        if signature not in self.known:
            self.known.add(signature)
            self.order.append(signature)


class RetraceWatch:
    """Watches step functions; call `observe` after each step and `warmed_up` once everything is compiled."""

    def __init__(self, functions: Mapping[str, Any] | None = None, on_retrace: Literal["warn", "fail"] = "warn"):
        self._watched: dict[str, _Watched] = {}
        self._fails = on_retrace == "fail"
        self._read_compilations: Callable[[], int] | None = compilation_counter()
        self._compilations = self._compilation_count()
        self._expected_depth = 0
        self._at_warmup: Counts | None = None
        self._retraces: list[Retrace] = []
        for name, function in (functions or {}).items():
            self.add(name, function)

    def add(self, name: str, function: Any) -> None:
        """Watch one more `tf.function`; what it has traced so far is taken as known. A plain function counts no traces."""
        self._watched[name] = _Watched(function, _traces(function))

    def is_watching(self, name: str) -> bool:
        """Whether a function of this name was added or observed."""
        return name in self._watched

    def expect(self, name: str, arguments: Any) -> None:
        """A call with these arguments (tensors or `TensorSpec`s) is planned: its signature is not a surprise."""
        self._watched[name].learn(signature_of(arguments))

    def warmed_up(self) -> None:
        """From now on every rise is a `Retrace`."""
        self._rebase()
        self._at_warmup = self.counts()

    @property
    def is_warm(self) -> bool:
        """Whether rises are told already."""
        return self._at_warmup is not None

    @contextlib.contextmanager
    def compiling(self) -> Iterator[None]:
        """While this is open (in any thread), new traces and compilations are meant: a step is built on purpose."""
        self._expected_depth += 1
        try:
            yield
        finally:
            self._expected_depth -= 1
            self._rebase()

    def observe(self, step: int, name: str, arguments: Any, function: Any = None) -> Retrace | None:
        """To be called after function `name` ran with `arguments`; raises TrainingError instead if `on_retrace` is fail.

        A name that was never added is that of a `function` built on the way, for a shape that nobody planned.
        """
        watched = self._watched.get(name)
        if watched is None:
            watched = self._watched[name] = _Watched(function, 0)
        signature = signature_of(arguments)
        traces = _traces(watched.function)
        compilations = self._compilation_count()
        is_new = signature not in watched.known
        has_traced, has_compiled = traces > watched.traces, compilations > self._compilations
        if not (is_new or has_traced or has_compiled):
            watched.last = signature
            return None
        kind = RetraceKind.TRACE if has_traced else RetraceKind.COMPILATION if has_compiled else RetraceKind.SIGNATURE
        changes: tuple[Change, ...] = ()
        if is_new:
            nearest = nearest_signature(signature, watched.order or self._all_signatures())
            changes = changes_between(nearest, signature, argument_names(arguments)) if nearest is not None else ()
        watched.traces, self._compilations, watched.last = traces, compilations, signature
        watched.learn(signature)
        if self._at_warmup is None or self._expected_depth > 0:
            return None
        retrace = Retrace(step, len(self._retraces) + 1, kind, name, changes, _fix(kind, changes))
        self._retraces.append(retrace)
        if self._fails:
            raise TrainingError(str(retrace))
        return retrace

    @property
    def retraces(self) -> tuple[Retrace, ...]:
        """Every rise since the warm-up."""
        return tuple(self._retraces)

    def counts(self) -> Counts:
        """Everything so far."""
        return Counts(
            sum(_traces(watched.function) for watched in self._watched.values()),
            self._compilation_count() if self._read_compilations is not None else None,
            sum(len(watched.known) for watched in self._watched.values()),
        )

    def counts_since_warmup(self) -> Counts:
        """What was added since `warmed_up`, meant or not."""
        return self.counts() - (self._at_warmup or self.counts())

    def why_compilations_are_unknown(self) -> str | None:
        """One sentence if XLA compilations cannot be counted here, else None."""
        return why_unavailable()

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


def _fix(kind: RetraceKind, changes: tuple[Change, ...]) -> str:
    if not changes:
        return _FIX_UNSEEN[kind]
    first = changes[0]
    old_dtype = f"tf.{first.old.split(' ')[0]}"
    return _FIXES[first.kind].format(argument=first.argument, old_dtype=old_dtype)


# MERGED: How often XLA has compiled in this process, and for how long. Compilations of any caller are seen: `jit_compile`, Keras,
# clusters; with or without a retrace.

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
