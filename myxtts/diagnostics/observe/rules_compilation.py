"""Rules about tracing and compiling: retraces, functions made in a loop, XLA without a retrace, shapes, late variables."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from myxtts.diagnostics.observe import fixes
from myxtts.diagnostics.observe.facts import Facts
from myxtts.diagnostics.observe.issues import Finding, Issue, duration, percent
from myxtts.diagnostics.observe.source_lines import UNKNOWN, SourceLocation
from myxtts.diagnostics.observe.traced_code import Cause, TracedCode
from myxtts.runtime.signatures import describe_entry

_ISSUES = {
    "shape": Issue.RETRACE_SHAPE,
    "dtype": Issue.RETRACE_DTYPE,
    "value": Issue.RETRACE_PYTHON_VALUE,
    "object": Issue.RETRACE_NEW_OBJECT,
}
_SMALLEST_FRACTION = 0.02
"""Smallest fraction of the time that tracing a function again must cost: twice the gain below which a finding is a note."""
_FEWEST_SIGNATURES = 5
"""TensorFlow itself warns at the fifth retrace of five calls."""
_STEPS_OF_A_TRAINING = 100
"""A new Keras model that is used for so many is a training of its own (a fold, an experiment): it needs its traces. Chosen."""
_WARM_STEPS = 3
"""Steps in which layers and optimizers may still be built."""


def find_compilation_problems(facts: Facts) -> Iterator[Finding]:
    """Everything that was traced, compiled or created repeatedly."""
    shapes_hurt = False
    building = seconds_of_building_again(facts)
    for code in facts.codes:
        for cause in code.causes.values():
            if cause.kind in _ISSUES and facts.is_ongoing(cause.moments, code.calls, cause.seconds):
                shapes_hurt |= cause.kind == "shape"
                yield _retrace(facts, code, cause)
        yield from _remainder(facts, code)
        if _is_made_again(facts, code):
            yield _function_in_loop(facts, code, 0.0 if code.is_user else building)
            building = building if code.is_user else 0.0  # once, with the function that takes the most time
        if facts.is_ongoing(code.recompiled_moments, code.calls, code.recompiled_seconds):
            shapes_hurt = True
            yield _recompilation(facts, code)
    if shapes_hurt:
        yield from _many_signatures(facts)
    yield from _late_variables(facts)


def _retrace(facts: Facts, code: TracedCode, cause: Cause) -> Finding:
    argument = cause.arguments.most_common(1)[0][0]
    seen = list(dict.fromkeys([cause.examples[0].old] + [example.new for example in cause.examples]))
    changed = {"shape": "shape", "dtype": "dtype", "value": "Python value", "object": "object"}[cause.kind]
    fix = {
        "shape": fixes.signature_for_any_shape(code.name, code.argument_names, code.is_jit, argument)
        if code.is_user
        else fixes.of_dataset(fixes.PADDED_BATCHES, _first(_batching_locations(facts))),
        "dtype": fixes.cast(argument, cause.examples[0].old.split(" ")[0], code.name),
        "value": fixes.tensor_argument(code.name, code.argument_names, argument),
        "object": fixes.one_object(argument, cause.examples[0].new),
    }[cause.kind]
    return facts.finding(
        _ISSUES[cause.kind],
        f"'{code.name}' is traced again for every new {changed} of argument '{argument}'",
        f"{code.traces} traces in {code.calls} calls; {argument}: {', '.join(seen[:5])}; {duration(cause.seconds)} of retracing",
        _location(code),
        fix,
        cause.seconds,
        also=(code.call_location or UNKNOWN, code.creation, code.definition),
    )


def _remainder(facts: Facts, code: TracedCode) -> Iterator[Finding]:
    """The last, smaller batch of every epoch has a shape of its own: a trace for a handful of calls."""
    cause, remainder = code.causes.get("shape"), code.remainder
    if remainder is None or cause is None or facts.is_ongoing(cause.moments, code.calls, cause.seconds):
        return
    if remainder.seconds < _SMALLEST_FRACTION * facts.total_seconds:
        return
    yield facts.finding(
        Issue.RETRACE_SHAPE,
        f"'{code.name}' is traced once more for the last, smaller batch of each epoch",
        f"argument '{remainder.argument}': {remainder.usual}, then {remainder.last} in {remainder.calls} of {code.calls} calls; "
        f"{duration(remainder.seconds)} of tracing",
        _location(code),
        fixes.of_dataset(fixes.DROP_REMAINDER, _first(_batching_locations(facts))),
        remainder.seconds,
        also=(*_batching_locations(facts), code.call_location or UNKNOWN),
    )


def _batching_locations(facts: Facts) -> list[SourceLocation]:
    return [
        stage.location
        for pipeline in facts.pipelines
        for stage in pipeline.stages
        if stage.is_users and ("batch" in stage.kind or stage.kind in ("group_by_window", "from_generator"))
    ]


def _first(locations: list[SourceLocation]) -> SourceLocation:
    return locations[0] if locations else UNKNOWN


def _location(code: TracedCode) -> SourceLocation:
    """Where a user finds a function: its own definition; for Keras' functions the call that made them."""
    return code.definition if code.is_user else code.creation


def describe_own_trainings(facts: Facts) -> Iterator[str]:
    """Models that are built one after the other, and each train long enough: no finding, and still some of the time."""
    for code in facts.codes:
        if not code.is_user and code.repeated_seconds >= 0.01 * facts.total_seconds and not _is_made_again(facts, code):
            seconds, fraction = code.repeated_seconds, facts.fraction_of_training(code.repeated_seconds)
            yield (
                f"'{code.name}' of Keras was traced for {code.traced_functions} functions, as for a new model in every fold: "
                f"{duration(seconds)}, {percent(fraction)} of the training."
            )


