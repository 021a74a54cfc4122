"""Rules about the host: fetched values, eager steps, cyclic stalls, Python that keeps the device waiting, and what grows."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from myxtts.diagnostics.observe import fixes
from myxtts.diagnostics.observe.facts import Facts
from myxtts.diagnostics.observe.issues import Finding, Issue, duration, percent
from myxtts.diagnostics.observe.recording import FEWEST_PROMPT_SAMPLES, TimedEvent
from myxtts.diagnostics.observe.source_lines import UNKNOWN, SourceLocation
from myxtts.diagnostics.observe.split_steps import find_cyclic_stalls

# Fractions without another reason were chosen so that the scripts of tests/diagnostics/cases are judged right.
SYNC_FRACTION_OF_STEPS = 0.5
"""A value that is read at every second step or less often is a log line."""
EAGER_OPS_PER_STEP = 20
"""An operation from Python takes about 17 µs of processor time: fewer of them are less than what Keras needs for a step."""
STALL_FRACTION = 0.05
HOST_FRACTION = 0.12
LEAST_HOST_SECONDS = 1.5e-3
"""Per step: three times the Python of Keras' own `train_on_batch` (0.5 ms of processor time for one dense layer)."""
LEAST_HOST_SECONDS_OF_A_LOOP = 0.5e-3
"""Per step, if it is a tf.function in a loop of the user's own: nothing of it is Keras' Python. A call of a
tf.function and `next()` take 0.14 ms of processor time."""

MOST_OF_TYPICAL_HOST = 2.0
"""Steps with more Python than this are left out when its line is searched."""
LEAST_REPORTED_GROWTH_BYTES = 32 * 2**20
"""Growth from the first reading to the last: more than the first count needs (`growth.LEAST_GROWTH_BYTES`)."""
LATE_FRACTION = 0.2
"""Smallest fraction of the growth in the last third of the steps: a buffer that fills up has stopped growing before."""
GROWING_RUNS = 0.5
"""Smallest fraction of the runs of a session that found new operations in its graph."""
FEWEST_GROWING_RUNS = 10
"""A session that initializes and restores in several parts adds operations a few times."""


def find_host_syncs(facts: Facts) -> Iterator[Finding]:
    windows = facts.steps.window_of(np.array([span.start for span in facts.recording.syncs]))
    steady = facts.steady
    by_location: dict[SourceLocation, list[int]] = {}
    for index, window in enumerate(windows):
        if window >= 0 and steady[window]:
            by_location.setdefault(facts.recording.syncs[index].location, []).append(index)
    places = {
        location: indices
        for location, indices in by_location.items()
        if len({int(windows[index]) for index in indices}) >= max(SYNC_FRACTION_OF_STEPS * steady.sum(), 2)
        and location != UNKNOWN
    }
    if not places:
        return
    events = [facts.recording.syncs[index] for indices in places.values() for index in indices]
    steps = {int(windows[index]) for indices in places.values() for index in indices}
    blocked = sum(event.end - event.start for event in events)
    worst = max(places, key=lambda location: sum(_length(facts.recording.syncs[index]) for index in places[location]))
    method = facts.recording.syncs[places[worst][0]].label.strip("_")
    label = f".{method}()" if method == "numpy" else f"{method}(tensor)"  # np.mean(tensor), float(tensor)
    at_lines = f" at {len(places)} lines" if len(places) > 1 else ""
    waits = "" if facts.recording.has_accelerator else "; on an accelerator each one waits for the whole step"
    yield facts.finding(
        Issue.HOST_SYNC,
        f"a value is fetched from the device in {percent(len(steps) / max(steady.sum(), 1))} of the steps: {label}",
        f"{len(events)} fetches{at_lines}, blocked for {duration(blocked)} here{waits}",
        worst,
        fixes.read_every_n_steps(worst),
        blocked,
        locations=tuple(places),
    )


def _length(event: TimedEvent) -> float:
    return event.end - event.start


