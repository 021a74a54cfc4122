"""Fair comparisons on a machine whose speed drifts: contenders take turns, and figures are ratios within a round.

In: functions that do one round of work and return a rate. Out: rates round by round, ratios with their spread, tables, JSON.
"""

from __future__ import annotations

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

Rates = dict[str, list[float]]
IDLE_SECONDS = 0.1
IDLE_SHARE = 0.15
"""Of one core: what threads that only poll may use."""
LONGEST_AFTERMATH_SECONDS = 20.0


@dataclass(frozen=True)
class Ratio:
    """How many times as fast, as the median of the rounds, and between which values all rounds lie."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3g} ({self.low:.3g} – {self.high:.3g})"


def interleaved(contenders: Mapping[str, Callable[[], float]], rounds: int) -> Rates:
    """The rate of each contender in each round. Everybody runs in every round; who begins changes from round to round.

    What a contender goes on doing after its turn (filling its buffers) is waited for and counted as its time: else it would
    slow the next one down, and begin its own next turn with work done for nothing.
    """
    names = list(contenders)
    rates: Rates = {name: [] for name in names}
    wait_until_idle()
    for round_number in range(rounds):
        for place in range(len(names)):
            name = names[(place + round_number) % len(names)]
            started = time.perf_counter()
            rate = contenders[name]()
            turn = time.perf_counter() - started
            rates[name].append(rate * turn / (turn + wait_until_idle()))
    return rates


def wait_until_idle() -> float:
    """Wait until this process and its children compute nothing; returns for how many seconds they went on."""
    started = last = time.perf_counter()
    used = _cpu_seconds()
    while last - started < LONGEST_AFTERMATH_SECONDS:
        time.sleep(IDLE_SECONDS)
        now, used_before = time.perf_counter(), used
        used = _cpu_seconds()
        if used - used_before < IDLE_SHARE * (now - last):
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
    """How many times the rate of `reference`, round by round."""
    values = [one / other for one, other in zip(rates[name], rates[reference], strict=True)]
    return Ratio(statistics.median(values), min(values), max(values))


def paced(take: Callable[[], float], seconds: float) -> Callable[[], float]:
    """A contender that calls `take` (which returns how much it took) for about `seconds` and returns the amount a second."""

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
    """A table on the terminal: names to the left, figures to the right."""
    table = Table(title=title, title_justify="left")
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place == 0 else "right")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    Console().print(table)


def print_rates(title: str, unit: str, rates: Rates) -> None:
    """Median and spread of every contender's rate."""
    rows = [
        (name, f"{statistics.median(values):,.0f}", f"{min(values):,.0f} – {max(values):,.0f}")
        for name, values in rates.items()
    ]
    print_table(title, ("", unit, "all rounds"), rows)


def write_json(path: str | Path | None, figures: Mapping[str, float]) -> None:
    """One flat object; nothing is written without a path."""
    if path is not None:
        Path(path).write_text(json.dumps(dict(figures), indent=2) + "\n", encoding="utf-8")