def _is_made_again(facts: Facts, code: TracedCode) -> bool:
    smallest, seconds = _SMALLEST_FRACTION, code.repeated_seconds
    if not code.is_user and code.repeated_moments:
        is_training = code.calls >= _STEPS_OF_A_TRAINING * code.traces
        smallest, seconds = 0.3 if is_training else 0.1, seconds + _building_seconds(facts)
    return seconds > smallest * facts.total_seconds and facts.is_ongoing(
        code.repeated_moments, code.calls, code.repeated_seconds
    )


def seconds_of_building_again(facts: Facts) -> float:
    """Python between the steps in which Keras builds models, if their functions are traced again: both have one cause."""
    if not any(_is_made_again(facts, code) for code in facts.codes if not code.is_user):
        return 0.0
    return _building_seconds(facts)


def _building_seconds(facts: Facts) -> float:
    """What Keras prepares inside `fit` is no part of it."""
    fits = set(facts.recording.fit_locations)
    return facts.account.seconds_between(lambda line, activity: activity == "keras" and line not in fits)


def _function_in_loop(facts: Facts, code: TracedCode, building: float) -> Finding:
    recompiled = facts.recording.compile_locations if not code.is_user else []
    often = [location for location in dict.fromkeys(recompiled) if recompiled.count(location) >= 3]
    location = often[0] if often else code.creation
    return facts.finding(
        Issue.FUNCTION_IN_LOOP,
        f"'{code.name}' is wrapped in a new tf.function repeatedly, and each one is traced",
        f"{code.traced_functions} functions from the same code, {len(code.repeated_moments)} of them for arguments that an "
        f"earlier one was traced for; {duration(code.repeated_seconds)} of tracing"
        + (f", {duration(building)} of building models between the steps" if building >= 1e-3 else ""),
        location,
        fixes.COMPILE_ONCE if often else fixes.of_step(fixes.FUNCTION_ONCE, code.name),
        code.repeated_seconds + building,
        also=(code.creation, code.definition if code.is_user else UNKNOWN, code.call_location or UNKNOWN),
    )


def _recompilation(facts: Facts, code: TracedCode) -> Finding:
    times = len(code.recompiled_moments)
    shapes = [
        ", ".join(describe_entry(entry) for entry in signature if entry[0] == "tensor")
        for signature in dict.fromkeys(code.recompiled_signatures)
    ]
    shapes = [shape for shape in shapes if shape]
    varied = len(set(facts.steps.batch[facts.steps.batch >= 0].tolist()))
    evidence = f"{code.compilations} XLA compilations, {code.traces} traces, {code.calls} calls; "
    evidence += f"{duration(code.recompiled_seconds)} of compiling again"
    if len(shapes) > 1:
        evidence += f"; among them {'; '.join(shapes[:3])}"
    elif varied > 2:
        evidence += f"; {varied} different batch sizes"
    is_batch = len(shapes) > 1 or varied > 2
    fix = fixes.without_recompiling(code.name, _first(_batching_locations(facts)), is_batch)
    pipelines = tuple(
        stage.location for pipeline in facts.pipelines for stage in pipeline.stages if "batch" in stage.kind
    )
    return facts.finding(
        Issue.XLA_RECOMPILE,
        f"XLA compiles '{code.name}' again {times} times without any retrace",
        evidence,
        _location(code),
        fix,
        code.recompiled_seconds,
        also=(code.call_location or UNKNOWN, *facts.recording.compile_locations[:1], *pipelines[:1]),
    )


def _many_signatures(facts: Facts) -> Iterator[Finding]:
    batches = facts.steps.batch
    known = batches[batches >= 0]
    distinct, first = np.unique(known, return_index=True)
    late = int(np.sum(first > facts.middle_step))
    if len(distinct) < _FEWEST_SIGNATURES or late < 2:
        return
    lost = float((facts.steps.trace + facts.steps.compile)[~facts.steps.is_cold].sum())
    batching = _batching_locations(facts)
    location = batching[0] if batching else facts.steps.location
    yield facts.finding(
        Issue.MANY_SIGNATURES,
        f"the batches come in {len(distinct)} shapes, and new ones keep coming",
        f"{len(distinct)} signatures in {len(known)} steps; {late} of them first seen in the second half of the first epoch",
        location,
        fixes.of_dataset(fixes.PADDED_BATCHES, location),
        lost,
        also=(facts.steps.location,),
    )


def _late_variables(facts: Facts) -> Iterator[Finding]:
    variables = facts.recording.variables
    windows = facts.steps.window_of(np.array([span.start for span in variables]))
    by_location: dict[SourceLocation, list[tuple[int, float]]] = {}
    for span, window in zip(variables, windows, strict=True):
        if window >= _WARM_STEPS:
            by_location.setdefault(span.location, []).append((int(window), span.end - span.start))
    places = {
        location: created for location, created in by_location.items() if len({window for window, _ in created}) >= 2
    }
    if not places:
        return
    created = [one for found in places.values() for one in found]
    chosen = sorted({window for window, _ in created})
    seconds = sum(seconds for _, seconds in created)
    yield facts.finding(
        Issue.LATE_VARIABLES,
        f"variables are still created after the first steps: {len(created)} in {len(chosen)} steps",
        f"first at step {chosen[0] + 1}, last at step {chosen[-1] + 1}; {percent(len(chosen) / len(facts.steps))} of the "
        f"steps; {duration(seconds)} in creating them",
        max(places, key=lambda location: len(places[location])),
        fixes.VARIABLES_ONCE,
        seconds,
        locations=tuple(places),
    )
