"""The training loop: steps, log, validation, checkpoints, samples, and the reasons to stop. What is trained is a `task.Task`."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import tensorflow as tf

from myxtts.config.config import TrainingConfig
from myxtts.errors import CheckpointError, MyXTTSError, TrainingError
from myxtts.runtime.console import StopOnSignal
from myxtts.runtime.safe_files import cause_of
from myxtts.runtime.timers import Stage, StageTimers, StepClock
from myxtts.training.display import Display
from myxtts.training.run_recorder import RunRecorder
from myxtts.training.task import SavedCheckpoint, StepTask, Task

FEWEST_DRAWN_STEPS = 50
"""Fewest steps of a run that ends with pictures: compiling what they show takes as long as some steps."""
POLL_SECONDS = 0.2
"""Seconds between two checks, at the end of a run, whether an evaluation has ended or a signal has come."""

What = TypeVar("What")


class StopReason(StrEnum):
    """Why a run stopped, for the last table: `Stopped: …`."""

    FINISHED = "all steps are done"
    TIME = "reached training.max_minutes"
    PATIENCE = "the validation loss stopped improving (training.early_stopping_patience)"
    SIGNAL = "interrupted; run the same command again to resume"


# --- taking steps ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TakenStep:
    """One step that was started on the device."""

    step: int
    batches: Sequence[Any]
    metrics: tf.Tensor
    """Metrics of this step, possibly still being computed."""
    finished: np.ndarray | None
    """Metrics of the step before; None after the first step."""


def take_steps(task: StepTask, clock: StepClock, count: int) -> Iterator[TakenStep]:
    """Take `count` steps. The caller must call `clock.finish` for each of them.

    One step stays in flight: the device has work while the host waits for the step before.
    """
    previous: tf.Tensor | None = None
    clock.begin()
    for _ in range(count):
        batches = task.next_batches()
        clock.mark(Stage.WAIT)
        metrics = task.learn(batches)
        finished = None if previous is None else previous.numpy()
        clock.mark(Stage.DEVICE)
        previous = metrics
        yield TakenStep(task.step, batches, metrics, finished)


# --- evaluating next to the steps -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EvaluationOutcome(Generic[What]):
    """How an evaluation ended: with metrics or with the reason why there are none."""

    what: What
    """What was evaluated."""
    metrics: Mapping[str, float] | None
    failure: str = ""


class BackgroundEvaluation(Generic[What]):
    """At most one evaluation at a time, in a thread of its own."""

    def __init__(self, evaluate: Callable[[What], Mapping[str, float]]):
        """`evaluate` waits for another process most of the time: what it computes itself slows the training down."""
        self._evaluate = evaluate
        self._thread: threading.Thread | None = None
        self._outcome: EvaluationOutcome[What] | None = None
        self._unexpected: BaseException | None = None
        self.running: What | None = None
        """What is being evaluated, until its outcome is taken."""

    def start(self, what: What) -> bool:
        """Begin to evaluate; false if an evaluation is still running or was not taken yet."""
        if self._thread is not None:
            return False
        self.running, self._outcome = what, None
        self._thread = threading.Thread(target=self._run, args=(what,), name="evaluation", daemon=True)
        self._thread.start()
        return True

    def take(self, timeout_seconds: float = 0.0) -> EvaluationOutcome[What] | None:
        """The outcome, once, if there is one by then."""
        if self._thread is None:
            return None
        if timeout_seconds > 0:
            self._thread.join(timeout_seconds)
        if self._thread.is_alive():
            return None
        self._thread = self.running = None
        if self._unexpected is not None:
            raise self._unexpected
        return self._outcome

    def _run(self, what: What) -> None:
        try:
            self._outcome = EvaluationOutcome(what, self._evaluate(what))
        except MyXTTSError as error:
            self._outcome = EvaluationOutcome(what, None, str(error))
        except OSError as error:
            self._outcome = EvaluationOutcome(what, None, f"{cause_of(error)}.")
        except BaseException as error:
            self._unexpected = error


# --- the loop -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LoopSettings:
    """When the loop does more than take a step. The fields of `TrainingConfig` with the same names."""

    log_interval: int
    validation_interval: int
    checkpoint_interval: int
    sample_interval: int
    evaluation_interval: int
    early_stopping_patience: int | None
    max_minutes: float | None

    @classmethod
    def from_config(cls, training: TrainingConfig) -> LoopSettings:
        """The settings of a run."""
        return cls(**{field.name: getattr(training, field.name) for field in fields(cls)})


@dataclass(frozen=True)
class DueEvents:
    """What happens after a step."""

    validation: bool
    checkpoint: bool
    sample: bool
    evaluation: bool


def due_events(
    step: int, total_steps: int, settings: LoopSettings, *, can_validate: bool, has_evaluation: bool
) -> DueEvents:
    """The events of a step. The samples of the last step are made after the loop."""
    return DueEvents(
        validation=can_validate and step % settings.validation_interval == 0,
        checkpoint=step % settings.checkpoint_interval == 0,
        sample=step % settings.sample_interval == 0 and step < total_steps,
        evaluation=has_evaluation and step % settings.evaluation_interval == 0,
    )


@dataclass(frozen=True)
class LoopResult:
    """How a run ended."""

    reason: StopReason
    seconds: float
    saved: SavedCheckpoint | None
    """None on a worker that writes no checkpoints."""
    samples: list[Path]


class Loop:
    """Runs a task to its end, to an early stop, or to a signal; leaves a checkpoint of the last step."""

    def __init__(
        self,
        task: Task,
        settings: LoopSettings,
        recorder: RunRecorder,
        display: Display,
        clock: StepClock,
        timers: StageTimers,
    ):
        self._task, self._settings, self._recorder = task, settings, recorder
        self._display, self._clock, self._timers = display, clock, timers
        self._evaluation = BackgroundEvaluation(task.evaluate)

    def run(self) -> LoopResult:
        """Train, validate the last weights, save, and make samples.

        Raises a `TrainingError` of a step after saving the weights, which are those of the last good step.
        """
        task, started, first_step = self._task, time.monotonic(), self._task.step
        minutes = self._settings.max_minutes
        most_seconds = None if minutes is None else 60 * minutes
        self._recorder.announce_end(task.total_steps, None if most_seconds is None else time.time() + most_seconds)
        progress = self._display.training(task.total_steps, task.step, most_seconds)
        try:
            with StopOnSignal(self._display.line) as stop, progress:
                reason = self._train(stop, started)
                self._recorder.flush()
                is_best = self._validate() if self._lacks_validation(reason) else False
                saved = self._save()
                if is_best and saved is not None and not task.has_evaluation:
                    self._mark_best(saved)
                if reason is not StopReason.SIGNAL and self._await_evaluation(stop):
                    saved = self._save()  # with the best evaluation so far
                with self._timers.stage("samples"):
                    if saved is not None and task.step - first_step >= FEWEST_DRAWN_STEPS:
                        task.draw(self._recorder.logbook)
                    self._recorder.logbook.drain()  # a sample in the background writes to the same files
                    samples = [] if saved is None else self._final_samples(saved)
        except TrainingError:
            with contextlib.suppress(CheckpointError):  # the first error is the one to report
                task.save()
            raise
        self._recorder.show_account(self._timers.account(self._clock))
        return LoopResult(reason, time.monotonic() - started, saved, samples)

    def _train(self, stop: StopOnSignal, started: float) -> StopReason:
        task, recorder = self._task, self._recorder
        if self._is_out_of_patience():
            return StopReason.PATIENCE
        recorder.resume_clock()
        for taken in take_steps(task, self._clock, task.total_steps - task.step):
            self._record(taken)
            if self._run_events():
                recorder.resume_clock()
            if (reason := self._reason_to_stop(stop, started, taken.finished)) is not None:
                return reason
        return StopReason.FINISHED

    def _record(self, taken: TakenStep) -> None:
        task, recorder = self._task, self._recorder
        facts = task.describe(taken.batches)
        recorder.add(taken.step, taken.metrics, facts.clips, facts.frames)
        task.check_retracing(taken.batches)
        if taken.step % self._settings.log_interval == 0:
            recorder.flush()
        recorder.status.add_step(taken.step, *self._clock.finish(group=facts.group), group=facts.group)
        self._display.advance(taken.step)
        if taken.finished is not None:
            recorder.show_first_steps(taken.finished)

    def _reason_to_stop(self, stop: StopOnSignal, started: float, finished: np.ndarray | None) -> StopReason | None:
        if self._is_out_of_patience():
            return StopReason.PATIENCE
        reason = StopReason.SIGNAL if stop.is_requested else None
        max_minutes = self._settings.max_minutes
        if max_minutes is not None and time.monotonic() - started > 60 * max_minutes:
            reason = StopReason.TIME
        if self._task.confirm_stop(reason is not None, finished):
            return reason or StopReason.SIGNAL  # of another worker
        return None

    def _is_out_of_patience(self) -> bool:
        return self._task.history.is_out_of_patience(self._settings.early_stopping_patience)

    def _lacks_validation(self, reason: StopReason) -> bool:
        """Whether the last weights are not validated yet, and there is time for it."""
        is_validated = self._task.step % self._settings.validation_interval == 0
        return self._task.can_validate and not is_validated and reason is not StopReason.SIGNAL

    def _run_events(self) -> bool:
        """Do what is due after this step; true if anything was."""
        task = self._task
        has_evaluation = task.has_evaluation
        self._take_evaluation()
        due = due_events(
            task.step, task.total_steps, self._settings, can_validate=task.can_validate, has_evaluation=has_evaluation
        )
        is_best = self._validate() if due.validation else False
        if not (due.checkpoint or due.sample or due.evaluation or is_best):
            return due.validation
        saved = self._try_to_save()
        if saved is None:
            return True
        if due.evaluation:
            self._start_evaluation(saved)
        # The best checkpoint of a run with an evaluation is chosen by that, of any other run by validation.
        if is_best and not has_evaluation:
            self._mark_best(saved)
        if due.sample:
            with self._recorder.counted_as_logging():
                task.draw(self._recorder.logbook)
            self._recorder.logbook.submit(lambda: task.sample(saved, self._recorder.logbook), "Spoken samples")
        return True

    def _validate(self) -> bool:
        """Validate; true if the loss is the lowest so far."""
        task = self._task
        with self._timers.stage("validation"), self._recorder.state("validating"):
            losses = task.validate(self._display.validating)
        self._recorder.logbook.scalars("validation", task.step, losses)
        shown = ", ".join(f"{name} {value:.4f}" for name, value in losses.items())
        self._display.line(f"Step {task.step}: validation {shown}")
        is_best = task.history.note_validation(losses["loss"], task.step)
        if (line := task.lower_learning_rate()) is not None:
            self._display.line(f"Step {task.step}: {line}")
        return is_best

    def _start_evaluation(self, saved: SavedCheckpoint) -> None:
        """Begin to measure a checkpoint, unless the one before is still being measured."""
        running = self._evaluation.running
        if not self._evaluation.start(saved):
            before = "an earlier step" if running is None else running.path.name
            self._display.line(
                f"Step {self._task.step}: not evaluated, because the evaluation of {before} is still running."
            )

    def _take_evaluation(self, timeout_seconds: float = 0.0) -> bool:
        """Log an evaluation that has ended; true if its character error rate is the lowest so far."""
        outcome = self._evaluation.take(timeout_seconds)
        if outcome is None:
            return False
        name = outcome.what.path.name
        if outcome.metrics is None:
            self._display.line(f"The evaluation of {name} failed: {outcome.failure} Training continues.")
            return False
        self._recorder.logbook.scalars("evaluation", outcome.what.step, outcome.metrics)
        shown = ", ".join(f"{metric} {value:.3f}" for metric, value in outcome.metrics.items())
        self._display.line(f"Step {outcome.what.step}: evaluation {shown}")
        is_best = self._task.history.note_evaluation(outcome.metrics["cer"])
        if is_best:
            self._mark_best(outcome.what)
        return is_best

    def _await_evaluation(self, stop: StopOnSignal) -> bool:
        """After the last step: wait for the evaluation that is running; true if it is the best one."""
        is_best = self._take_evaluation()
        if self._evaluation.running is not None:
            self._display.line(f"Waiting for the evaluation of {self._evaluation.running.path.name}.")
        while self._evaluation.running is not None and not stop.is_requested:
            is_best = self._take_evaluation(POLL_SECONDS) or is_best
        return is_best

    def _save(self) -> SavedCheckpoint | None:
        with self._recorder.state("saving"), self._timers.stage("checkpoint"):
            return self._task.save()

    def _try_to_save(self) -> SavedCheckpoint | None:
        """Save in the middle of a run: a full disk is reported, not fatal, because there may be space the next time."""
        try:
            return self._save()
        except CheckpointError as error:
            self._display.line(f"Step {self._task.step}: {error} Training continues.")
            return None

    def _mark_best(self, saved: SavedCheckpoint) -> None:
        try:
            self._task.mark_best(saved)
        except CheckpointError as error:
            self._display.line(f"Step {self._task.step}: {error}")

    def _final_samples(self, saved: SavedCheckpoint) -> list[Path]:
        """Samples that a full disk prevents can be made later from the checkpoint."""
        try:
            return self._task.sample(saved, None)
        except (OSError, MyXTTSError) as error:
            self._display.line(f"Spoken samples could not be produced: {error}")
            return []