def find_eager_steps(facts: Facts) -> Iterator[Finding]:
    """Eager steps: asked for by a switch, or a tape outside of any tf.function."""
    ops = facts.steady_mean(facts.steps.eager_ops)
    if ops < EAGER_OPS_PER_STEP:
        return
    # At most all of the Python, and of each operation what it costs beyond its arithmetic.
    python = float(facts.steps.host[facts.steady].sum())
    dispatch = float(facts.steps.eager_ops[facts.steady].sum()) * _dispatch_seconds()
    if facts.steps.kind != "eager":  # the operations' own time is part of the host's
        dispatch = 0.0
    gain = min(python + dispatch, float(facts.steps.seconds[facts.steady].sum()))
    evidence = (
        f"{ops:.0f} single operations from Python in each step of {duration(facts.steady_mean(facts.steps.seconds))}"
    )
    switches = [span for span in facts.recording.eager_switches if span.start < facts.steps.end[-1]]
    if switches:
        yield facts.finding(
            Issue.EAGER_BY_MISTAKE,
            f"{switches[-1].label}: the step runs op by op from Python",
            evidence,
            switches[-1].location,
            fixes.SWITCH_OFF[switches[-1].label],
            gain,
            also=(facts.steps.location,),
        )
        return
    gradients = facts.recording.gradients
    windows = facts.steps.window_of(np.array([span.start for span in gradients]))
    inside = [span for span, window in zip(gradients, windows, strict=True) if window >= 0]
    if len(set(windows[windows >= 0].tolist())) < SYNC_FRACTION_OF_STEPS * len(facts.steps):
        return
    location = inside[0].location
    definition = (
        SourceLocation(location.file, location.definition_line, location.function)
        if location.definition_line
        else location
    )
    yield facts.finding(
        Issue.EAGER_BY_MISTAKE,
        f"the training step ('{location.function}') is not in a tf.function: it runs op by op from Python",
        evidence,
        definition,
        fixes.of_step(fixes.AS_FUNCTION, location.function),
        gain,
        also=(location, facts.steps.location),
    )


def _dispatch_seconds() -> float:
    """What one eager operation costs here beyond its arithmetic: measured on scalars."""
    import tensorflow as tf

    one = tf.constant(1.0)
    start = time.perf_counter()
    for _ in range(300):
        tf.raw_ops.AddV2(x=one, y=one)
    return (time.perf_counter() - start) / 300


def find_stalls(facts: Facts) -> Iterator[Finding]:
    """Long steps at a regular distance; time of tracing and compiling is reported elsewhere and left out."""
    steps = facts.steps
    ordinary = np.flatnonzero(~steps.is_cold)
    plain = (steps.seconds - steps.trace - steps.compile)[ordinary]
    stalls = find_cyclic_stalls(plain)
    if stalls is None or stalls.fraction < STALL_FRACTION:
        return
    long = ordinary[list(stalls.steps)]
    is_clear = stalls.fraction >= (0.4 if facts.is_busy else 0.2) and not facts.is_fed_by_keras
    if steps.is_epoch_start[long].mean() >= 0.5 and not is_clear:  # what Keras needs to start on arrays is its own
        return
    part, fraction = _what_grows(facts, long)
    location, cause, also = _where(facts, long, part)
    if (part == "host" and _is_evaluation(facts, long)) or (part == "device" and _is_training(facts, long)):
        return
    what = {"wait": "waiting for data", "device": "inside the step", "host": "in Python"}[part]
    gain = stalls.excess_seconds * len(stalls.steps)
    yield facts.finding(
        Issue.CYCLIC_STALL,
        f"every {stalls.period} steps one step takes {duration(stalls.excess_seconds)} longer ({what}{cause})",
        f"{len(stalls.steps)} stalls, period {stalls.period} steps, +{duration(stalls.excess_seconds)} on a median of "
        f"{duration(float(np.median(plain)))}, {percent(facts.fraction_of_training(gain))} of the time; {percent(fraction)} of "
        f"it {what}",
        location,
        fixes.PREFETCH_DEEPER if part == "wait" else fixes.less_often(location),
        gain,
        also=also,
    )


