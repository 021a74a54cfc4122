"""Is every step of this trainer compiled once? (`utilities/diagnose_retracing.py`, `myxtts diagnose retracing`)"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from myxtts.batches.plan import plan_kind
from myxtts.config.config import XTTSConfig
from myxtts.diagnostics.observe.issues import percent
from myxtts.diagnostics.trial import Trial, run_trial, trial_trainer


@dataclass(frozen=True)
class RetracingDiagnosis:
    """The result."""

    plan: str
    shapes: tuple[str, ...]
    are_shapes_closed: bool
    useful_share: float
    compile_seconds: float
    trial: Trial
    why_compilations_are_unknown: str | None

    @property
    def problems(self) -> list[str]:
        """One sentence each, with the fix."""
        problems = []
        if not self.are_shapes_closed:
            problems.append(
                "🔴 The batch shapes are not closed: every new longest clip is a new shape, which is traced and compiled again. "
                "Fix: data.plan: packed (or buckets), or --enable-static-shapes."
            )
        problems += [f"🔴 {retrace}" for retrace in self.trial.retraces[:5]]
        if len(self.trial.retraces) > 5:
            problems.append(f"🔴 ... and {len(self.trial.retraces) - 5} more retraces.")
        return problems

    @property
    def exit_code(self) -> int:
        """0 fine, 1 problem found."""
        return 1 if self.problems else 0

    def lines(self) -> list[str]:
        """For people; the last lines are the promised ones."""
        since, summary = self.trial.since_warmup, self.trial.summary
        compiled = "not counted" if since.compilations is None else str(since.compilations)
        lines = [
            f"Plan: {self.plan}, {len(self.shapes)} shapes ({', '.join(self.shapes[:3])}"
            f"{' ...' if len(self.shapes) > 3 else ''}), {percent(self.useful_share)} useful frames",
            self.trial.hardware_line,
            f"Batch shapes are closed: {'yes' if self.are_shapes_closed else 'no'}",
            f"Compiled before the first step in {self.compile_seconds:.1f} s",
            f"After the warm-up: {since.traces} traces, {compiled} XLA compilations, {since.signatures} new batch signatures",
            f"{self.trial.cold_steps} cold steps: "
            + ", ".join(f"{seconds:.2f}s" for seconds in self.trial.stages[: self.trial.cold_steps].sum(axis=1)),
            f"Waiting for data {percent(summary.wait_share)}, host {percent(summary.host_share)}, "
            f"device {percent(summary.device_share)}; spread of the steps {percent(summary.step_cv)}",
        ]
        if self.why_compilations_are_unknown:
            lines.append(self.why_compilations_are_unknown)
        lines += self.problems
        if not self.problems:
            lines.append("✅ No retracing detected after initial compilation")
        lines.append(f"Average step time: {summary.mean_seconds:.2f}s ± {summary.std_seconds:.2f}s")
        return lines


def diagnose_retracing(
    config: XTTSConfig, steps: int, announce: Callable[[str], None] | None = None
) -> RetracingDiagnosis:
    """Run real steps of a configuration; count traces, compilations and batch signatures."""
    announce = announce or (lambda line: None)
    announce("Building the network and compiling its steps ...")
    with trial_trainer(config) as trainer:
        plan = trainer.task.corpus.plan
        trainer.warm_up()
        announce(f"Running {steps} training steps ...")
        trial = run_trial(trainer, steps)
        return RetracingDiagnosis(
            plan=plan_kind(config.data),
            shapes=tuple(str(shape) for shape in plan.shapes),
            are_shapes_closed=plan.is_static,
            useful_share=plan.useful_fraction(),
            compile_seconds=trainer.timers.seconds("compile"),
            trial=trial,
            why_compilations_are_unknown=trainer.task.watch.why_compilations_are_unknown(),
        )
