"""The diagnoses of this trainer: is every step compiled once, and where does a step spend its time?

`utilities/diagnose_retracing.py` and `myxtts diagnose retracing`, `utilities/diagnose_gpu_bottleneck.py` and
`myxtts diagnose bottleneck`. They take real training steps in a temporary folder (`Trial`). The real loader is timed stage by
stage and alone, the step alone, and real steps are split into waiting, host and device. Python functions are found in the
dataset's own graph.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import itertools
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from absl import logging
from rich.console import Console

from myxtts.batches.plan import plan_kind
from myxtts.config.config import XTTSConfig
from myxtts.diagnostics.observe.issues import duration, percent
from myxtts.diagnostics.observe.pipeline import DatasetStage, describe_dataset, model_nodes
from myxtts.diagnostics.observe.rules_host import STALL_FRACTION
from myxtts.diagnostics.observe.rules_input import WAIT_FRACTION
from myxtts.diagnostics.observe.split_steps import Stalls, find_cyclic_stalls
from myxtts.errors import DiagnosisError
from myxtts.runtime.compilation import Counts, Retrace
from myxtts.runtime.progress import ignore_line
from myxtts.runtime.timers import Stage, StepSummary, summarize
from myxtts.training.autotune import COLD_STEPS
from myxtts.training.display import Display
from myxtts.training.loop import take_steps
from myxtts.training.starting_config import resolve_starting_config
from myxtts.training.trainer import XTTSTrainer


@dataclass(frozen=True)
class Trial:
    """The measurements of a number of real steps."""

    stages: np.ndarray
    """Seconds by (step, stage), cold steps first."""
    cold_steps: int
    retraces: tuple[Retrace, ...]
    since_warmup: Counts
    total: Counts
    hardware: dict[str, str]
    """What the steps ran on (`Hardware.facts`)."""

    @property
    def steady(self) -> np.ndarray:
        """Seconds by (step, stage) without the cold steps."""
        return self.stages[self.cold_steps :]

    @property
    def hardware_line(self) -> str:
        """For people."""
        return "Ran on " + ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in self.hardware.items())

    @property
    def summary(self) -> StepSummary:
        """Metrics of the steady steps."""
        return summarize(self.steady)


@contextlib.contextmanager
def trial_trainer(config: XTTSConfig) -> Iterator[XTTSTrainer]:
    """The real trainer on a configuration, quiet, with its checkpoints in a folder that is removed afterwards."""
    config = resolve_starting_config(config)  # the network and the mels of the user's run, without its weights
    with tempfile.TemporaryDirectory(prefix="myxtts-trial-") as folder:
        training = dataclasses.replace(
            config.training, checkpoint_dir=folder, tensorboard_log_dir=None, init_from=None, on_retrace="warn"
        )
        quiet = Display(Console(file=io.StringIO(), highlight=False))
        trainer = XTTSTrainer(dataclasses.replace(config, training=training), display=quiet, reset_training=True)
        with trainer:
            yield trainer


def run_trial(trainer: XTTSTrainer, steps: int) -> Trial:
    """Take steps as the training loop takes them."""
    if steps <= COLD_STEPS:
        raise DiagnosisError(
            f"At least {COLD_STEPS + 1} steps are needed, because the first {COLD_STEPS} are warm-up. Received: {steps}."
        )
    task, clock = trainer.task, trainer.clock
    for taken in take_steps(task, clock, steps):
        task.check_retracing(taken.batches)
        clock.finish()
    return Trial(
        stages=clock.recent(last=steps),
        cold_steps=COLD_STEPS,
        retraces=task.watch.retraces,
        since_warmup=task.watch.counts_since_warmup(),
        total=task.watch.counts(),
        hardware=task.hardware.facts(),
    )


@dataclass(frozen=True)
class RetracingDiagnosis:
    """The result."""

    plan: str
    shapes: tuple[str, ...]
    are_shapes_closed: bool
    useful_fraction: float
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
        """Lines to print; the last ones are those that the documents name."""
        since, summary = self.trial.since_warmup, self.trial.summary
        compiled = "not counted" if since.compilations is None else str(since.compilations)
        lines = [
            f"Plan: {self.plan}, {len(self.shapes)} shapes ({', '.join(self.shapes[:3])}"
            f"{' ...' if len(self.shapes) > 3 else ''}), {percent(self.useful_fraction)} useful frames",
            self.trial.hardware_line,
            f"Batch shapes are closed: {'yes' if self.are_shapes_closed else 'no'}",
            f"Compiled before the first step in {self.compile_seconds:.1f} s",
            f"After the warm-up: {since.traces} traces, {compiled} XLA compilations, {since.signatures} new batch signatures",
            f"{self.trial.cold_steps} cold steps: "
            + ", ".join(f"{seconds:.2f}s" for seconds in self.trial.stages[: self.trial.cold_steps].sum(axis=1)),
            f"Waiting for data {percent(summary.wait_fraction)}, host {percent(summary.host_fraction)}, "
            f"device {percent(summary.device_fraction)}; spread of the steps {percent(summary.step_cv)}",
        ]
        if self.why_compilations_are_unknown:
            lines.append(self.why_compilations_are_unknown)
        lines += self.problems
        if not self.problems:
            lines.append("✅ No retracing detected after initial compilation")
        lines.append(f"Average step time: {summary.mean_seconds:.2f}s ± {summary.std_seconds:.2f}s")
        return lines


def diagnose_retracing(
    config: XTTSConfig, steps: int, announce: Callable[[str], None] = ignore_line
) -> RetracingDiagnosis:
    """Run real steps of a configuration; count traces, compilations and batch signatures."""
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
            useful_fraction=plan.useful_fraction(),
            compile_seconds=trainer.timers.seconds("compile"),
            trial=trial,
            why_compilations_are_unknown=trainer.task.watch.why_compilations_are_unknown(),
        )


STEP_ALONE_REPETITIONS = 10


@dataclass(frozen=True)
class BottleneckDiagnosis:
    """The result."""

    stages: tuple[DatasetStage, ...]
    """The transformations of the dataset."""
    stage_seconds: tuple[tuple[str, float], ...]
    """Seconds per batch in every stage that TensorFlow runs, the last one first; empty without its model."""
    loader_seconds: float
    """Seconds per batch of the loader alone."""
    step_seconds: float
    """Seconds of the step alone, on a batch that is ready."""
    trial: Trial
    stalls: Stalls | None
    clips_per_batch: float

    @property
    def python_functions(self) -> tuple[str, ...]:
        """numpy_function, py_function and generators in the graph."""
        return tuple(sorted({kind for stage in self.stages for kind in stage.python}))

    @property
    def problems(self) -> list[str]:
        """One sentence each, with the fix; in the words that the documents name."""
        problems, summary = [], self.trial.summary
        for kind in self.python_functions:
            stage = next(stage for stage in self.stages if kind in stage.python)
            problems.append(
                f"🔴 tf.{kind} found in data pipeline! ({stage.label}) Python loads clip by clip under the GIL, and nothing is "
                "cached. Fix: data.use_tf_native_loading: true."
            )
        if self.stalls is not None:
            problems.append(
                "🔴 HIGH VARIATION DETECTED - Cyclic pattern identified! "
                f"Every {self.stalls.period} steps one takes {duration(self.stalls.excess_seconds)} longer, "
                f"{percent(self.stalls.fraction)} of the time, most of it {self._grows(self.stalls)}. "
                "Fix: a deeper prefetch (data.prefetch_buffer_size), and nothing else on the machine."
            )
        if summary.wait_fraction >= WAIT_FRACTION:
            slowest = max(self.stage_seconds, key=lambda stage: stage[1], default=("the loader", 0.0))[0]
            problems.append(
                f"🔴 input-bound: {percent(summary.wait_fraction)} of the time waiting for data, slowest stage {slowest}. "
                "Fix: preprocessing_mode: precompute, more data.num_workers, a deeper prefetch_buffer_size."
            )
        return problems

    @property
    def exit_code(self) -> int:
        """0 fine, 1 problem found."""
        return 1 if self.problems else 0

    def _grows(self, stalls: Stalls) -> str:
        long = np.array(stalls.steps)
        usual = np.setdiff1d(np.arange(len(self.trial.steady)), long)
        grown = self.trial.steady[long].mean(axis=0) - self.trial.steady[usual].mean(axis=0)
        return {Stage.WAIT: "waiting for data", Stage.HOST: "on the host", Stage.DEVICE: "in the step"}[
            Stage(int(grown.argmax()))
        ]

    def lines(self) -> list[str]:
        """For people: verdict first."""
        summary = self.trial.summary
        problems = self.problems
        verdict = problems or [
            f"✅ compute-bound: nothing to gain from the loader ({percent(summary.wait_fraction)} of the time waiting)"
        ]
        lines = [
            *verdict,
            "",
            self.trial.hardware_line,
            f"Real steps: {summary.steps} of {duration(summary.mean_seconds)} ± {duration(summary.std_seconds)}; waiting "
            f"{percent(summary.wait_fraction)}, host {percent(summary.host_fraction)}, device "
            f"{percent(summary.device_fraction)}; spread {percent(summary.step_cv)}",
            f"Loader alone: {duration(self.loader_seconds)} per batch of {self.clips_per_batch:.1f} clips "
            f"({self.clips_per_batch / max(self.loader_seconds, 1e-9):,.0f} clips/s)",
            f"Step alone, data ready: {duration(self.step_seconds)}; the loader could feed "
            f"{self.step_seconds / max(self.loader_seconds, 1e-9):.0f} such devices",
            "Stages (time per batch, all threads together):",
        ]
        lines += [f"  {name:<22} {duration(seconds):>10}" for name, seconds in self.stage_seconds]
        return lines


def diagnose_bottleneck(
    config: XTTSConfig, batches: int, announce: Callable[[str], None] = ignore_line
) -> BottleneckDiagnosis:
    """Time the real pipeline, the step, and both together."""
    announce("Building the network and compiling its steps ...")
    with trial_trainer(config) as trainer:
        announce(f"Timing the loader alone, {batches} batches ...")
        stages, stage_seconds, loader_seconds = _time_loader(trainer, batches)
        trainer.warm_up()
        announce("Timing the step alone ...")
        step_seconds = _time_step(trainer)
        announce(f"Running {batches} real steps ...")
        trial = run_trial(trainer, max(batches, 3))
        stalls = find_cyclic_stalls(trial.steady.sum(axis=1))
        return BottleneckDiagnosis(
            stages=stages,
            stage_seconds=stage_seconds,
            loader_seconds=loader_seconds,
            step_seconds=step_seconds,
            trial=trial,
            stalls=stalls if stalls is not None and stalls.fraction >= STALL_FRACTION else None,
            clips_per_batch=trainer.task.corpus.plan.mean_clips_per_batch(),
        )


def _time_loader(
    trainer: XTTSTrainer, batches: int
) -> tuple[tuple[DatasetStage, ...], tuple[tuple[str, float], ...], float]:
    """The datasets that the feed runs, alone: its graph, its stages, and the mean time of a batch over all shapes."""
    plan, reader = trainer.task.corpus.plan, trainer.task.feed.reader
    segment = next(iter(plan.segments((0, 0), batches + 2, batches + 2)))
    stages: tuple[DatasetStage, ...] = ()
    named: dict[str, float] = {}
    count, spent = 0, 0.0
    for number in range(len(plan.shapes)):
        if not len(segment.rows[number]):
            continue
        stages += describe_dataset(reader.without_corpus().dataset(segment, number), {}, {})
        iterator = iter(with_model(reader.dataset(segment, number)))
        if next(iterator, None) is None:
            continue
        start = time.perf_counter()
        delivered = sum(1 for _ in itertools.islice(iterator, batches))
        spent += time.perf_counter() - start
        count += delivered
        try:
            model = tf.data.experimental.get_model_proto(iterator)
        except (tf.errors.OpError, ValueError):  # too few batches for a model
            continue
        for node in model_nodes(model):
            named[node.kind] = named.get(node.kind, 0.0) + node.seconds
    seconds = tuple((name, total / max(count, 1)) for name, total in named.items())
    return stages, seconds, spent / max(count, 1)


def with_model(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The same dataset with TensorFlow's own model of it running, which times its stages (the feed runs without)."""
    settings = tf.data.Options()
    settings.autotune.enabled = True
    verbosity = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)  # TensorFlow warns that an option changes, which is intended
    try:
        return dataset.with_options(settings)
    finally:
        logging.set_verbosity(verbosity)


def _time_step(trainer: XTTSTrainer) -> float:
    """Median time of the step on one real batch, repeated; the train state is restored."""
    accumulated = trainer.config.training.gradient_accumulation_steps
    batch = next(trainer.task.feed)
    times = []
    with trainer.task.state.restored():
        for _ in range(STEP_ALONE_REPETITIONS + 1):
            start = time.perf_counter()
            trainer.task.steps.learn([batch] * accumulated).numpy()
            times.append(time.perf_counter() - start)
    return float(np.median(times[1:]))
