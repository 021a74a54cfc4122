"""Watches the memory of a training while it runs: what the script keeps of every step, and the line that keeps it.

The resident memory is read now and then at the end of a step. Only when it has grown are the script's containers (lists,
dictionaries, sets, deques without a bound) counted; those that are longer by about one entry per step than at the count before,
and whose new entries make up a good part of the memory, are what grows. The next steps are then followed line by line until the
container changes its length.
"""

from __future__ import annotations

import gc
import itertools
import os
import sys
import time
from collections import OrderedDict, defaultdict, deque
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import numpy as np

from myxtts.diagnostics.observe.recording import KeptEntries, Recording
from myxtts.diagnostics.observe.source_lines import UNKNOWN, SourceLocation, is_user_code, location_of

FIRST_STEPS = 10
"""Steps that do not count: models are built in them, and buffers of the framework fill."""
READING_INTERVAL_SECONDS = 0.1
LEAST_GROWTH_BYTES = 24 * 2**20
"""Growth between two counts of the containers; it doubles after each, so that a long training is not stopped often."""
MOST_COUNTS = 8
"""The last one then comes after 6 GB of growth."""
FEWEST_ENTRIES = 8
"""Most containers of a process are shorter; one that grows with the steps has them soon after `FIRST_STEPS`."""
ENTRIES_PER_STEP = 0.5
"""What is kept at every second step counts, what is kept once per epoch does not."""
EXPLAINING_FRACTION = 0.3
"""Smallest fraction of the growth of the memory that the new entries of a container must explain."""
ENTRIES_WEIGHED = 20
"""How many of the newest entries are measured; their mean is used for all."""
FOLLOWED_STEPS = 3
"""A list that is filled at every second step is seen in at least one."""
_CONTAINERS = (list, dict, OrderedDict, defaultdict, set, deque)
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class GrowthWatch:
    """Called at the end of every step, in the thread that trains."""

    def __init__(self, recording: Recording):
        self._recording = recording
        self._next_reading = 0.0
        self._mark: tuple[int, int] | None = None
        """Step and memory at the last count."""
        self._growth = LEAST_GROWTH_BYTES
        self._counts = 0
        self._lengths: dict[int, int] = {}
        self._follower: LineFollower | None = None
        self._lines: dict[int, SourceLocation] = {}
        """Where a container becomes longer, by its id: it grows in later counts as well."""
        self._is_failed = False

    def at_step_end(self, step: int) -> None:
        """Read the memory if that is due, and count the containers if it has grown. It never fails the script's step."""
        if self._is_failed:
            return
        try:
            self._look(step)
        except Exception as error:  # an object of the script may raise anything when its size is read
            self._is_failed = True
            self.stop()
            self._recording.failed_rules.append(f"The memory was not watched ({type(error).__name__}: {error}).")

    def _look(self, step: int) -> None:
        if self._follower is not None and self._follower.is_done(step):
            self._note_line(self._follower)
            self._follower = None
        now = time.perf_counter()
        if now < self._next_reading or step < FIRST_STEPS:
            return
        self._next_reading = now + READING_INTERVAL_SECONDS
        resident = resident_bytes()
        if resident is None:
            return
        self._recording.add(self._recording.memory_samples, (step, resident))
        if self._mark is None:
            self._mark = step, resident
        elif resident - self._mark[1] >= self._growth and step > self._mark[0] and self._counts < MOST_COUNTS:
            self._count(step, resident)
        self._recording.own_spans.append((now, time.perf_counter()))

    def stop(self) -> None:
        """Stop following lines, and release what was counted."""
        if self._follower is not None:
            self._note_line(self._follower)
            self._follower = None
        self._lengths = {}

    def _count(self, step: int, resident: int) -> None:
        before, (last_step, last_resident) = self._lengths, self._mark or (step, resident)
        everything = itertools.chain(gc.get_objects(), untracked_dictionaries(sys._getframe(1)))
        containers = [one for one in everything if type(one) in _CONTAINERS and len(one) >= FEWEST_ENTRIES]
        containers = [one for one in containers if one is not before]
        self._lengths = {id(one): len(one) for one in containers}
        self._mark, self._growth, self._counts = (step, resident), 2 * self._growth, self._counts + 1
        if self._counts == 1:
            return
        found = largest_growth(containers, before, step - last_step, resident - last_resident)
        self._recording.kept_entries = None
        if found is None:
            return
        container, new_bytes = found
        entries = len(container) - before.get(id(container), 0)
        self._recording.kept_entries = KeptEntries(
            type(container).__name__, entries, step - last_step, new_bytes, resident - last_resident,
            self._lines.get(id(container), UNKNOWN),
        )  # fmt: skip
        if self._follower is None and id(container) not in self._lines:
            self._follower = LineFollower(container, step)
            self._follower.start(sys._getframe(1))

    def _note_line(self, follower: LineFollower) -> None:
        follower.stop()
        kept = self._recording.kept_entries
        if kept is not None and follower.location != UNKNOWN:
            self._lines[follower.container_id] = follower.location
            self._recording.kept_entries = kept._replace(location=follower.location)


