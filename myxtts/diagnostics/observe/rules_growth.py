"""Rules about what grows with every step: the memory of the process, the graph of a session."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from myxtts.diagnostics.observe import fixes
from myxtts.diagnostics.observe.facts import Facts
from myxtts.diagnostics.observe.issues import Finding, Issue, percent
from myxtts.diagnostics.observe.source_lines import UNKNOWN

LEAST_GROWTH_BYTES = 32 * 2**20
"""Growth from the first reading to the last: more than the first count needs (`growth.LEAST_GROWTH_BYTES`)."""
LATE_FRACTION = 0.2
"""Smallest fraction of the growth in the last third of the steps: a buffer that fills up has stopped growing before."""
GROWING_RUNS = 0.5
"""Smallest fraction of the runs of a session that found new operations in its graph."""
FEWEST_GROWING_RUNS = 10
"""A session that initializes and restores in several parts adds operations a few times."""


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
    if growth < LEAST_GROWTH_BYTES or resident[-1] - third < LATE_FRACTION * growth or steps[-1] == steps[0]:
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
