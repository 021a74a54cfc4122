"""Why code was traced or compiled again: all `tf.function` objects of one piece of source, with the causes of their traces."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from myxtts.diagnostics.observe.recording import FunctionCall, FunctionRecord, Recording
from myxtts.diagnostics.observe.source_lines import SourceLocation
from myxtts.diagnostics.observe.split_steps import origin_of, trace_seconds
from myxtts.runtime.signatures import ArgumentChange, Signature, changes_between, nearest_signature

_RARE_FRACTION = 0.15
"""Fraction of the calls below which a second shape is the last batch of an epoch of at least seven."""


@dataclass
class Cause:
    """One kind of change that made a function trace again."""

    kind: str
    """shape | dtype | value | object | absent | unseen"""
    moments: list[float] = field(default_factory=list)
    seconds: float = 0.0
    examples: list[ArgumentChange] = field(default_factory=list)
    arguments: Counter = field(default_factory=Counter)


@dataclass(frozen=True)
class Remainder:
    """A trace for the last, smaller batch of an epoch."""

    argument: str
    usual: str
    last: str
    seconds: float
    calls: int


@dataclass
class TracedCode:
    """All `tf.function` objects made from one piece of source code."""

    name: str
    definition: SourceLocation
    creation: SourceLocation
    is_user: bool
    is_jit: bool
    functions: int = 0
    traced_functions: int = 0
    calls: int = 0
    traces: int = 0
    trace_seconds: float = 0.0
    compilations: int = 0
    compile_seconds: float = 0.0
    causes: dict[str, Cause] = field(default_factory=dict)
    repeated_moments: list[float] = field(default_factory=list)
    """When a new function object was traced for a signature that an earlier one had been traced for."""
    repeated_seconds: float = 0.0
    recompiled_moments: list[float] = field(default_factory=list)
    """When XLA compiled again without a trace."""
    recompiled_seconds: float = 0.0
    recompiled_signatures: list[Signature] = field(default_factory=list)
    remainder: Remainder | None = None
    argument_names: tuple[str, ...] = ()
    call_location: SourceLocation | None = None


def explain_traces(recording: Recording) -> list[TracedCode]:
    """Every piece of code that was traced, most time first."""
    spent = trace_seconds(recording)
    calls_of: dict[int, list[tuple[FunctionCall, float]]] = {}
    for call, seconds in zip(recording.calls, spent, strict=True):
        calls_of.setdefault(call.function, []).append((call, float(seconds)))
    codes: dict[tuple, TracedCode] = {}
    seen: dict[tuple, set[Signature]] = {}
    for record in recording.functions:
        calls = calls_of.get(record.index)
        if not calls:
            continue
        key = (record.definition.file, record.definition.line, record.name)
        code = codes.get(key)
        if code is None:
            code = codes[key] = TracedCode(
                record.name, record.definition, record.creation, record.is_user, record.is_jit,
                argument_names=record.argument_names,
            )  # fmt: skip
        _count(code, record, calls)
        _explain(code, record, calls, seen.setdefault(origin_of(record), set()))
    return sorted(codes.values(), key=lambda code: -(code.trace_seconds + code.compile_seconds))


def _count(code: TracedCode, record: FunctionRecord, calls: list[tuple[FunctionCall, float]]) -> None:
    code.functions += 1
    code.traced_functions += any(call.new_traces for call, _ in calls)
    code.calls += len(calls)
    code.traces += sum(call.new_traces > 0 for call, _ in calls)
    code.trace_seconds += sum(seconds for _, seconds in calls)
    code.compilations += sum(call.compilations for call, _ in calls)
    code.compile_seconds += sum(call.compile_seconds for call, _ in calls)
    if code.call_location is None and record.call_locations:
        code.call_location = record.call_locations[0]


def _explain(
    code: TracedCode, record: FunctionRecord, calls: list[tuple[FunctionCall, float]], seen: set[Signature]
) -> None:
    earlier: list[Signature] = []
    traced = [(call, seconds) for call, seconds in calls if call.new_traces]
    for index, ((call, seconds), signature) in enumerate(zip(traced, record.traced_signatures, strict=False)):
        cost = seconds + call.compile_seconds
        if index == 0:
            shape_only = _without_objects(signature)
            if shape_only in seen:
                code.repeated_moments.append(call.start)
                code.repeated_seconds += cost
            seen.add(shape_only)
        else:
            nearest = nearest_signature(signature, earlier) or signature
            changes = changes_between(nearest, signature, record.traced_names[index])
            kinds = sorted({change.kind for change in changes}) or ["unseen"]
            for kind in kinds:  # each of them alone would have caused the trace
                cause = code.causes.setdefault(kind, Cause(kind))
                cause.moments.append(call.start)
                cause.seconds += cost / len(kinds)
                for change in changes:
                    if change.kind == kind:
                        cause.arguments[change.argument] += 1
                        if len(cause.examples) < 5:
                            cause.examples.append(change)
            if _is_smaller_batch(nearest, signature):
                signature_index = record.index_of(signature)
                rare = sum(other.signature == signature_index for other, _ in calls)
                if rare <= _RARE_FRACTION * len(calls):
                    first = changes[0]
                    code.remainder = Remainder(first.argument, first.old, first.new, cost, rare)
        earlier.append(signature)
    compiled_before = False
    for call, _ in calls:
        if call.compilations and not call.new_traces and compiled_before:
            code.recompiled_moments.append(call.start)
            code.recompiled_seconds += call.compile_seconds
            if call.signature >= 0:
                code.recompiled_signatures.append(record.signatures[call.signature])
        compiled_before |= call.compilations > 0


def _is_smaller_batch(usual: Signature, signature: Signature) -> bool:
    """Whether two signatures differ only in the first size of tensors, the second being smaller."""
    if len(usual) != len(signature):
        return False
    for before, after in zip(usual, signature, strict=True):
        if before == after:
            continue
        if before[0] != "tensor" or after[0] != "tensor" or before[1] != after[1] or not before[2] or not after[2]:
            return False
        if before[2][1:] != after[2][1:] or before[2][0] <= after[2][0]:
            return False
    return True


def _without_objects(signature: Signature) -> Signature:
    """New function objects often come with new arguments of the same type: those do not make a signature different."""
    return tuple(("object", entry[1]) if entry[0] == "object" else entry for entry in signature)
