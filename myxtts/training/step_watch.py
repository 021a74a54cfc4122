"""Watches the compiled steps of a run: what each one traced, compiled and received, against what was planned for it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from myxtts.batch import Batch, BatchShape
from myxtts.runtime.compilation import RetraceWatch
from myxtts.training.steps import Steps


class StepWatch(RetraceWatch):
    """A `RetraceWatch` over `Steps`. `announce` prints a line for every increase after the warm-up."""

    def __init__(self, steps: Steps, announce: Callable[[str], None], on_retrace: Literal["warn", "fail"] = "warn"):
        super().__init__(on_retrace=on_retrace)
        self._steps, self._announce = steps, announce
        self._warm_kinds: set[str] = set()

    def end_warm_up(self, kind: str, shapes: Iterable[BatchShape]) -> None:
        """Count from here on: all functions so far are expected, and so are batches of these shapes for `kind` (none: any)."""
        for name, function in self._steps.functions.items():
            self.add(name, function)
            self._warm_kinds.add(name.split()[0])
        for shape in shapes:
            self.expect(f"{kind} {shape}", self._steps.local_shape(shape).signature())
        if self._steps.functions:
            self.warmed_up()

    def observe_step(self, step: int, kind: str, batches: Sequence[Batch]) -> None:
        """Call it after a step of a kind; the first step of a kind without a warm-up is its own warm-up."""
        is_first = kind not in self._warm_kinds
        self._warm_kinds.add(kind)
        named = {f"{kind} {self._steps.shape_of(batch)}": batch for batch in batches}
        with self.compiling() if is_first else contextlib.nullcontext():
            # An unplanned shape first: what the step compiled was for it.
            for name in sorted(named, key=self.is_watching):
                local = self._steps.local_batch(named[name])
                retrace = self.observe(step, name, local, self._steps.functions[name])
                if retrace is not None:
                    self._announce(str(retrace))
        if not self.is_warm:
            self.warmed_up()
