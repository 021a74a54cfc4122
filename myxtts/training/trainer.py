"""Training a voice, in order: open the corpus, plan, feed, build, restore or initialize, compile, loop, save, speak.

`XTTSTrainer._open` is the first half of that list and `XTTSTrainer.train` the second.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import tensorflow as tf

from myxtts.batches.feed import open_feed
from myxtts.batches.plan import AUTOMATIC_BATCH_SIZE
from myxtts.config.config import XTTSConfig
from myxtts.runtime.compilation import Retrace
from myxtts.runtime.locks import RunLock
from myxtts.runtime.progress import ignore_line
from myxtts.runtime.timers import StageTimers, StepClock
from myxtts.training.autotune import tune
from myxtts.training.display import Display, RunSummary, announcement
from myxtts.training.failures import FailureContext, explained_failures
from myxtts.training.hardware import Hardware, set_up_hardware
from myxtts.training.loop import Loop, LoopResult, LoopSettings
from myxtts.training.run_recorder import Recorded, RunRecorder, open_recorder
from myxtts.training.starting_config import resolve_starting_config
from myxtts.training.starting_state import find_run, initialize_weights, start_from
from myxtts.training.state import restore_checkpoint
from myxtts.training.steps import METRICS
from myxtts.training.training_corpus import TrainingCorpus, open_training_corpus
from myxtts.training.voice_export import add_earlier_training, corpus_facts
from myxtts.training.voice_task import Evaluate, VoiceTask, batch_of_rows, build_voice_task


class XTTSTrainer:
    """Trains one voice.

        with XTTSTrainer(config) as trainer:
            summary = trainer.train()

    The step methods are for scripts with a loop of their own. Nothing happens before the first call: `with`, `open`, `train`
    and the step methods all open the trainer if it is not open yet. After `close` the network stays usable.
    """

    def __init__(
        self,
        config: XTTSConfig,
        *,
        display: Display | None = None,
        strategy: tf.distribute.Strategy | None = None,
        evaluate: Evaluate | None = None,
        reset_training: bool = False,
    ):
        """
        Args:
            config: what to train, on what.
            display: where the run is shown; by default the console.
            strategy: replaces the choice by `training.device` and TF_CONFIG.
            evaluate: measures the voice in a folder, every `training.evaluation_interval` steps.
            reset_training: move an earlier run in `checkpoint_dir` out of the way instead of resuming it.
        """
        self.config = config
        self.display = display or Display()
        self.timers = StageTimers()
        self.clock = StepClock()
        self._strategy, self._evaluate, self._reset_training = strategy, evaluate, reset_training
        self._task: VoiceTask | None = None
        self._to_close = contextlib.ExitStack()

    def __enter__(self) -> XTTSTrainer:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> VoiceTask:
        """Prepare everything up to the first step; does nothing the second time."""
        if self._task is None:
            try:
                self._task = self._open()
            except BaseException:
                self.close()
                raise
        return self._task

    def close(self) -> None:
        """Stop loading batches, and let other processes use the folder of the run. `train` does it at its end."""
        self._to_close.close()

    @property
    def task(self) -> VoiceTask:
        """The voice in training: its network, steps, corpus, feed, history. Opens the trainer."""
        return self.open()

    @property
    def step(self) -> int:
        """Steps taken."""
        return self.task.step

    # --- before the first step --------------------------------------------------------------------------------------

    def _open(self) -> VoiceTask:
        line = self.display.line
        with self.timers.stage("device"):
            hardware = set_up_hardware(self.config.training, self._strategy, line)
        if hardware.is_chief:  # before anything in the folder is read or moved
            self._to_close.enter_context(RunLock(Path(self.config.training.checkpoint_dir)))
        with explained_failures(FailureContext, hardware.cluster):
            with self.timers.stage("corpus"):
                config, corpus = self._open_corpus(hardware)
            # The first weights: 1. those of the run in checkpoint_dir, unless it is reset; 2. those of init_from; 3. new ones.
            # `resolve_starting_config` has chosen the settings in the same order.
            facts = corpus_facts(corpus.model_spec(config.model), corpus.cache, config.data)
            saved, history = find_run(
                Path(config.training.checkpoint_dir),
                config,
                facts,
                corpus.plan_fingerprint,
                line,
                reset_training=self._reset_training,
                writes=hardware.is_chief,
            )
            # The loader fills its first batches while the network is built and compiled.
            position = (0, 0) if saved is None else saved.position
            feed = open_feed(corpus.cache, corpus.plan, config.data, position, hardware.data_strategy)
            self._to_close.enter_context(feed)
            with self.timers.stage("network"):
                task = build_voice_task(config, hardware, corpus, feed, line)
                if saved is not None:
                    restore_checkpoint(task.state, saved, line)
                    for change in hardware.changes_since(saved.hardware):
                        line(change)
                elif config.training.init_from is not None:
                    start_from(task.state, config.training.init_from, corpus, line)
                else:
                    initialize_weights(task.state, corpus, config.data.bandwidth_aware)
            task.step = int(task.state.step.numpy())
            task.history, task.evaluation = history, self._evaluate
            task.facts = add_earlier_training(facts, saved, config.training.init_from)
            hardware.check_agreement(task.step, feed.position, corpus.cache.content_id)
        return task

    def _open_corpus(self, hardware: Hardware) -> tuple[XTTSConfig, TrainingCorpus]:
        """The configuration with the settings that the first weights and the machine decide, and its corpus."""
        config = resolve_starting_config(self.config, self._reset_training, self.display.line)
        with self.display.progress() as progress:

            def opened(batch_size: int | None = None) -> TrainingCorpus:
                announce = self.display.line if batch_size is None else ignore_line
                return open_training_corpus(
                    config.data,
                    config.training,
                    hardware.replicas,
                    progress,
                    announce,
                    batch_size=batch_size,
                    with_pitch=config.model.pitch,
                )

            corpus = hardware.in_turn(opened)
            if config.data.auto_tune_performance:
                return tune(config, corpus, hardware, self.display.line, opened)
        if config.data.batch_size == "auto":
            self.display.line(
                f"data.batch_size: auto is {AUTOMATIC_BATCH_SIZE} clips per batch; with --auto-tune it is measured."
            )
        return config, corpus

    def _failure_context(self) -> FailureContext:
        task = self.task
        return FailureContext(
            task.step,
            task.corpus.plan.shapes[0],
            task.corpus.plan.mean_clips_per_batch(),
            task.config.training.gradient_accumulation_steps,
            task.state.layout.size,
        )

    # --- the run ------------------------------------------------------------------------------------------------------

    def train(self) -> RunSummary:
        """Run to the end, to an early stop, or to a signal; leaves a checkpoint of the last step and closes the trainer."""
        task = self.open()
        try:
            with explained_failures(self._failure_context, task.hardware.cluster):
                for line in announcement(task.config, task.corpus.max_mel_frames, task.described()):
                    self.display.line(line)
                self.warm_up()
                with self._open_recorder(task) as recorder:
                    recorder.logbook.note("hardware", task.step, **task.hardware.facts())
                    settings = LoopSettings.from_config(task.config.training)
                    loop = Loop(task, settings, recorder, self.display, self.clock, self.timers)
                    result = loop.run()
                return self._summarize(task, recorder, result)
        finally:
            self.close()

    def warm_up(self) -> None:
        """Trace and compile every step before it is needed; afterwards anything new is reported."""
        self.warm_up_training()
        task = self.task
        shapes = task.corpus.plan.shapes if task.corpus.plan.is_static else ()
        if task.corpus.validation_plan is not None and task.corpus.plan.is_static:
            with self.timers.stage("compile"):
                for shape in task.corpus.validation_plan.shapes:
                    task.steps.warm_up(task.steps.validate, shape)
        task.watch.end_warm_up(task.learning_kind, shapes)

    def warm_up_training(self) -> None:
        """Trace and compile the steps that learn, with a line for each."""
        task = self.task
        shapes = task.corpus.plan.shapes if task.corpus.plan.is_static else ()
        batches = task.config.training.gradient_accumulation_steps
        done = "Compiled" if task.hardware.graph_mode else "Tried"
        with self.timers.stage("compile"), self.display.progress() as progress:
            for number, shape in enumerate(shapes, 1):
                progress("compiling", number - 1, len(shapes))
                seconds = task.steps.warm_up(lambda batch: task.steps.learn([batch] * batches), shape)
                self.display.line(f"{done} step {number} of {len(shapes)} ({shape}) in {seconds:.1f} s")

    def _open_recorder(self, task: VoiceTask) -> RunRecorder:
        files = task.hardware.with_own_files(task.config.training)
        run = Recorded(
            metric_names=METRICS,
            clip_ids=task.corpus.cache.ids,
            nonfinite_limit=task.config.training.nonfinite_limit,
            display=self.display,
            clock=self.clock,
            watch=task.watch,
            history=task.history,
        )
        tensorboard = None if files.tensorboard_log_dir is None else Path(files.tensorboard_log_dir)
        return open_recorder(Path(files.checkpoint_dir), tensorboard, run)

    def _summarize(self, task: VoiceTask, recorder: RunRecorder, result: LoopResult) -> RunSummary:
        loop_seconds = max(self.clock.total_seconds, 1e-9)
        return RunSummary(
            reason=result.reason,
            step=task.step,
            seconds=result.seconds,
            loss=recorder.last_metrics.get("loss"),
            best_validation=task.history.best_loss,
            useful_frames_per_second=recorder.useful_frames / loop_seconds,
            padding_fraction=1 - task.corpus.plan.useful_fraction(epochs=1),
            steps=self.clock.summary(),
            counts=task.watch.counts(),
            counts_after_warmup=task.watch.counts_since_warmup(),
            compile_seconds=self.timers.seconds("compile"),
            skipped_steps=task.history.skipped_steps,
            scaled_down_steps=recorder.scaled_down_steps,
            logging_fraction=recorder.seconds / loop_seconds,
            checkpoint=None if result.saved is None else result.saved.path,
            samples=result.samples,
        )

    # --- step methods for other loops -----------------------------------------------------------------------------------

    def distributed_train_step(self, text, mel, text_lengths, mel_lengths) -> tf.Tensor:
        """Learn from one padded batch (one clip per row) on all replicas; returns `steps.METRICS`.

        Args:
            text: int32 (batch, symbols).
            mel: float32 (batch, frames, n_mels).
            text_lengths, mel_lengths: int32 (batch,).
        """
        return self.task.learn_rows(batch_of_rows(text, mel, text_lengths, mel_lengths), 1)

    def train_step_with_accumulation(self, text, mel, text_lengths, mel_lengths) -> tf.Tensor:
        """The same in `gradient_accumulation_steps` parts, one after the other, whose gradients are summed."""
        parts = self.task.config.training.gradient_accumulation_steps
        return self.task.learn_rows(batch_of_rows(text, mel, text_lengths, mel_lengths), parts)

    def validation_step(self, text, mel, text_lengths, mel_lengths) -> tf.Tensor:
        """Measure one padded batch without learning; returns `steps.VALIDATION_SUMS`."""
        task = self.task
        batch = task.steps.replicated(batch_of_rows(text, mel, text_lengths, mel_lengths))
        sums = task.steps.local(task.steps.validate(batch))
        task.watch.observe_step(task.step, "validation_step", [batch])
        return sums

    def check_retracing(self) -> tuple[Retrace, ...]:
        """Everything that was traced or compiled again after the warm-up; empty is good."""
        return self.task.watch.retraces
