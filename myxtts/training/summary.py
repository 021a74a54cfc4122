"""The table at the end of a run: what was measured, and where things are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from myxtts.runtime.counters import Counts
from myxtts.runtime.timers import StepSummary
from myxtts.training.progress import StopReason

if TYPE_CHECKING:
    from myxtts.training.trainer import XTTSTrainer


@dataclass(frozen=True)
class RunSummary:
    """Figures of one process's part of a run."""

    reason: StopReason
    step: int
    seconds: float
    loss: float | None
    best_validation: float | None
    useful_frames_per_second: float
    padding_share: float
    steps: StepSummary
    counts: Counts
    counts_after_warmup: Counts
    compile_seconds: float
    skipped_steps: int
    """Of the whole training: loss or gradient was not finite."""
    scaled_down_steps: int
    """The gradient overflowed and the loss scale fell."""
    logging_share: float
    checkpoint: Path | None
    samples: list[Path]
    """Wavs of the fixed sentences."""

    def rows(self) -> dict[str, str]:
        """For the table."""
        after = self.counts_after_warmup
        compilations = "not countable here" if after.compilations is None else str(after.compilations)
        return {
            "Stopped": str(self.reason),
            "Steps": f"{self.step:,} in all, {self.steps.steps:,} in this run, {self.seconds / 60:.1f} min",
            "Loss": "–" if self.loss is None else f"{self.loss:.4f}",
            "Best validation loss": "–" if self.best_validation is None else f"{self.best_validation:.4f}",
            "Useful frames/s": f"{self.useful_frames_per_second:,.0f}",
            "Padding": f"{self.padding_share:.1%} of the frames",
            "Waiting for data": f"{self.steps.wait_share:.2%} of the time",
            "Skipped steps": f"{self.skipped_steps:,}"
            + (f", and {self.scaled_down_steps:,} that lowered the loss scale" if self.scaled_down_steps else ""),
            "Step time": f"{self.steps.mean_seconds:.3f} s ± {self.steps.std_seconds:.3f} s "
            f"(robust spread {self.steps.step_cv:.1%})",
            "Traces": f"{self.counts.traces}, after the warm-up {after.traces}",
            "XLA compilations after the warm-up": compilations,
            "Time to compile": f"{self.compile_seconds:.1f} s",
            "Logging": f"{self.logging_share:.2%} of the time",
            "Checkpoint": str(self.checkpoint or "written by the chief"),
            "Speech to listen to": "\n".join(str(path) for path in self.samples) or "–",
        }


def summarize_run(
    trainer: XTTSTrainer, reason: StopReason, checkpoint: Path | None, samples: list[Path], seconds: float
) -> RunSummary:
    """The figures of a trainer whose loop has ended."""
    recorder, steps = trainer.recorder, trainer.clock.summary()
    return RunSummary(
        reason=reason,
        step=trainer.step,
        seconds=seconds,
        loss=recorder.last_metrics.get("loss"),
        best_validation=trainer.progress.best_loss,
        useful_frames_per_second=recorder.useful_frames / max(trainer.clock.total_seconds, 1e-9),
        padding_share=1 - trainer.corpus.plan.useful_share(passes=1),
        steps=steps,
        counts=trainer.watch.counts(),
        counts_after_warmup=trainer.watch.counts_since_warmup(),
        compile_seconds=trainer.timers.seconds("compile"),
        skipped_steps=trainer.progress.skipped_steps,
        scaled_down_steps=recorder.scaled_down_steps,
        logging_share=recorder.seconds / max(trainer.clock.total_seconds, 1e-9),
        checkpoint=checkpoint,
        samples=samples,
    )