def _what_grows(facts: Facts, long: np.ndarray) -> tuple[str, float]:
    """Which part of a step is longer in the stalls than in the others, and its fraction of the excess."""
    steps = facts.steps
    others = np.setdiff1d(np.flatnonzero(facts.steady), long)
    excess = {
        name: float(np.mean(values[long]) - np.mean(values[others])) if len(others) else float(np.mean(values[long]))
        for name, values in (("wait", steps.wait), ("host", steps.host), ("device", steps.device))
    }
    part = max(excess, key=excess.__getitem__)
    return part, excess[part] / max(sum(max(value, 0.0) for value in excess.values()), 1e-9)


def _where(facts: Facts, long: np.ndarray, part: str) -> tuple[SourceLocation, str, tuple[SourceLocation, ...]]:
    if part == "wait" and facts.pipelines:
        pipeline = facts.pipelines[0]
        suspects = [stage for stage in pipeline.stages if stage.kind in ("shuffle", "from_generator") or stage.python]
        slowest = pipeline.slowest
        location = (
            suspects[0].location if suspects else slowest.stage.location if slowest is not None else pipeline.location
        )
        return location, "", (pipeline.location,)
    mask = np.zeros(len(facts.steps), bool)
    mask[long] = True
    lines = facts.lines_in(mask, only_host=part == "host")
    usual = dict(facts.lines_in(facts.steady & ~mask, only_host=part == "host"))
    grown = sorted(lines, key=lambda pair: -(pair[1] - usual.get(pair[0], 0.0)))
    if not grown:
        return facts.steps.location, "", ()
    location = grown[0][0]
    return location, f", {location.function}" if location.function != "<module>" else "", (facts.steps.location,)


def _is_training(facts: Facts, long: np.ndarray) -> bool:
    """The stalls are another compiled function that trains: the generator of a GAN, an update with accumulated gradients."""
    functions, chosen = facts.recording.functions, set(long.tolist())
    windows = facts.steps.window_of(np.array([call.start for call in facts.recording.calls]))
    others = sum(
        call.end - call.start
        for call, window in zip(facts.recording.calls, windows.tolist(), strict=True)
        if window in chosen
        and functions[call.function].updates_variables
        and functions[call.function].name != facts.steps.name
    )
    excess = np.median(facts.steps.device[long]) - np.median(facts.steps.device[facts.steady])
    return others > 0.5 * float(excess) * len(long)


def _is_evaluation(facts: Facts, long: np.ndarray) -> bool:
    """The stalls are an evaluation by Keras: intended, and reported as such."""
    spans = facts.recording.evaluations
    inside = facts.steps.window_of(np.array([span.start for span in spans]))
    time_inside = sum(
        span.end - span.start for span, window in zip(spans, inside, strict=True) if window in set(long.tolist())
    )
    return time_inside > 0.5 * float(facts.steps.host[long].sum())


