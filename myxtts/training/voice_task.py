"""The training of a voice as a `task.Task`: its network and steps, its batches, validation, checkpoints and spoken samples."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import keras
import numpy as np
import tensorflow as tf

from myxtts.audio.files import read_audio
from myxtts.batch import Batch, BatchShape
from myxtts.batches.feed import Feed, validation_batches
from myxtts.config.config import XTTSConfig
from myxtts.errors import TrainingError
from myxtts.models.xtts import XTTS
from myxtts.runtime.compilation import RetraceWatch
from myxtts.runtime.progress import ignore_line
from myxtts.runtime.safe_files import write_atomically
from myxtts.runtime.status import ALIGNMENT_FILE
from myxtts.synthesis.samples import speak_in_child
from myxtts.training.checkpoint import keep_newest, mark_best, save_checkpoint
from myxtts.training.failures import check_layers
from myxtts.training.hardware import Hardware
from myxtts.training.optimization import OptimizationSettings, resolve_optimization
from myxtts.training.run_log import Logbook
from myxtts.training.state import RunHistory, TrainState, to_checkpoint
from myxtts.training.steps import COUNT_OF, METRICS, VALIDATION_SUMS, Steps, learning_kind, total_loss
from myxtts.training.task import SavedCheckpoint, StepFacts
from myxtts.training.training_corpus import TrainingCorpus
from myxtts.training.voice_export import VOICE_NAME, alignment_picture, export_voice


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


Evaluate = Callable[[Path], dict[str, float]]
"""Measures the voice in a folder. The command line passes it in, so that training never imports evaluation. It is called in a
thread, so most of its work belongs into another process."""


@dataclass
class VoiceTask:
    """One voice in training. Made by `build_voice_task`."""

    config: XTTSConfig
    hardware: Hardware
    corpus: TrainingCorpus
    feed: Feed
    settings: OptimizationSettings
    total_steps: int
    state: TrainState
    steps: Steps
    watch: StepWatch
    history: RunHistory = field(default_factory=RunHistory)
    facts: dict[str, Any] = field(default_factory=dict)
    """What a voice must know of its corpus (`voice_export.corpus_facts`); saved with every checkpoint."""
    evaluation: Evaluate | None = None
    step: int = 0
    """Steps taken; `state.step` on the host."""

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return Path(self.config.training.checkpoint_dir)

    @property
    def can_validate(self) -> bool:
        """Whether there are held-out clips."""
        return self.corpus.validation_plan is not None

    @property
    def has_evaluation(self) -> bool:
        """Whether a callback measures the voice while it trains."""
        return self.evaluation is not None

    @property
    def learning_kind(self) -> str:
        """The kind of step that learns; a name in `Steps.functions`, followed by a shape."""
        return learning_kind(self.config.training.gradient_accumulation_steps)

    def described(self) -> dict[str, str]:
        """The first lines of a run, by their titles: hardware, data, network, optimization."""
        settings, training = self.settings, self.config.training
        limit = "" if training.max_minutes is None else f" or {training.max_minutes:g} minutes"
        return {
            **self.hardware.described(),
            **self.corpus.described(),
            "Network": f"{self.config.model.size}, {self.state.layout.size:,} parameters",
            "Optimization": f"{training.optimization_level}, learning rate {settings.learning_rate:g}, "
            f"{settings.warmup_steps} steps of warm-up, EMA {settings.ema_decay:g}",
            "Steps": f"{self.total_steps:,}{limit}, batches per step {training.gradient_accumulation_steps}",
        }

    # --- learning -------------------------------------------------------------------------------------------------

    def next_batches(self) -> list[Batch]:
        """The batches of the next step, `gradient_accumulation_steps` of them."""
        return [next(self.feed) for _ in range(self.config.training.gradient_accumulation_steps)]

    def learn(self, batches: Sequence[Batch]) -> tf.Tensor:
        """Start one step on the device; returns `steps.METRICS`."""
        metrics = self.steps.learn(batches)
        self.step += 1
        return metrics

    def learn_rows(self, batch: Batch, parts: int) -> tf.Tensor:
        """One step from a padded batch, split by rows into `parts` whose gradients are summed."""
        batches = [self.steps.replicated(part) for part in split_rows(batch, parts)]
        metrics = self.learn(batches)
        self.watch.observe_step(self.step, learning_kind(parts), batches)
        return metrics

    def describe(self, batches: Sequence[Batch]) -> StepFacts:
        """What the log records about these batches."""
        shapes = [self.steps.shape_of(batch) for batch in batches]
        plan = self.corpus.plan
        return StepFacts(
            clips=[clips for batch in batches for clips in self.steps.clips_of(batch)],
            frames=sum(shape.rows * shape.frames for shape in shapes),
            group=plan.shapes.index(shapes[0]) if plan.is_static else 0,
        )

    def check_retracing(self, batches: Sequence[Batch]) -> None:
        """Report what the last step traced or compiled again."""
        self.watch.observe_step(self.step, learning_kind(len(batches)), batches)

    def confirm_stop(self, is_wanted: bool, finished: np.ndarray | None) -> bool:
        """Whether the run stops now. Signals and clocks belong to one worker; the metrics of a step are the same for all."""
        if self.hardware.cluster is None:
            return is_wanted
        if is_wanted:
            self.steps.stop_request.assign(1.0)
        return finished is not None and finished[METRICS.index("stop_requests")] > 0

    # --- validation -----------------------------------------------------------------------------------------------

    def validate(self, on_batch: Callable[[int], None] = lambda batches: None) -> dict[str, float]:
        """Mean losses over every held-out clip, each once, with the weights that a voice gets (the EMA)."""
        sums = np.zeros(len(VALIDATION_SUMS), np.float32)
        with self.state.with_ema_weights():
            for count, batch in enumerate(self.validation_batches(), 1):
                sums += self.steps.local(self.steps.validate(batch)).numpy()
                on_batch(count)
        named = dict(zip(VALIDATION_SUMS, sums.tolist(), strict=True))
        if math.isfinite(named["predicted_frames"]):  # otherwise a voice speaks with the scale of the validation before
            self.history.duration_scale = named["frames"] / max(named["predicted_frames"], 1.0)
        terms = {term: named[term] / named[count] for term, count in COUNT_OF.items()}
        terms["speaker"] = 0.0  # the loss of a voice has no classifiers, one of which is trained adversarially
        loss = total_loss(list(terms.values()))
        shown = {name: value for name, value in terms.items() if name in self._shown_terms()}
        return {"loss": loss, **shown, "duration_scale": self.history.duration_scale}

    def _shown_terms(self) -> tuple[str, ...]:
        """The terms of the validation loss that this network has."""
        return ("flow", "prior", "duration", *(("pitch",) if self.state.model.spec.pitch else ()))

    def validation_batches(self) -> Iterator[Batch]:
        """Every held-out clip once."""
        plan = self.corpus.validation_plan
        if plan is None:
            raise TrainingError("No clip is held out for validation. Raise data.validation_share, or give --val-data.")
        strategy = self.hardware.data_strategy
        return validation_batches(self.corpus.cache, plan, self.config.data, strategy, tables=self.feed.reader.tables)

    def lower_learning_rate(self) -> str | None:
        """Lower the learning rate if the validation loss is on a plateau; returns a line about it."""
        if not self.history.takes_plateau(self.settings.plateau_patience):
            return None
        self.state.rate_factor.assign(self.state.rate_factor * self.settings.plateau_factor)
        return f"validation is flat, learning rate x {float(self.state.rate_factor.numpy()):g}."

    # --- checkpoints and voices -----------------------------------------------------------------------------------

    def save(self) -> SavedCheckpoint | None:
        """Write a checkpoint and remove old ones; None on a worker that is not the chief."""
        if not self.hardware.is_chief:
            return None
        checkpoint = to_checkpoint(
            self.state,
            self.config,
            self.facts,
            self.history,
            self.feed.position,
            self.corpus.plan_fingerprint,
            self.hardware.facts(),
        )
        path = save_checkpoint(self.folder, checkpoint)
        keep_newest(self.folder, self.config.training.keep_checkpoints)
        return SavedCheckpoint(path, checkpoint)

    def mark_best(self, saved: SavedCheckpoint) -> None:
        """Keep a checkpoint as best/, also one that `save` has removed while it was evaluated."""
        is_removed = not saved.path.exists()
        if is_removed:
            save_checkpoint(self.folder, saved.checkpoint)
        mark_best(self.folder, saved.path)
        if is_removed:
            keep_newest(self.folder, self.config.training.keep_checkpoints)

    def evaluate(self, saved: SavedCheckpoint) -> dict[str, float]:
        """Export the voice of a checkpoint and measure it; in a thread next to the training."""
        if self.evaluation is None:
            return {}
        with self.watch.compiling():
            voice = export_voice(saved.checkpoint, self.folder / "evaluated-voice", corpus=self.corpus)
        return self.evaluation(voice)

    def draw(self, log: Logbook) -> None:
        """Submit a picture of the alignment of the first row of held-out clips."""
        if not self.can_validate or self.hardware.replicas > 1:
            return
        batch = next(iter(self.validation_batches()))
        with self.watch.compiling(), self.state.with_ema_weights():
            path = self.steps.align(batch)[0].numpy()
        gaps = int((batch.clips.numpy()[0] >= 0).sum()) * self.config.data.gap_frames
        frames = int(batch.mel_lengths.numpy()[0].sum()) + gaps
        mel, step = batch.mel[0].numpy(), self.step

        def draw() -> None:
            pixels = alignment_picture(path[:frames], mel[:frames])
            log.picture("alignment", step, pixels)
            write_atomically(self.folder / ALIGNMENT_FILE, tf.io.encode_png(pixels).numpy(), is_durable=False)

        log.submit(draw, "The picture of the alignment")

    def sample(self, saved: SavedCheckpoint, log: Logbook | None) -> list[Path]:
        """Export the voice of a checkpoint and speak the fixed sentences in another process."""
        with self.watch.compiling():
            voice = export_voice(saved.checkpoint, self.folder / VOICE_NAME, corpus=self.corpus)
        stem = saved.path.name
        paths = speak_in_child(voice, self.folder / "samples", stem)
        if log is not None:
            for path in paths:
                log.audio(f"sample/{path.stem.removeprefix(f'{stem}-')}", saved.step, *read_audio(path))
        return paths


def build_voice_task(
    config: XTTSConfig,
    hardware: Hardware,
    corpus: TrainingCorpus,
    feed: Feed,
    announce: Callable[[str], None] = ignore_line,
) -> VoiceTask:
    """The network of a run with new weights, and its steps; nothing is traced yet. `announce` prints retraces."""
    training = config.training
    total_steps = count_steps(corpus.plan.batches_in(training.epochs), config)
    settings = resolve_optimization(training, config.model.size, total_steps)
    keras.utils.set_random_seed(training.seed)  # process-wide: the initializers of the network draw from it
    with hardware.strategy.scope():
        model = XTTS(corpus.model_spec(config.model), dtype=hardware.dtype_policy)
        model.build()
        if training.enable_eager_debug:
            check_layers(model)
        state = TrainState(model, settings.ema_decay > 0, hardware.uses_loss_scale)
    steps = Steps(
        state,
        settings,
        seed=training.seed,
        strategy=hardware.strategy,
        uses_xla=hardware.xla.compiles_step,
        graph_mode=hardware.graph_mode,
        checks_numbers=training.enable_eager_debug,
    )
    watch = StepWatch(steps, announce, training.on_retrace)
    return VoiceTask(config, hardware, corpus, feed, settings, total_steps, state, steps, watch)


def count_steps(batches: float, config: XTTSConfig) -> int:
    """Steps of a run over so many batches; the last one may reach into the next epoch."""
    # Rounded: the sum over the shapes may miss a whole number by a last bit.
    steps = math.ceil(round(batches / config.training.gradient_accumulation_steps, 6))
    return steps if config.training.max_steps is None else min(steps, config.training.max_steps)


def batch_of_rows(text, mel, text_lengths, mel_lengths) -> Batch:
    """A batch of one clip per row; one language, no reference.

    Args:
        text: int32 (batch, symbols).
        mel: float32 (batch, frames, n_mels).
        text_lengths, mel_lengths: int32 (batch,).
    """
    rows, n_mels = mel.shape[0], mel.shape[2]
    zeros = tf.zeros((rows, 1), tf.int32)
    return Batch(
        tokens=tf.cast(text, tf.int32),
        mel=tf.cast(mel, tf.float32),
        text_lengths=tf.cast(text_lengths, tf.int32)[:, tf.newaxis],
        mel_lengths=tf.cast(mel_lengths, tf.int32)[:, tf.newaxis],
        token_starts=zeros,
        frame_starts=zeros,
        clips=tf.range(rows)[:, tf.newaxis],
        speakers=zeros,
        languages=zeros,
        bands=tf.fill((rows, 1), n_mels),
        noise=tf.zeros((rows, 1)),
        references=tf.zeros((rows, 1, 0, n_mels)),
        pitch=tf.zeros((rows, 0)),
    )


def split_rows(batch: Batch, parts: int) -> list[Batch]:
    """The batch in parts with the same number of rows."""
    rows = batch.tokens.shape[0]
    if rows % parts:
        raise TrainingError(
            f"A batch of {rows} rows cannot be split into gradient_accumulation_steps={parts} equal parts. "
            f"Try {rows + parts - rows % parts} rows."
        )
    return [Batch(*fields) for fields in zip(*(tf.split(part, parts) for part in batch), strict=True)]
