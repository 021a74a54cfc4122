"""What is printed about a run: its configuration before the first step, and what was measured after the last one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from myxtts.batches.plan import plan_kind
from myxtts.config.config import XTTSConfig
from myxtts.models.layers import DESCRIPTIONS
from myxtts.runtime.compilation import Counts
from myxtts.runtime.machine import instruction_set
from myxtts.runtime.timers import StepSummary
from myxtts.training.hardware import Hardware
from myxtts.training.optimization import OptimizationSettings
from myxtts.training.training_corpus import TrainingCorpus

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
        "whole run": f"{whole:,.1f} s"
    }


@dataclass(frozen=True)
class Announcement:
    """What a run is going to do."""

    config: XTTSConfig
    hardware: Hardware
    corpus: TrainingCorpus
    settings: OptimizationSettings
    total_steps: int
    parameters: int

    def lines(self) -> list[str]:
        """The promised first lines, and what follows from the configuration on this corpus and machine."""
        is_fixed = plan_kind(self.config.data) == "fixed"
        return [
            "=== Final Training Configuration ===",
            f"Static shapes (pad_to_fixed_length): {is_fixed}",
            *([STATIC_SHAPES_NOTE] if is_fixed else []),
            f"Max text length: {self.config.data.max_text_length}",
            f"Max mel frames: {self.corpus.max_mel_frames}",
            *(f"{name}: {value}" for name, value in self._facts().items()),
        ]

    def _facts(self) -> dict[str, str]:
        plan, cache, settings, training = self.corpus.plan, self.corpus.cache, self.settings, self.config.training
        validation_plan = self.corpus.validation_plan
        limit = "" if training.max_minutes is None else f" or {training.max_minutes:g} minutes"
        held_out = 0 if validation_plan is None else len(validation_plan.clips)
        facts = {
            "Device": self.hardware.description,
            "XLA": self._compiled_parts(),
            "Convolution": f"{DESCRIPTIONS[self.hardware.convolution]}, {instruction_set()}",
            "Precision": self.hardware.dtype_policy,
            "Corpus": f"{len(plan.clips)} clips for training, {held_out} held out, {self.corpus.rejected}; "
            f"speakers {len(cache.speakers)}, languages {len(cache.languages)}, {cache.front_end_kind}",
            "Sound": self.corpus.sound,
            "Plan": f"{plan.kind}, shapes {len(plan.shapes)} (first {plan.shapes[0]}), {plan.useful_fraction():.0%} useful "
            f"frames, {plan.mean_clips_per_batch():.1f} clips per batch",
            "Network": f"{self.config.model.size}, {self.parameters:,} parameters",
            "Optimization": f"{training.optimization_level}, learning rate {settings.learning_rate:g}, "
            f"{settings.warmup_steps} steps of warm-up, EMA {settings.ema_decay:g}",
            "Steps": f"{self.total_steps:,}{limit}, batches per step {training.gradient_accumulation_steps}",
        }
        if not plan.is_static:
            facts["Cost of the plan"] = (
                "a batch of a new size is compiled again, in the middle of the run; --plan packed has one size"
            )
        return facts

    def _compiled_parts(self) -> str:
        if self.hardware.uses_xla:
            return "all of the step"
        if self.hardware.xla_note:
            return f"off: {self.hardware.xla_note}"
        is_off = self.config.training.enable_xla_compilation is False or not self.hardware.graph_mode
        return "off" if is_off else "alignment, gradients of SiLU, update"


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
            "Waiting for data": f"{self.steps.wait_share:.2%} of the time",
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