def untracked_dictionaries(frame: FrameType | None) -> list[dict]:
    """The dictionaries of the user's frames and objects that `gc` does not list, because they hold numbers and arrays only."""
    found: dict[int, dict] = {}
    while frame is not None:
        if is_user_code(frame.f_code.co_filename):
            for value in [*frame.f_locals.values(), *frame.f_globals.values()]:
                inside = getattr(value, "__dict__", None)
                nested = list(inside.values()) if isinstance(inside, dict) and not isinstance(value, ModuleType) else []
                found |= {id(one): one for one in (value, *nested) if type(one) is dict and not gc.is_tracked(one)}
        frame = frame.f_back
    return list(found.values())


def largest_growth(
    containers: list[Any], before: dict[int, int], steps: int, grown_bytes: int
) -> tuple[Any, float] | None:
    """The container whose new entries take the most memory, with their bytes; None if none explains the growth."""
    grown = []
    for one in containers:
        new = len(one) - before.get(id(one), 0)
        is_bounded = type(one) is deque and one.maxlen is not None
        if new >= ENTRIES_PER_STEP * steps and not is_bounded:
            grown.append((one, bytes_of_entry(one) * new))
    largest = max(grown, key=lambda pair: pair[1], default=None)
    return largest if largest is not None and largest[1] >= EXPLAINING_FRACTION * grown_bytes else None


def bytes_of_entry(container: Any) -> float:
    """Mean size of the newest entries of a container."""
    values = container.values() if isinstance(container, dict) else container
    newest = reversed(values) if not isinstance(container, set) else values
    sizes = [bytes_of(value) for value in itertools.islice(newest, ENTRIES_WEIGHED)]
    return float(np.mean(sizes)) if sizes else 0.0


def bytes_of(value: Any, depth: int = 4) -> int:
    """Memory of a value as far as it is data: tensors, variables, arrays, text, and what contains them."""
    if isinstance(value, (str, bytes, bytearray)):
        return len(value)
    if isinstance(value, np.ndarray):
        return value.nbytes
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is not None and hasattr(shape, "num_elements"):
        return int(shape.num_elements() or 0) * int(getattr(dtype, "size", 0) or 0)
    if depth == 0:
        return 0
    if isinstance(value, dict):
        return sum(bytes_of(part, depth - 1) for part in list(value.values())[:100])
    if isinstance(value, (list, tuple, set, deque)):
        return sum(bytes_of(part, depth - 1) for part in list(value)[:100])
    inside = getattr(value, "__dict__", None)
    return bytes_of(dict(inside), depth - 1) if isinstance(inside, dict) else 0


class LineFollower:
    """Follows the lines of the user's code for a few steps, until one of them makes a container longer."""

    def __init__(self, container: Any, step: int):
        self.location: SourceLocation = UNKNOWN
        self.container_id = id(container)
        self._container = container
        self._length = len(container)
        self._first_step = step
        self._line: SourceLocation = UNKNOWN
        self._frames: list[FrameType] = []

    def start(self, frame: FrameType | None) -> None:
        """Begin with the frames that are open now; not where a debugger or a coverage tool follows the lines already."""
        if sys.gettrace() is not None:
            return
        self._line = location_of(frame)
        while frame is not None:
            if is_user_code(frame.f_code.co_filename):
                frame.f_trace = self._see
                self._frames.append(frame)
            frame = frame.f_back
        sys.settrace(self._enter)

    def stop(self) -> None:
        """Stop following; the script has its own container again."""
        if sys.gettrace() == self._enter:
            sys.settrace(None)
        for frame in self._frames:
            frame.f_trace = None
        self._frames, self._container = [], ()

    def is_done(self, step: int) -> bool:
        """Whether the line was found, or enough steps have been followed."""
        return self.location != UNKNOWN or step >= self._first_step + FOLLOWED_STEPS

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._see if is_user_code(frame.f_code.co_filename) else None

    def _see(self, frame: FrameType, event: str, argument: Any) -> Any:
        if self.location == UNKNOWN and len(self._container) > self._length:
            self.location = self._line  # what was executed since the last event
        self._line = location_of(frame.f_back if event == "return" else frame)
        return self._see


def resident_bytes() -> int | None:
    """Memory of this process; None where the system does not report it (Linux does)."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE_BYTES
    except OSError:
        return None