def find_idle_device(facts: Facts) -> Iterator[Finding]:
    steps, steady = facts.steps, facts.steady
    if next(find_eager_steps(facts), None) is not None:  # eager steps have their own finding
        return
    host, whole = facts.typical(steps.host), facts.typical_step
    fraction = host / max(whole, 1e-9)
    # On a busy machine a step of a millisecond can wait longest for the threads of its operations, in the faster steps as well.
    of_all = float(steps.host[steady].sum() / max(steps.seconds[steady].sum(), 1e-9)) if facts.is_busy else fraction
    is_own_loop = steps.kind == "function" and max(fraction, of_all) > 0.2
    least = LEAST_HOST_SECONDS_OF_A_LOOP if is_own_loop else LEAST_HOST_SECONDS
    if fraction < HOST_FRACTION or host < least or facts.generator_fraction > 0.5:  # that is waiting for input
        return
    chosen = steady & (steps.host <= MOST_OF_TYPICAL_HOST * host)  # the others show where another process took the core
    if facts.count_prompt_samples(chosen) < FEWEST_PROMPT_SAMPLES:
        chosen = steady
    # The script cannot shorten what TensorFlow needs for handing over a batch to a strategy; longer than that is waiting for it.
    own = host - min(facts.fraction_in_next(chosen) * host, LEAST_HOST_SECONDS)
    if own < max(least, HOST_FRACTION * whole):
        return
    lines = facts.lines_in(chosen, is_of_loop=steps.kind != "fit")  # the loop of `fit` is Keras' own
    location, seen = lines[0] if lines else (steps.location, 0.0)
    innermost = tuple(line for line, _ in facts.lines_in(chosen)[:1])
    gain, which = float(steps.host[steady].sum()), "a typical step"
    if facts.is_busy:  # other processes make every part longer, and not all alike
        gain = min(gain, fraction * float(steps.seconds[steady].sum()))
        which = "the faster steps (other processes slow down the others)"
    gain *= own / host
    yield facts.finding(
        Issue.DEVICE_IDLE,
        f"Python is busy between the steps for {percent(facts.fraction_of_training(gain))} of the time, and the device has "
        "nothing to do",
        f"{duration(own)} of {duration(whole)} in {which}; {percent(seen)} of it seen at this line",
        location,
        fixes.less_often(location),
        gain,
        also=(*(line for line, _ in lines[1:3]), steps.location),
        locations=innermost,
    )


def find_growing_memory(facts: Facts) -> Iterator[Finding]:
    """Something of every step is kept, until the end."""
    kept = facts.recording.kept_entries
    grown = growth_until_the_end(facts.recording.memory_samples)
    if kept is None or grown is None:
        return
    growth, steps = grown
    location = kept.location if kept.location != UNKNOWN else facts.steps.location
    each = growth / steps
    what = {"list": "a list", "dict": "a dictionary", "set": "a set", "deque": "a deque without a length"}
    yield facts.finding(
        Issue.GROWING_MEMORY,
        f"{what.get(kept.container, 'a dictionary')} keeps something of every step, and the memory grows until the end",
        f"{_megabytes(growth)} in {steps} steps; {kept.entries} new entries in {kept.steps} steps explain "
        f"{percent(min(kept.entry_bytes / kept.grown_bytes, 1.0))} of what was added there",
        location,
        fixes.keep_less(location, kept.container),
        0.0,
        also=(facts.steps.location,),
        effect=f"memory: {_megabytes(each * 1000)} less for every 1,000 steps",
    )


def growth_until_the_end(samples: list[tuple[int, int]]) -> tuple[int, int] | None:
    """(bytes, steps) by which the memory grew, if it grew to the end; None if it is stable, or was full before."""
    if len(samples) < 4:
        return None
    steps, resident = np.array(samples).T
    growth = int(resident[-1] - resident[0])
    third = np.interp(steps[-1] - (steps[-1] - steps[0]) / 3, steps, resident)
    if growth < LEAST_REPORTED_GROWTH_BYTES or resident[-1] - third < LATE_FRACTION * growth or steps[-1] == steps[0]:
        return None
    return growth, int(steps[-1] - steps[0])


def find_growing_graphs(facts: Facts) -> Iterator[Finding]:
    """Operations made between the runs of a session."""
    for graph in facts.recording.graphs:
        if graph.growing_runs < max(FEWEST_GROWING_RUNS, GROWING_RUNS * len(facts.steps)):
            continue
        location = max(graph.lines, key=graph.lines.__getitem__, default=facts.steps.location)
        yield facts.finding(
            Issue.GROWING_GRAPH,
            f"new operations are added in every step: the graph of the session now has {graph.operations:,}",
            f"{graph.added:,} operations added before {graph.growing_runs} of {graph.runs} runs; the session prepares its "
            "graph again for each of them",
            location,
            fixes.of_step(fixes.OPERATIONS_ONCE, ""),
            0.0,
            also=(facts.steps.location,),
            effect=f"memory and time: {graph.added / graph.growing_runs:.0f} fewer operations added in every step",
        )


def _megabytes(count: float) -> str:
    return f"{count / 2**20:,.0f} MB" if count >= 2**20 else f"{count / 2**10:,.0f} KB"
