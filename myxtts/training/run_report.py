"""What is printed about a run: its configuration before the first step, and what was measured after the last one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from myxtts.batches.plan import plan_kind
from myxtts.config.config import XTTSConfig
from myxtts.runtime.compilation import Counts
from myxtts.runtime.timers import StepSummary

STATIC_SHAPES_NOTE = "✅ ENABLED - This prevents tf.function retracing and stabilizes GPU utilization"

PARTS = {
    "device": "finding the device",
    "corpus": "opening the corpus",
    "network": "building the network",
    "compile": "tracing, compiling",
    "steps_waiting": "steps: waiting for data",
    "steps_python": "steps: Python",
    "steps_device": "steps: device",
    "validation": "validation",
    "evaluation": "evaluation",
    "checkpoint": "checkpoints",
    "samples": "spoken samples",
    "other": "everything else",
}
"""Titles of the parts of `StageTimers.account`, in the order of the table."""


def account_rows(account: dict[str, float]) -> dict[str, str]:
    """The whole run by part: seconds and fractions that sum to all of it."""
    whole = max(sum(account.values()), 1e-9)
    rows = {title: account[part] for part, title in PARTS.items() if account.get(part, 0.0) > 0}
    return {title: f"{seconds:,.1f} s  {seconds / whole:.1%}" for title, seconds in rows.items()} | {
        "whole run": f"{whole:,.1f} s  100.0%"
    }


def announcement(config: XTTSConfig, max_mel_frames: int, facts: Mapping[str, str]) -> list[str]:
    """The promised first lines, and what follows from the configuration on this corpus and machine.

    Args:
        max_mel_frames: that the corpus is planned with.
        facts: lines about the hardware, the corpus and the network, by their titles.
    """
    is_fixed = plan_kind(config.data) == "fixed"
    return [
        "=== Final Training Configuration ===",
        f"Static shapes (pad_to_fixed_length): {is_fixed}",
        *([STATIC_SHAPES_NOTE] if is_fixed else []),
        f"Max text length: {config.data.max_text_length}",
        f"Max mel frames: {max_mel_frames}",
        *(f"{title}: {fact}" for title, fact in facts.items()),
    ]


@dataclass(frozen=True)
class RunSummary:
    """Measurements of one process's part of a run."""

    reason: str
    """Why the run stopped (`loop.StopReason`)."""
    step: int
    seconds: float
    loss: float | None
    best_validation: float | None
    useful_frames_per_second: float
    padding_fraction: float
    steps: StepSummary
    counts: Counts
    counts_after_warmup: Counts
    compile_seconds: float
    skipped_steps: int
    """Of the whole training: loss or gradient was not finite."""
    scaled_down_steps: int
    """The gradient overflowed and the loss scale was lowered."""
    logging_fraction: float
    checkpoint: Path | None
    samples: list[Path]
    """Wavs of the fixed sentences."""

    def rows(self) -> dict[str, str]:
        """The table at the end of a run."""
        after = self.counts_after_warmup
        compilations = "not countable here" if after.compilations is None else str(after.compilations)
        return {
            "Stopped": str(self.reason),
            "Steps": f"{self.step:,} in all, {self.steps.steps:,} in this run, {self.seconds / 60:.1f} min",
            "Loss": "–" if self.loss is None else f"{self.loss:.4f}",
            "Best validation loss": "–" if self.best_validation is None else f"{self.best_validation:.4f}",
            "Useful frames/s": f"{self.useful_frames_per_second:,.0f}",
            "Padding": f"{self.padding_fraction:.1%} of the frames",
            "Waiting for data": f"{self.steps.wait_fraction:.2%} of the time of the steps",
            "Skipped steps": f"{self.skipped_steps:,}"
            + (f", and {self.scaled_down_steps:,} that lowered the loss scale" if self.scaled_down_steps else ""),
            "Step time": f"{self.steps.mean_seconds:.3f} s ± {self.steps.std_seconds:.3f} s "
            f"(robust spread {self.steps.step_cv:.1%})",
            "Traces": f"{self.counts.traces}, after the warm-up {after.traces}",
            "XLA compilations after the warm-up": compilations,
            "Time to compile": f"{self.compile_seconds:.1f} s",
            "Logging": f"{self.logging_fraction:.2%} of the time",
            "Checkpoint": str(self.checkpoint or "written by the chief"),
            "Speech to listen to": "\n".join(str(path) for path in self.samples) or "–",
        }
