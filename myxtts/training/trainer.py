"""The outer loop of training: the order of events. Everything that is compiled is in `steps`, everything decided is plain.

In: a configuration. Out: checkpoints, a log and a voice in `checkpoint_dir`, and a `RunSummary`.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from myxtts.batch import Batch
from myxtts.batches.feed import Feed, open_feed, validation_batches
from myxtts.batches.plan import Position
from myxtts.config.config import XTTSConfig
from myxtts.errors import CheckpointError, MyXTTSError, TrainingError
from myxtts.models.spec import ModelSpec
from myxtts.models.xtts import XTTS
from myxtts.runtime.compilation import Retrace
from myxtts.runtime.locks import RunLock
from myxtts.runtime.timers import Stage, StageTimers, StepClock
from myxtts.training.autotune import open_tuned_corpus
from myxtts.training.checkpoint import (
    Checkpoint,
    apply_snapshot,
    keep_newest,
    load_checkpoint,
    mark_best,
    save_checkpoint,
    take_snapshot,
)
from myxtts.training.display import Display, RunSummary, StopOnSignal, announce_run, summarize_run
from myxtts.training.failures import Place, explained_failures
from myxtts.training.hardware import Hardware, set_up_hardware
from myxtts.training.initial_weights import settle_start, start_weights
from myxtts.training.optimization import resolve_optimization
from myxtts.training.progress import StopReason
from myxtts.training.resume import find_run
from myxtts.training.run_log import Logbook
from myxtts.training.run_recorder import Recorder
from myxtts.training.state import TrainState
from myxtts.training.steps import METRICS, VALIDATION_SUMS, Steps, StepWatch, batch_of_rows, learning_kind, split_rows
from myxtts.training.voices import (
    VOICE_NAME,
    add_earlier_training,
    alignment_picture,
    corpus_facts,
    export_voice,
    speak_samples,
)

Evaluate = Callable[[Path], dict[str, float]]
"""Measures the voice in a folder; handed in by the command line, so that training never imports evaluation."""


class XTTSTrainer:
    """Trains one voice. `train()` does everything; the step methods are there for scripts of one's own."""

    def __init__(
        self,
        config: XTTSConfig,
        *,
        display: Display | None = None,
        strategy: tf.distribute.Strategy | None = None,
        evaluate: Evaluate | None = None,
        starts_anew: bool = False,
    ):
        """`starts_anew` ignores the checkpoints of an earlier run in `checkpoint_dir` (`--reset-training`)."""
        self.config = config
        self.display = display or Display()
        self.folder = Path(config.training.checkpoint_dir)
        self.timers = StageTimers()
        self.clock = StepClock()
        self._evaluate = evaluate
        with self.timers.stage("device"):
            self.hardware: Hardware = set_up_hardware(config.training, strategy, self.display.line)
        self.place = Place()
        self._to_close = contextlib.ExitStack()
        try:
            if self.hardware.is_chief:  # before anything in the folder is read or moved
                self._to_close.enter_context(RunLock(self.folder))
            with explained_failures(self.place, self.hardware.cluster):
                self._set_up(starts_anew)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> XTTSTrainer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop loading batches and let other processes use the folder of the run. `train` does it at its end."""
        self._to_close.close()

    def _set_up(self, starts_anew: bool) -> None:
        with self.timers.stage("corpus"), self.display.progress() as progress:
            config = settle_start(self.config, starts_anew, self.display.line)
            self.config, self.corpus = open_tuned_corpus(config, self.hardware, self.display.line, progress)
        config = self.config
        spec = self.corpus.model_spec(config.model)
        self.facts = corpus_facts(spec, self.corpus.cache, config.data)
        self.plan_fingerprint = self.corpus.plan.fingerprint(self.corpus.cache.content_id)
        saved, self.progress = find_run(
            self.folder,
            config,
            self.facts,
            self.plan_fingerprint,
            self.display.line,
            starts_anew,
            self.hardware.is_chief,
        )
        self.facts = add_earlier_training(self.facts, saved, config.training.init_from)
        # The loader fills its first batches while the network is built and compiled.
        self.feed = self._to_close.enter_context(self._open_feed(saved))
        with self.timers.stage("network"):
            self._build(spec)
            if saved:
                apply_snapshot(self.state, saved, self.display.line)
                for line in self.hardware.changes_since(saved.hardware):
                    self.display.line(line)
            else:
                start_weights(self.state, config.training.init_from, self.corpus, self.display.line)
        self.step = int(self.state.step.numpy())
        self.place.fill_in(
            self.step, self.corpus.plan, self.state.layout.size, config.training.gradient_accumulation_steps
        )
        self.hardware.check_agreement(self.step, self.feed.position, self.corpus.cache.content_id)

    # --- the promised step methods --------------------------------------------------------------------------------

    def distributed_train_step(self, text, mel, text_lengths, mel_lengths) -> tf.Tensor:
        """Learn from one padded batch (one clip a row) on all replicas; returns `steps.METRICS`."""
        return self._learn_rows(split_rows(batch_of_rows(text, mel, text_lengths, mel_lengths), 1))

    def train_step_with_accumulation(self, text, mel, text_lengths, mel_lengths) -> tf.Tensor:
        """The same, in `gradient_accumulation_steps` parts one after the other, whose gradients are summed."""
        parts = self.config.training.gradient_accumulation_steps
        return self._learn_rows(split_rows(batch_of_rows(text, mel, text_lengths, mel_lengths), parts))

    def _learn_rows(self, batches: list[Batch]) -> tf.Tensor:
        batches = [self.steps.replicated(batch) for batch in batches]
        metrics = self.steps.learn(batches)
        self.step += 1
        self.watch.observe_step(self.step, learning_kind(len(batches)), batches)
        return metrics

    def validation_step(self, text, mel, text_lengths, mel_lengths) -> tf.Tensor:
        """Measure one padded batch; returns `steps.VALIDATION_SUMS`."""
        batch = self.steps.replicated(batch_of_rows(text, mel, text_lengths, mel_lengths))
        sums = self.steps.local(self.steps.validate(batch))
        self.watch.observe_step(self.step, "validation_step", [batch])
        return sums

    def check_retracing(self) -> tuple[Retrace, ...]:
        """Everything that was traced or compiled again after the warm-up; empty is good."""
        return self.watch.retraces

    # --- the run --------------------------------------------------------------------------------------------------

    def train(self) -> RunSummary:
        """Run to the end, to an early stop, or to a signal; leaves a checkpoint of the last step and closes the trainer."""
        try:
            with explained_failures(self.place, self.hardware.cluster):
                return self._train()
        finally:
            self.close()

    def _train(self) -> RunSummary:
        announce_run(self)
        self.warm_up()
        started = time.monotonic()
        files = self.hardware.with_own_files(self.config.training)
        clip_ids = self.corpus.cache.ids
        self.recorder = Recorder(files, self.display, self.clock, self.watch, self.progress, clip_ids)
        self.recorder.logbook.note("hardware", self.step, **self.hardware.facts())
        outcome = "failed"
        try:
            with StopOnSignal(self.display.line) as stop, self.display.training(self.total_steps, self.step):
                reason = self._loop(stop, started)
                self.recorder.flush()
                is_best = self._validate() if self._lacks_validation(reason) else False
                with self.recorder.state("saving"):
                    checkpoint = self.save()
                if is_best and checkpoint is not None and self._evaluate is None:
                    self._mark_best(checkpoint)
                self.recorder.logbook.drain()  # a sample that is still being spoken writes the same voice
                samples = self._speak_at_the_end(checkpoint) if checkpoint is not None else []
            outcome = "finished"
        except TrainingError:  # the weights are those of the last good step
            with contextlib.suppress(CheckpointError):
                self.save()
            raise
        finally:
            self.recorder.close(outcome)
        return summarize_run(self, reason, checkpoint, samples, time.monotonic() - started)

    def _lacks_validation(self, reason: StopReason) -> bool:
        """Whether the last weights are not validated yet, and there is time for it."""
        is_validated = self.step % self.config.training.validation_interval == 0
        return self.corpus.validation_plan is not None and not is_validated and reason is not StopReason.SIGNAL

    def _loop(self, stop: StopOnSignal, started: float) -> StopReason:
        training = self.config.training
        if self.progress.is_out_of_patience(training.early_stopping_patience):
            return StopReason.PATIENCE
        previous: tf.Tensor | None = None
        self.recorder.resume_clock()
        while self.step < self.total_steps:
            batches = [next(self.feed) for _ in range(training.gradient_accumulation_steps)]
            self.clock.mark(Stage.WAIT)
            metrics = self.steps.learn(batches)
            # One step stays in flight: the device has work while the host waits for the one before.
            finished = None if previous is None else previous.numpy()
            self.clock.mark(Stage.DEVICE)
            previous = metrics
            self.step += 1
            self.place.step = self.step
            self._note_step(metrics, batches)
            if finished is not None:
                self.recorder.show_first_steps(finished)
            if self._run_events():
                self.recorder.resume_clock()
            if (reason := self._reason_to_stop(stop, started, finished)) is not None:
                return reason
        return StopReason.FINISHED

    def _reason_to_stop(self, stop: StopOnSignal, started: float, finished: np.ndarray | None) -> StopReason | None:
        """Why the run ends after this step, if it does. `finished`: the metrics of the step before."""
        training = self.config.training
        if self.progress.is_out_of_patience(training.early_stopping_patience):
            return StopReason.PATIENCE
        reason = StopReason.SIGNAL if stop.is_requested else None
        if training.max_minutes is not None and time.monotonic() - started > 60 * training.max_minutes:
            reason = StopReason.TIME
        if self.hardware.cluster is None:
            return reason
        # Signals and clocks are each worker's own: what one of them wishes, all of them read in the metrics of the same step.
        if reason is not None:
            self.steps.stop_wish.assign(1.0)
        if finished is not None and finished[METRICS.index("stop_wishes")] > 0:
            return reason or StopReason.SIGNAL
        return None

    def _note_step(self, metrics: tf.Tensor, batches: list[Batch]) -> None:
        shapes = [self.steps.shape_of(batch) for batch in batches]
        self.recorder.add(
            self.step,
            metrics,
            [clips for batch in batches for clips in self.steps.clips_of(batch)],
            sum(s.rows * s.frames for s in shapes),
        )
        self.watch.observe_step(self.step, learning_kind(len(batches)), batches)
        if self.step % self.config.training.log_interval == 0:
            self.recorder.flush()
        group = self.corpus.plan.shapes.index(shapes[0]) if self.corpus.plan.is_static else 0
        wait, host, device = self.clock.finish(group=group)
        self.recorder.status.add_step(self.step, wait, host, device, group=group)
        self.display.advance(self.step)

    def _run_events(self) -> bool:
        """Whatever is due at this step besides learning; true if anything was."""
        training = self.config.training
        is_validation = self.corpus.validation_plan is not None and self.step % training.validation_interval == 0
        is_sample = self.step % training.sample_interval == 0 and self.step < self.total_steps
        is_evaluation = self._evaluate is not None and self.step % training.evaluation_interval == 0
        is_best = self._validate() if is_validation else False
        if not (self.step % training.checkpoint_interval == 0 or is_sample or is_evaluation or is_best):
            return is_validation
        folder = self._save_or_tell()
        if folder is None:
            return True
        if is_evaluation:
            is_best = self._measure_voice(folder)
        # A run that is evaluated has its best checkpoint by that, any other by validation.
        if is_best and (is_evaluation or self._evaluate is None):
            self._mark_best(folder)
        if is_sample:
            with self.recorder.charged():
                self._draw_alignment()
            self.recorder.logbook.submit(lambda: self._speak(folder, self.recorder.logbook), "Spoken samples")
        return True

    def _measure_voice(self, checkpoint: Path) -> bool:
        """Let the evaluation judge the checkpoint's voice; true if its character error is the lowest so far."""
        with self.timers.stage("evaluation"):
            saved = load_checkpoint(checkpoint)
            figures = self._evaluate(export_voice(saved, self.folder / "evaluated-voice", corpus=self.corpus))
        self.recorder.logbook.scalars("evaluation", self.step, figures)
        shown = ", ".join(f"{name} {value:.3f}" for name, value in figures.items())
        self.display.line(f"Step {self.step}: evaluation {shown}")
        return self.progress.note_evaluation(figures["cer"])

    def _validate(self) -> bool:
        with self.timers.stage("validation"), self.recorder.state("validating"):
            losses = self.validate()
        self.recorder.logbook.scalars("validation", self.step, losses)
        self.display.line(
            f"Step {self.step}: validation " + ", ".join(f"{name} {value:.4f}" for name, value in losses.items())
        )
        is_best = self.progress.note_validation(losses["loss"], self.step)
        if self.progress.takes_plateau(self.settings.plateau_patience):
            self.state.rate_factor.assign(self.state.rate_factor * self.settings.plateau_factor)
            self.display.line(
                f"Step {self.step}: validation is flat, learning rate x {float(self.state.rate_factor.numpy()):g}."
            )
        return is_best

    def validate(self) -> dict[str, float]:
        """Mean losses over every held-out clip, each once, with the weights that a voice gets."""
        with self.state.averaged():
            sums = np.zeros(len(VALIDATION_SUMS), np.float32)
            for number, batch in enumerate(self._validation_batches(), 1):
                sums += self.steps.local(self.steps.validate(batch)).numpy()
                self.display.validating(number)
        named = dict(zip(VALIDATION_SUMS, sums.tolist(), strict=True))
        if math.isfinite(named["predicted_frames"]):  # otherwise a voice speaks with the scale of the validation before
            self.progress.duration_scale = named["frames"] / max(named["predicted_frames"], 1.0)
        flow, prior = named["flow"] / named["frames"], named["prior"] / named["frames"]
        duration = named["duration"] / named["symbols"]
        terms = {"flow": flow, "prior": prior, "duration": duration, "duration_scale": self.progress.duration_scale}
        return {"loss": flow + prior + duration} | terms

    def _validation_batches(self) -> Iterator[Batch]:
        strategy = self.hardware.strategy if self.hardware.replicas > 1 else None
        tables = self.feed.reader.tables
        return validation_batches(
            self.corpus.cache, self.corpus.validation_plan, self.config.data, strategy, tables=tables
        )

    def _speak(self, checkpoint: Path, logbook: Logbook | None = None) -> list[Path]:
        """Make the checkpoint a voice, and let it speak the fixed sentences."""
        saved = load_checkpoint(checkpoint)
        voice = export_voice(saved, self.folder / VOICE_NAME, corpus=self.corpus)
        return speak_samples(voice, self.folder / "samples", saved.step, logbook)

    def _speak_at_the_end(self, checkpoint: Path) -> list[Path]:
        """What a full disk keeps from being spoken can be spoken later: the checkpoint is there."""
        try:
            return self._speak(checkpoint)
        except (OSError, MyXTTSError) as error:
            self.display.line(f"Spoken samples could not be made: {error}")
            return []

    def _draw_alignment(self) -> None:
        """The alignment of the first row of held-out clips, for TensorBoard."""
        if self.corpus.validation_plan is None or self.hardware.replicas > 1:
            return
        batch = next(iter(self._validation_batches()))
        with self.watch.compiling(), self.state.averaged():
            path = self.steps.align(batch)[0].numpy()
        mel, step, logbook = batch.mel[0].numpy(), self.step, self.recorder.logbook
        frames = int(
            batch.mel_lengths.numpy()[0].sum() + (batch.clips.numpy()[0] >= 0).sum() * self.config.data.gap_frames
        )
        picture = "The picture of the alignment"
        logbook.submit(
            lambda: logbook.picture("alignment", step, alignment_picture(path[:frames], mel[:frames])), picture
        )

    # --- building, saving, restoring ------------------------------------------------------------------------------

    def warm_up(self) -> None:
        """Trace and compile every step before it is needed; afterwards anything new is reported."""
        self.warm_up_training()
        if self.corpus.validation_plan is not None and self.corpus.plan.is_static:
            with self.timers.stage("compile"):
                for shape in self.corpus.validation_plan.shapes:
                    self.steps.warm_up(self.steps.validate, shape)
        kind = learning_kind(self.config.training.gradient_accumulation_steps)
        self.watch.end_warm_up(kind, self.corpus.plan.shapes if self.corpus.plan.is_static else ())

    def warm_up_training(self) -> None:
        """Trace and compile the steps that learn, with a line for each."""
        shapes = self.corpus.plan.shapes if self.corpus.plan.is_static else ()
        accumulated = self.config.training.gradient_accumulation_steps
        with self.timers.stage("compile"), self.display.progress() as progress:
            for number, shape in enumerate(shapes, 1):
                progress("compiling", number - 1, len(shapes))
                seconds = self.steps.warm_up(lambda batch: self.steps.learn([batch] * accumulated), shape)
                done = "Compiled" if self.hardware.graph_mode else "Tried"
                self.display.line(f"{done} step {number} of {len(shapes)} ({shape}) in {seconds:.1f} s")

    def save(self) -> Path | None:
        """Write a checkpoint; None on a worker that is not the chief."""
        if not self.hardware.is_chief:
            return None
        with self.timers.stage("checkpoint"):
            place, hardware = (self.feed.position, self.plan_fingerprint), self.hardware.facts()
            snapshot = take_snapshot(self.state, self.config, self.facts, self.progress, *place, hardware)
            folder = save_checkpoint(self.folder, snapshot)
            keep_newest(self.folder, self.config.training.keep_checkpoints)
        return folder

    def _save_or_tell(self) -> Path | None:
        """In the middle of a run a full disk is told, not fatal: there may be space before the next one."""
        try:
            with self.recorder.state("saving"):
                return self.save()
        except CheckpointError as error:
            self.display.line(f"Step {self.step}: {error} Training goes on.")
            return None

    def _mark_best(self, checkpoint: Path) -> None:
        try:
            mark_best(self.folder, checkpoint)
        except CheckpointError as error:
            self.display.line(f"Step {self.step}: {error}")

    def _open_feed(self, saved: Checkpoint | None) -> Feed:
        position: Position = saved.position if saved else (0, 0)
        strategy = self.hardware.strategy if self.hardware.replicas > 1 else None
        return open_feed(self.corpus.cache, self.corpus.plan, self.config.data, position, strategy)

    def _build(self, spec: ModelSpec) -> None:
        config = self.config
        batches = self.corpus.plan.batches_in(config.training.epochs)
        # Rounded: the sum over the shapes may miss a whole number by a last bit.
        self.total_steps = math.ceil(round(batches / config.training.gradient_accumulation_steps, 6))
        if config.training.max_steps is not None:
            self.total_steps = min(self.total_steps, config.training.max_steps)
        self.settings = resolve_optimization(config.training, config.model.size, self.total_steps)
        keras.utils.set_random_seed(config.training.seed)
        with self.hardware.strategy.scope():
            model = XTTS(spec, dtype=self.hardware.dtype_policy)
            model.build()
            self.state = TrainState(model, self.settings.ema_decay > 0, self.hardware.uses_loss_scale)
        self.steps = Steps(
            self.state,
            self.settings,
            seed=config.training.seed,
            strategy=self.hardware.strategy,
            uses_xla=self.hardware.uses_xla,
            graph_mode=self.hardware.graph_mode,
            checks_numbers=config.training.enable_eager_debug,
        )
        self.watch = StepWatch(self.steps, self.display.line, config.training.on_retrace)
