"""How busy the machine was with other work while a training was observed: a time measured on a busy machine says so."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

BUSY_FRACTION = 0.2
"""Of the processor time, for other processes and for other virtual machines, from which times are called uncertain."""
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


@dataclass(frozen=True)
class MachineLoad:
    """Fractions of the processor time of all cores together."""

    others: float | None
    """Used by other processes; None where the system does not report it."""
    steal: float | None
    """Taken by the hypervisor for other virtual machines."""
    load_average: float | None
    """Processes that wanted to run, over the last minute."""

    @property
    def is_busy(self) -> bool:
        """Whether times measured under this load are uncertain."""
        return (self.others or 0.0) + (self.steal or 0.0) > BUSY_FRACTION


class LoadMeter:
    """Measures the load between its construction and `read`."""

    def __init__(self) -> None:
        self._before = _processor_seconds()
        self._own_before, self._started_at = _own_seconds(), time.monotonic()

    def read(self) -> MachineLoad:
        """The load since the construction."""
        average = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        after = _processor_seconds()
        if self._before is None or after is None:
            return MachineLoad(None, None, average)
        whole = max((time.monotonic() - self._started_at) * (os.cpu_count() or 1), 1e-6)
        busy, steal = after[0] - self._before[0], after[1] - self._before[1]
        others = max(busy - (_own_seconds() - self._own_before), 0.0)
        return MachineLoad(min(others / whole, 1.0), min(steal / whole, 1.0), average)


def _processor_seconds() -> tuple[float, float] | None:
    """(busy, stolen) seconds of all cores since the start of the machine; None where Linux does not count them."""
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    except OSError:
        return None
    user, nice, system, _, _, irq, softirq, steal = (int(value) / _TICKS for value in fields[:8])
    return user + nice + system + irq + softirq, steal


def _own_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
