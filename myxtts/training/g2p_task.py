"""The training of a letter tagger as a `task.Task`, and `train_tagger`, which runs it.

The texts of an epoch are a function of (seed, epoch) and of the words that were misread before it. A checkpoint holds those
words, so a run that was killed continues as if it had not been.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from myxtts.config.config import TrainingConfig
from myxtts.errors import CheckpointError, ConfigError, TrainingError
from myxtts.runtime.compilation import RetraceWatch
from myxtts.runtime.locks import RunLock
from myxtts.runtime.timers import StageTimers, StepClock
from myxtts.text.g2p_model import LetterTagger
from myxtts.training.checkpoint import (
    Checkpoint,
    finish_interrupted,
    keep_newest,
    load_newest,
    mark_best,
    save_checkpoint,
)
from myxtts.training.display import Display
from myxtts.training.g2p_tagger import LENGTHS, Labeled, LetterBatch, TaggerNetwork, TaggerSettings, batches_of, pad
from myxtts.training.hardware import Hardware, set_up_hardware
from myxtts.training.loop import Loop, LoopSettings, StopReason
from myxtts.training.optimization import UpdateRule, decay_mask, update_state
from myxtts.training.run_log import Logbook
from myxtts.training.run_recorder import Recorded, open_recorder
from myxtts.training.starting_state import move_earlier_run
from myxtts.training.state import RunHistory, TrainState
from myxtts.training.task import SavedCheckpoint, StepFacts

METRICS = ("loss", "tag_loss", "end_loss", "gradient_norm", "learning_rate", "skipped", "frames", "loss_scale")
"""Metrics of a step; "frames" are letters."""
_BETAS, _CLIP_NORM = (0.9, 0.999), 1.0
_CHECKPOINT_INTERVAL, _KEPT_CHECKPOINTS = 200, 2
"""Steps between checkpoints, and how many are kept. Chosen; not measured."""
_MISREAD_EVERY = 2
"""Epochs after which misread texts are searched again: reading all of them costs a part of an epoch."""
_NONFINITE_LIMIT = 10
"""As `training.nonfinite_limit` of a voice, for a run that takes fewer steps. Chosen; not measured."""


class TaggedTexts(Protocol):
    """What a tagger learns from."""

    def draw(self, generator: np.random.Generator, misread: np.ndarray) -> Sequence[Labeled]:
        """The texts of one epoch; `misread` as `find_misread` gave it, empty before."""
        ...

    def find_misread(self, tagger: LetterTagger) -> np.ndarray:
        """Indices, int32, of the texts that a tagger reads wrong and `draw` repeats."""
        ...


@dataclass(frozen=True)
class FixedTexts:
    """The same texts in every epoch."""

    examples: Sequence[Labeled]

    def draw(self, generator: np.random.Generator, misread: np.ndarray) -> Sequence[Labeled]:
        """All of them."""
        return self.examples

    def find_misread(self, tagger: LetterTagger) -> np.ndarray:
        """None is repeated."""
        return np.zeros(0, np.int32)


Batches = list[tuple[int, list[Labeled]]]


def draw_epoch(texts: TaggedTexts, settings: TaggerSettings, epoch: int, misread: np.ndarray) -> Batches:
    """The batches of an epoch, a function of seed, epoch and the texts that were misread before."""
    generator = np.random.default_rng((settings.seed, epoch))
    return batches_of(texts.draw(generator, misread), settings.letters_per_batch, generator)


@dataclass(repr=False)
class TaggerTask:
    """One tagger in training."""

    settings: TaggerSettings
    hardware: Hardware
    folder: Path
    texts: TaggedTexts
    held_out: Sequence[Labeled]
    """Texts for the validation loss."""
    num_marks: int
    network: TaggerNetwork
    state: TrainState
    is_decayed: tf.Tensor
    """Whether each weight decays (`decay_mask`)."""
    rule: UpdateRule
    build: Callable[[Mapping[str, np.ndarray]], LetterTagger]
    """Weights → the tagger for run time."""
    batches: Batches
    """Batches of the epoch of `position`: lengths and texts."""
    steps_per_epoch: int
    total_steps: int
    fingerprint: str
    step: int = 0
    position: tuple[int, int] = (0, 0)
    """(epoch, batch) of the next step."""
    misread: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    history: RunHistory = field(default_factory=RunHistory)
    watch: RetraceWatch = field(default_factory=RetraceWatch)
    has_evaluation: bool = False
    _steps: dict[str, Any] = field(default_factory=dict)

    # --- learning -----------------------------------------------------------------------------------------------------

    def find_misread(self) -> None:
        """Find the texts that the EMA of the weights reads wrong, for the next epochs."""
        self.misread = self.texts.find_misread(self.build(self.ema_weights()))

    def begin_epoch(self, epoch: int, row: int = 0) -> None:
        """Draw the texts of an epoch and continue at one of its batches."""
        self.position = (epoch, row)
        self.batches = draw_epoch(self.texts, self.settings, epoch, self.misread)

    def next_batches(self) -> list[LetterBatch]:
        """The batch of the next step."""
        epoch, row = self.position
        if row == len(self.batches):
            epoch, row = epoch + 1, 0
            if epoch % _MISREAD_EVERY == 0:
                self.find_misread()
            self.begin_epoch(epoch)
        self.position = (epoch, row + 1)
        length, members = self.batches[row]
        return [self._padded(length, members)]

    def _padded(self, length: int, members: Sequence[Labeled]) -> LetterBatch:
        return pad(length, max(1, self.settings.letters_per_batch // length), members, self.num_marks)

    def learn(self, batches: Sequence[LetterBatch]) -> tf.Tensor:
        """Start one step on the device; returns `METRICS`."""
        rate = tf.constant(self.settings.rate(self.step, self.total_steps), tf.float32)
        metrics = self._step_of(batches[0])(batches[0], tf.constant(self.step, tf.int32), rate)
        self.step += 1
        return metrics

    def _step_of(self, batch: LetterBatch) -> Any:
        name = _step_name(batch)
        if name not in self._steps:
            self._steps[name] = tf.function(self._train_step, autograph=False)
        return self._steps[name]

    def _train_step(self, batch: LetterBatch, step: tf.Tensor, rate: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self.state.weights)
            loss, tag_loss, end_loss = self._losses(batch, tf.stack([tf.constant(self.settings.seed, tf.int32), step]))
        gradient = self.state.layout.join(tape.gradient(loss, self.state.weights))
        norm = tf.sqrt(2 * tf.nn.l2_loss(gradient))
        is_finite = tf.math.is_finite(norm) & tf.math.is_finite(loss)
        letters = tf.reduce_sum(tf.cast(batch.rows >= 0, tf.float32))
        update_state(self.state, gradient, self.is_decayed, is_finite & (letters > 0), self.rule, rate)
        skipped = tf.cast(~is_finite, tf.float32)
        return tf.stack([loss, tag_loss, end_loss, norm, rate, skipped, letters, tf.constant(1.0)])

    def _losses(self, batch: LetterBatch, seed: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        tag_scores, end_scores = self.network(batch.rows, batch.marks, seed)
        weight = batch.weight[:, tf.newaxis]
        tag_mask = tf.cast(batch.tags >= 0, tf.float32) * weight
        tag_loss = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.maximum(batch.tags, 0), tag_scores) * tag_mask
        end_mask = tf.cast(batch.ends >= 0.0, tf.float32) * weight
        end_loss = tf.nn.sigmoid_cross_entropy_with_logits(tf.maximum(batch.ends, 0.0), end_scores) * end_mask
        size = tf.reduce_sum(tag_mask) + 1.0
        tag_loss, end_loss = tf.reduce_sum(tag_loss) / size, tf.reduce_sum(end_loss) / size
        return tag_loss + self.settings.end_weight * end_loss, tag_loss, end_loss

    def warm_up(self) -> None:
        """Trace the step of every length that the first epoch has, on a batch without texts, which changes nothing."""
        logger = tf.get_logger()
        level = logger.level
        logger.setLevel("ERROR")  # TensorFlow warns of retracing when five functions have the same body
        try:
            for length in sorted({length for length, _ in self.batches}):
                batch = self._padded(length, [])
                function, name = self._step_of(batch), _step_name(batch)
                function(batch, tf.constant(0, tf.int32), tf.constant(0.0)).numpy()
                self.watch.add(name, function)
                self.watch.expect(name, batch)
        finally:
            logger.setLevel(level)
        self.watch.warmed_up()

    def describe(self, batches: Sequence[LetterBatch]) -> StepFacts:
        """What the log records; steps are compared by the length of their texts."""
        size, length = batches[0].rows.shape
        no_clips = tf.constant([-1])  # texts have no ids that a message about a skipped step could name
        return StepFacts([no_clips], size * length, group=LENGTHS.index(length))

    def check_retracing(self, batches: Sequence[LetterBatch]) -> None:
        """Report what the last step traced again."""
        self.watch.observe(self.step, _step_name(batches[0]), batches[0], self._step_of(batches[0]))

    def confirm_stop(self, is_wanted: bool, finished: np.ndarray | None) -> bool:
        """One process decides alone."""
        return is_wanted

    # --- validation -----------------------------------------------------------------------------------------------------

    @property
    def can_validate(self) -> bool:
        """Whether texts are held out."""
        return bool(self.held_out)

    def validate(self, on_batch: Callable[[int], None] = lambda batches: None) -> dict[str, float]:
        """Losses of the held-out texts with the EMA of the weights, each batch weighted by its labels."""
        plan = batches_of(self.held_out, self.settings.letters_per_batch, np.random.default_rng(self.settings.seed))
        sums, labels = np.zeros(3), 0
        with self.state.with_ema_weights():
            for number, (length, members) in enumerate(plan):
                batch = self._padded(length, members)
                count = int(np.sum(batch.tags.numpy() >= 0))
                sums += tf.stack(self._losses(batch, None)).numpy() * count  # eagerly: a few batches per epoch
                labels += count
                on_batch(number + 1)
        losses = (sums / max(labels, 1)).tolist()
        return dict(zip(("loss", "tag_loss", "end_loss"), losses, strict=True))

    def lower_learning_rate(self) -> str | None:
        """The schedule alone decides."""
        return None

    # --- checkpoints ----------------------------------------------------------------------------------------------------

    def ema_weights(self) -> dict[str, np.ndarray]:
        """The EMA of the weights by name: what the model gets."""
        parts = self.state.layout.parts(tf.convert_to_tensor(self.state.ema))
        return {name: part.numpy() for name, part in zip(self.state.names, parts, strict=True)}

    def save(self) -> SavedCheckpoint:
        """Write a checkpoint and remove old ones."""
        state = self.state
        checkpoint = Checkpoint(
            step=self.step,
            position=self.position,
            arrays={"weights": state.flat_weights(), **state.vectors(), "misread": self.misread},
            weight_names=state.names,
            weight_shapes=[list(shape) for shape in state.layout.shapes],
            scalars={"updates": state.updates.numpy().item()},
            config={"g2p": _plain(self.settings)},
            corpus={},
            progress=self.history.to_dict(),
            plan_fingerprint=self.fingerprint,
            hardware=self.hardware.facts(),
        )
        path = save_checkpoint(self.folder, checkpoint)
        keep_newest(self.folder, _KEPT_CHECKPOINTS)
        return SavedCheckpoint(path, checkpoint)

    def restore(self, saved: Checkpoint) -> None:
        """Continue where a checkpoint was taken."""
        if saved.config != {"g2p": _plain(self.settings)} or saved.plan_fingerprint != self.fingerprint:
            raise CheckpointError(
                f"{self.folder} has a run with different settings or data. Give the flags and the folder that it was "
                "started with, or --reset-training."
            )
        self.state.assign_weights(saved.arrays["weights"])
        self.state.restore_vectors(saved.arrays)
        self.state.updates.assign(np.int64(saved.scalars["updates"]))
        self.step, self.history = saved.step, RunHistory.restored(saved.progress)
        self.misread = saved.arrays["misread"]
        self.begin_epoch(*saved.position)

    def mark_best(self, saved: SavedCheckpoint) -> None:
        """Keep a checkpoint as best/."""
        mark_best(self.folder, saved.path)

    def evaluate(self, saved: SavedCheckpoint) -> dict[str, float]:
        """Nothing while training: benchmarks/text.py measures the model."""
        return {}

    def draw(self, log: Logbook) -> None:
        """There are no pictures."""

    def sample(self, saved: SavedCheckpoint, log: Logbook | None) -> list[Path]:
        """A tagger has no audio."""
        return []


def _step_name(batch: LetterBatch) -> str:
    return f"train_step {batch.rows.shape[1]}"


def _plain(settings: TaggerSettings) -> dict[str, Any]:
    return asdict(settings) | {"dilations": list(settings.dilations)}


def _fingerprint(settings: TaggerSettings, batches: Batches) -> str:
    """Changes with the texts and labels of the first epoch."""
    checksum = 0
    for _, members in batches:
        for member in members:
            checksum = zlib.crc32(member.tags.tobytes(), zlib.crc32(member.rows.tobytes(), checksum))
    return f"{settings.seed}-{checksum:08x}"


@dataclass(frozen=True)
class TaggerData:
    """Everything that a tagger is trained from."""

    texts: TaggedTexts
    held_out: Sequence[Labeled]
    num_marks: int
    weights: Mapping[str, np.ndarray]
    """Weights to start from."""
    build: Callable[[Mapping[str, np.ndarray]], LetterTagger]
    is_trained: bool = False
    """Whether the weights are those of a trained tagger; misread texts are then searched before the first epoch."""


@dataclass(frozen=True)
class TaggerRun:
    """Where a tagger is trained, and how much of it is shown."""

    folder: Path
    """Folder of checkpoints and log; a run in it is resumed."""
    settings: TaggerSettings
    display: Display
    reset_training: bool = False
    """Move an earlier run out of the way instead of resuming it."""


def train_tagger(data: TaggerData, run: TaggerRun) -> LetterTagger:
    """Train to the end; the tagger has the exponential moving average of the weights.

    A run that is interrupted raises a `TrainingError` after it has saved a checkpoint.
    """
    if run.settings.epochs == 0:
        return data.build(data.weights)
    timers, clock, display = StageTimers(), StepClock(), run.display
    with RunLock(run.folder):
        task = _open_task(data, run)
        recorded = Recorded(METRICS, (), _NONFINITE_LIMIT, display, clock, task.watch, task.history, unit="letters")
        with open_recorder(run.folder, None, recorded) as recorder:
            result = Loop(task, _loop_settings(task), recorder, display, clock, timers).run()
        if result.reason is StopReason.SIGNAL:
            raise TrainingError(f"Stopped at step {task.step:,} of {task.total_steps:,}: {result.reason}.")
        return task.build(task.ema_weights())


def _loop_settings(task: TaggerTask) -> LoopSettings:
    return LoopSettings(
        log_interval=20,
        validation_interval=task.steps_per_epoch,
        checkpoint_interval=_CHECKPOINT_INTERVAL,
        sample_interval=task.total_steps,
        evaluation_interval=task.total_steps,
        early_stopping_patience=None,
        max_minutes=None,
    )


def _new_task(data: TaggerData, run: TaggerRun, hardware: Hardware) -> TaggerTask:
    """The task before its first step."""
    settings = run.settings
    network = TaggerNetwork(data.weights, settings)
    state = TrainState(network, keeps_ema=True)
    first = draw_epoch(data.texts, settings, 0, np.zeros(0, np.int32))
    return TaggerTask(
        settings=settings,
        hardware=hardware,
        folder=run.folder,
        texts=data.texts,
        held_out=data.held_out,
        num_marks=data.num_marks,
        network=network,
        state=state,
        is_decayed=decay_mask(state),
        rule=UpdateRule(_BETAS, _CLIP_NORM, settings.weight_decay, settings.ema_decay),
        build=data.build,
        batches=first,
        steps_per_epoch=len(first),
        total_steps=max(1, int(settings.epochs * len(first))),
        fingerprint=_fingerprint(settings, first),
    )


def _open_task(data: TaggerData, run: TaggerRun) -> TaggerTask:
    """The task of a run, resumed if there is one, with its steps traced."""
    folder, display = run.folder, run.display
    hardware = set_up_hardware(TrainingConfig(seed=run.settings.seed), None, display.line)
    if hardware.replicas > 1 or hardware.cluster is not None:
        raise ConfigError(
            "A G2P is trained on one device. Make one GPU visible (CUDA_VISIBLE_DEVICES=0), and unset TF_CONFIG."
        )
    if run.reset_training:
        move_earlier_run(folder, display.line)
    else:
        finish_interrupted(folder)
    saved, damaged = load_newest(folder)
    for each in damaged:
        display.line(each)
    task = _new_task(data, run, hardware)
    if saved is not None:
        task.restore(saved)
        display.line(f"Resuming at step {saved.step:,} from {folder}")
    elif data.is_trained:
        task.find_misread()
        task.begin_epoch(0)
    display.line(
        f"{task.steps_per_epoch:,} steps per epoch, {task.total_steps:,} in all; "
        f"{task.state.layout.size:,} parameters; {hardware.description}"
    )
    task.warm_up()
    return task
