"""Fair comparisons on a machine whose speed varies: contenders take turns, and results are ratios within a round.

A contender is a function that does one round of work and returns a rate.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from myxtts.runtime.safe_files import write_atomically

Rates = dict[str, list[float]]
IDLE_SECONDS = 0.1
IDLE_FRACTION = 0.15
"""Fraction of one core that threads which only poll may use."""
LONGEST_AFTERMATH_SECONDS = 20.0


@dataclass(frozen=True)
class Ratio:
    """How many times as fast: the median, lowest and highest value of the rounds."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3g} ({self.low:.3g} – {self.high:.3g})"


def add_voice_argument(parser: argparse.ArgumentParser) -> None:
    """`--voice`, by default the bundled English voice; a `Path` to its folder."""
    from myxtts.synthesis.bundled import find_voice

    words = "a voice folder, or a bundled voice by name (default: the English one)"
    parser.add_argument("--voice", metavar="NAME|DIR", type=find_voice, default=find_voice(None), help=words)


def interleaved(contenders: Mapping[str, Callable[[], float]], rounds: int) -> Rates:
    """The rate of each contender in each round. All run in every round; the first one changes from round to round.

    Work that a contender continues after its turn (filling its buffers) is waited for and counted as its time. Otherwise it would
    slow down the next contender, and give its own next turn a head start.
    """
    names = list(contenders)
    rates: Rates = {name: [] for name in names}
    wait_until_idle()
    for round_index in range(rounds):
        for turn_index in range(len(names)):
            name = names[(turn_index + round_index) % len(names)]
            started = time.perf_counter()
            rate = contenders[name]()
            turn = time.perf_counter() - started
            rates[name].append(rate * turn / (turn + wait_until_idle()))
    return rates


def wait_until_idle() -> float:
    """Wait until this process and its children are idle; returns the seconds until then."""
    started = last = time.perf_counter()
    used = _cpu_seconds()
    while last - started < LONGEST_AFTERMATH_SECONDS:
        time.sleep(IDLE_SECONDS)
        now, used_before = time.perf_counter(), used
        used = _cpu_seconds()
        if used - used_before < IDLE_FRACTION * (now - last):
            return last - started
        last = now
    return last - started


def _cpu_seconds() -> float:
    total = 0.0
    own = psutil.Process()
    for process in (own, *own.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def ratio(rates: Rates, name: str, reference: str) -> Ratio:
    """The rates of `name` divided by those of `reference`, round by round."""
    values = [one / other for one, other in zip(rates[name], rates[reference], strict=True)]
    return Ratio(statistics.median(values), min(values), max(values))


def paced(take: Callable[[], float], seconds: float) -> Callable[[], float]:
    """A contender that calls `take`, which returns an amount, for about `seconds` and returns the amount per second."""

    def run() -> float:
        amount = 0.0
        started = time.perf_counter()
        while True:
            amount += take()
            elapsed = time.perf_counter() - started
            if elapsed >= seconds:
                return amount / elapsed

    return run


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table: names left-aligned, numbers right-aligned."""
    table = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    Console().print(table)


def print_rates(title: str, unit: str, rates: Rates) -> None:
    """Print the median and range of every contender's rate."""
    rows = [
        (name, f"{statistics.median(values):,.0f}", f"{min(values):,.0f} – {max(values):,.0f}")
        for name, values in rates.items()
    ]
    print_table(title, ("", unit, "all rounds"), rows)


def write_json(path: str | Path | None, metrics: Mapping[str, float]) -> None:
    """Write one flat JSON object; does nothing without a path."""
    if path is not None:
        write_atomically(path, json.dumps(dict(metrics), indent=2) + "\n")
